package llmclient_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// read returns the text that a stream gives, and its error.
func read(s *llmclient.Stream) (string, error) {
	var text strings.Builder
	for ch, err := range s.All() {
		if err != nil {
			return text.String(), err
		}
		text.WriteString(ch.Content)
	}
	return text.String(), nil
}

func TestStreamGivesThePiecesAsTheyCome(t *testing.T) {
	inWorld(t, script(fake.Slowly(time.Second, fake.Answer("one two three"))), nil, func(t *testing.T, w *world) {
		s := w.client.Stream(t.Context(), hello())
		var at []time.Duration
		for ch, err := range s.All() {
			require.NoError(t, err)
			if ch.Content != "" {
				at = append(at, time.Since(w.start))
			}
		}
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, at)
		resp, err := s.Response()
		require.NoError(t, err)
		assert.Equal(t, "one two three", resp.Message.Content)
		assert.NotNil(t, resp.Usage)
	})
}

func TestStreamRetriesUnseenUntilTheFirstOutputAndNeverAfter(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		inWorld(t, script(fake.Unavailable(), fake.Reply(fake.Role(), fake.Cut()), fake.Answer("Hello")), nil, func(t *testing.T, w *world) {
			text, err := read(w.client.Stream(t.Context(), hello()))
			require.NoError(t, err)
			assert.Equal(t, "Hello", text)
			assert.Len(t, w.srv.Requests(), 3)
		})
	})
	t.Run("after", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("He"), fake.ToolDelta(0, "a", "run", `{"cmd":"rm`), fake.Pause(time.Millisecond), fake.Reset()), fake.Answer("Hello")), nil, func(t *testing.T, w *world) {
			text, err := read(w.client.Stream(t.Context(), hello()))
			e := failure(t, err, llmclient.ErrIncomplete)
			assert.Equal(t, "He", text)
			assert.Equal(t, "He", e.Partial.Message.Content)
			assert.Len(t, w.srv.Requests(), 1)
			assert.Equal(t, 1, w.client.Breaker().Failures, "the breaker hears how streams end")
		})
	})
	t.Run("Chat has until the whole answer", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("He"), fake.ToolDelta(0, "a", "run", `{"cmd":"rm`), fake.Pause(time.Millisecond), fake.Reset()),
			fake.Reply(fake.Text("Hello"), fake.CallTool("b", "run", `{"cmd":"ls"}`), fake.End("tool_calls"))), nil, func(t *testing.T, w *world) {
			resp, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "Hello", resp.Message.Content)
			require.Len(t, resp.Message.ToolCalls, 1)
			assert.Equal(t, `{"cmd":"ls"}`, resp.Message.ToolCalls[0].Arguments)
		})
	})
}

func TestAStreamThatStopsEndsWithWhatHadCome(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Text("half"), fake.Hang())), nil, func(t *testing.T, w *world) {
		text, err := read(w.client.Stream(t.Context(), hello()))
		e := failure(t, err, llmclient.ErrTimeout)
		assert.Equal(t, "half", text)
		assert.Equal(t, "half", e.Partial.Message.Content)
		assert.Equal(t, llmclient.ClockGap, e.Clock)
		w.elapsed(2 * time.Minute)
	})
}

func TestASlowConsumerIsNotASlowServer(t *testing.T) {
	inWorld(t, script(fake.Answer("one two three")), nil, func(t *testing.T, w *world) {
		var text string
		for ch, err := range w.client.Stream(t.Context(), hello()).All() {
			require.NoError(t, err)
			text += ch.Content
			time.Sleep(30 * time.Minute)
		}
		assert.Equal(t, "one two three", text)
		assert.Empty(t, w.ofKind(llmclient.EventSuspect))
	})
	t.Run("and does not hide a server that stops", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("one"), fake.Hang())), nil, func(t *testing.T, w *world) {
			for _, err := range w.client.Stream(t.Context(), hello()).All() {
				if err != nil {
					failure(t, err, llmclient.ErrTimeout)
					break
				}
				time.Sleep(30 * time.Minute)
			}
			w.elapsed(32 * time.Minute)
		})
	})
}

// However a stream is left, everything it held is given back, and the
// server sees the connection close.
func TestEveryWayOutOfAStreamGivesEverythingBack(t *testing.T) {
	ways := map[string]func(t *testing.T, w *world){
		"break": func(t *testing.T, w *world) {
			for range w.client.Stream(t.Context(), hello()).All() {
				break
			}
		},
		"panic": func(t *testing.T, w *world) {
			assert.Panics(t, func() {
				for range w.client.Stream(t.Context(), hello()).All() {
					panic("consumer")
				}
			})
		},
		"close in the loop": func(t *testing.T, w *world) {
			s := w.client.Stream(t.Context(), hello())
			for _, err := range s.All() {
				if err != nil {
					failure(t, err, llmclient.ErrClosed)
					break
				}
				require.NoError(t, s.Close())
			}
			_, err := s.Response()
			failure(t, err, llmclient.ErrClosed)
		},
		"close from elsewhere, while reading": func(t *testing.T, w *world) {
			s := w.client.Stream(t.Context(), hello())
			time.AfterFunc(5*time.Second+time.Millisecond/2, func() { _ = s.Close() })
			_, err := read(s)
			failure(t, err, llmclient.ErrClosed)
			w.elapsed(5*time.Second + time.Millisecond/2)
		},
		"close before the first output": func(t *testing.T, w *world) {
			s := w.client.Stream(t.Context(), hello())
			time.AfterFunc(time.Millisecond/2, func() { _ = s.Close() })
			_, err := read(s)
			failure(t, err, llmclient.ErrClosed)
			w.elapsed(time.Millisecond / 2)
		},
		"cancel while nobody reads": func(t *testing.T, w *world) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := w.client.Stream(ctx, hello())
			for _, err := range s.All() {
				if err != nil {
					failure(t, err, llmclient.ErrCanceled)
					break
				}
				cancel()
				synctest.Wait()
				assert.Zero(t, w.client.Pacer().InFlight, "the permit is back before anybody reads on")
				assert.Empty(t, w.client.InFlight())
			}
		},
		"deadline": func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := read(w.client.Stream(ctx, hello()))
			failure(t, err, llmclient.ErrDeadline)
			w.elapsed(time.Minute)
		},
		"the client is closed": func(t *testing.T, w *world) {
			time.AfterFunc(time.Minute, func() { _ = w.client.Close() })
			_, err := read(w.client.Stream(t.Context(), hello()))
			failure(t, err, llmclient.ErrClosed)
			_, err = w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrClosed)
		},
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Reply(fake.Headers(), fake.Pause(time.Millisecond), fake.Endless(100*time.Millisecond))), nil, func(t *testing.T, w *world) {
				leave(t, w)
				synctest.Wait()
				assert.Zero(t, w.client.Pacer().InFlight)
				assert.Empty(t, w.client.InFlight())
				assert.Len(t, w.ofKind(llmclient.EventDone), 1)
				assert.Zero(t, w.client.Breaker().Failures)
				require.NoError(t, w.srv.Await(t.Context(), func(s fake.Stats) bool { return s.Left == 1 }))
			})
		})
	}
}

func TestAStreamThatIsNotReadCostsNothing(t *testing.T) {
	inWorld(t, script(fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		s := w.client.Stream(t.Context(), hello())
		require.NoError(t, s.Close())
		_, err := read(s)
		failure(t, err, llmclient.ErrClosed)
		assert.Empty(t, w.srv.Requests())
	})
}

func TestStreamsOfAnEmptyAnswer(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Role(), fake.Finish("stop"), fake.Done())), nil, func(t *testing.T, w *world) {
		s := w.client.Stream(t.Context(), hello())
		text, err := read(s)
		require.NoError(t, err)
		assert.Empty(t, text)
		resp, err := s.Response()
		require.NoError(t, err)
		assert.True(t, resp.Empty())
	})
}

func TestAWholeMessageAtTheEndIsNotShownTwice(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Text("one "), fake.Text("two"),
		fake.Chunk(`{"choices":[{"index":0,"message":{"role":"assistant","content":"one two"},"finish_reason":"stop"}]}`), fake.Done())), nil, func(t *testing.T, w *world) {
		s := w.client.Stream(t.Context(), hello())
		text, err := read(s)
		require.NoError(t, err)
		assert.Equal(t, "one two", text)
		resp, err := s.Response()
		require.NoError(t, err)
		assert.Equal(t, "one two", resp.Message.Content)
	})
}

func TestTheFirstOutputIsNotLostBehindMuchThatIsNone(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Repeat(1000, time.Millisecond, fake.Role()), fake.Answer("one two"))), nil, func(t *testing.T, w *world) {
		text, err := read(w.client.Stream(t.Context(), hello()))
		require.NoError(t, err)
		assert.Equal(t, "one two", text)
	})
}

func TestAnAnswerWithAnotherStatusThatSaysYes(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Code(201), fake.Answer("ok"))), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, "ok", resp.Message.Content)
	})
}

func TestTheCallerHearsOfWaits(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.RetryAfter(7*time.Minute), fake.Throttled()), fake.Unavailable(), fake.Answer("ok")), func(c *llmclient.Config) {
		c.Retry.Jitter = -1
	}, func(t *testing.T, w *world) {
		var waits []time.Duration
		req := hello()
		req.OnWait = func(d time.Duration) {
			waits = append(waits, d)
			panic("and survives it")
		}
		_, err := w.client.Chat(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{7 * time.Minute, time.Second}, waits)
	})
}

func TestTheCallerHearsOfOutput(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Role(), fake.Ping(), fake.Text("a"), fake.Text("b"), fake.End("stop"))), nil, func(t *testing.T, w *world) {
		n, bytes := 0, 0
		req := hello()
		req.OnOutput = func() {
			n++
			panic("and survives it")
		}
		req.OnBytes = func() {
			bytes++
			panic("this too")
		}
		_, err := w.client.Chat(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Positive(t, bytes)
	})
}

// Some proxies leave out the empty lines between events, and clients that read
// line by line take no notice.
func TestEventsWithOnlyALineEndBetween(t *testing.T) {
	piece := func(text, finish string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":` + finish + `}]}` + "\n"
	}
	srv := script(fake.Reply(
		fake.Raw(piece("one ", "null")), fake.Pause(time.Second), fake.Raw(piece("two ", "null")), fake.Pause(time.Second),
		fake.Raw(piece("three", `"stop"`)), fake.Raw("data: [DONE]\n"),
	))
	inWorld(t, srv, nil, func(t *testing.T, w *world) {
		s := w.client.Stream(t.Context(), hello())
		defer s.Close()
		var at []time.Duration
		for ch, err := range s.All() {
			require.NoError(t, err)
			if ch.Output() {
				at = append(at, time.Since(w.start))
			}
		}
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 2 * time.Second}, at, "each when the next has come")
		resp, err := s.Response()
		require.NoError(t, err)
		assert.Equal(t, "one two three", resp.Message.Content)
	})
}
