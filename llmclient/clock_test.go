package llmclient_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func once(c *llmclient.Config) { c.Retry.Attempts = 1 }

func withTools() *chat.Request {
	r := hello()
	r.Tools = []chat.Tool{{Name: "write"}}
	return r
}

// Every clock catches its hang, at the nanosecond, under default settings.
func TestHangsAreCaughtOnTime(t *testing.T) {
	reasoner := hello()
	reasoner.ReasoningEffort = "high"
	big := hello()
	big.Messages[0].Content = strings.Repeat("a", 8<<20)
	tests := map[string]struct {
		srv   fake.Config
		req   *chat.Request
		clock llmclient.ClockName
		phase llmclient.Phase
		after time.Duration
	}{
		"nobody accepts": {fake.Config{Net: []fake.NetFault{{Kind: fake.HangDial}}}, hello(),
			llmclient.ClockConnect, llmclient.PhaseConnect, 10 * time.Second},
		// A small request is sent as soon as the kernel has it; the probes meet the
		// same, and tell.
		"accepted and never read": {fake.Config{Net: []fake.NetFault{{Kind: fake.NeverRead}}}, hello(),
			llmclient.ClockFirstOutput, llmclient.PhaseFirstOutput, 40 * time.Second},
		"a peer that never reads eight megabytes": {fake.Config{Net: []fake.NetFault{{Kind: fake.NeverRead}}}, big,
			llmclient.ClockSend, llmclient.PhaseSend, 30 * time.Second},
		"silence before the head": {script(fake.Hang()), hello(),
			llmclient.ClockFirstOutput, llmclient.PhaseFirstOutput, 10 * time.Minute},
		"silence after the head": {script(fake.Reply(fake.Headers(), fake.Hang())), hello(),
			llmclient.ClockFirstOutput, llmclient.PhaseFirstOutput, 10 * time.Minute},
		"a role and silence": {script(fake.Reply(fake.Role(), fake.Hang())), hello(),
			llmclient.ClockFirstOutput, llmclient.PhaseFirstOutput, 10 * time.Minute},
		"pings for ever": {script(fake.Pings(10 * time.Second)), hello(),
			llmclient.ClockFirstOutput, llmclient.PhaseFirstOutput, 10 * time.Minute},
		"half an answer": {script(fake.Reply(fake.Text("half"), fake.Hang())), hello(),
			llmclient.ClockGap, llmclient.PhaseOutput, 2 * time.Minute},
		"half an answer, with tools": {script(fake.Reply(fake.Text("half"), fake.Hang())), withTools(),
			llmclient.ClockGap, llmclient.PhaseOutput, 10 * time.Minute},
		"half an answer, asked to reason": {script(fake.Reply(fake.Text("half"), fake.Hang())), reasoner,
			llmclient.ClockGap, llmclient.PhaseOutput, 10 * time.Minute},
		"half an answer, seen to reason": {script(fake.Reply(fake.Reasoning("hm"), fake.Hang())), hello(),
			llmclient.ClockGap, llmclient.PhaseOutput, 10 * time.Minute},
		"half an answer, then pings": {script(fake.Reply(fake.Text("half"), fake.Pings(10*time.Second))), hello(),
			llmclient.ClockGap, llmclient.PhaseOutput, 2 * time.Minute},
		// Pings each 10 s at 0, 10, 20 s: then silence for a minute.
		"pings that stop": {script(fake.Reply(fake.Headers(), fake.Repeat(3, 10*time.Second, fake.Ping()), fake.Hang())), hello(),
			llmclient.ClockSilence, llmclient.PhaseFirstOutput, 80 * time.Second},
		// At 0, 40, 80 s: the limit is four intervals.
		"slow pings that stop": {script(fake.Reply(fake.Headers(), fake.Repeat(3, 40*time.Second, fake.Ping()), fake.Hang())), hello(),
			llmclient.ClockSilence, llmclient.PhaseFirstOutput, 80*time.Second + 160*time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tc.srv, once, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), tc.req)
				w.elapsed(tc.after)
				e := failure(t, err, llmclient.ErrTimeout)
				assert.Equal(t, tc.clock, e.Clock)
				assert.Equal(t, tc.phase, e.Phase)
				assert.True(t, e.Timeout())
				assert.True(t, e.Retryable())
				assert.ErrorContains(t, err, "clock "+string(tc.clock))
				assert.NotErrorIs(t, err, context.DeadlineExceeded, "that one is the caller's")
				assert.NotErrorIs(t, err, context.Canceled)
				assert.Equal(t, 1, w.client.Breaker().Failures, "a stall counts against the endpoint")
			})
		})
	}
}

// The healthy twins: slow in every way that servers are, and never cut, under
// default settings.
func TestHealthyAndSlowIsNotCut(t *testing.T) {
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	hour := 3600
	tests := map[string]struct {
		reply fake.Step
		req   *chat.Request
	}{
		"five silent minutes before one whole tool call": {fake.Reply(fake.Headers(), fake.Pause(minutes(5)), fake.AnswerCall("1", "write", `{"a":1}`)), withTools()},
		"text, then five silent minutes before a tool call": {
			fake.Reply(fake.Text("I will"), fake.Pause(minutes(5)), fake.CallTool("1", "write", "{}"), fake.End("tool_calls")), withTools()},
		"eight silent minutes of reasoning": {fake.Reply(fake.Role(), fake.Pause(minutes(8)), fake.Answer("42")), hello()},
		"reasoning, eight silent minutes, the answer": {
			fake.Reply(fake.Reasoning("hm"), fake.Pause(minutes(8)), fake.Answer("42")), hello()},
		"six minutes of prefill":                           {fake.Reply(fake.Pause(minutes(6)), fake.Answer("42")), hello()},
		"a stream of three hours":                          {fake.Reply(fake.Repeat(3*hour/60, time.Minute, fake.Text("x ")), fake.End("stop")), hello()},
		"pings, then the answer":                           {fake.Reply(fake.Headers(), fake.Repeat(30, 15*time.Second, fake.Ping()), fake.Answer("42")), hello()},
		"a greeting of comments, then five silent minutes": {fake.Reply(fake.Headers(), fake.Repeat(4, time.Millisecond, fake.Comment("hello")), fake.Pause(minutes(5)), fake.Answer("42")), hello()},
		"pings that stop at the first output":              {fake.Reply(fake.Headers(), fake.Repeat(10, 15*time.Second, fake.Ping()), fake.Text("a"), fake.Pause(100*time.Second), fake.Answer("b")), hello()},
		"three quick pings, then a long silence":           {fake.Reply(fake.Headers(), fake.Repeat(3, 20*time.Second, fake.Ping()), fake.Pause(55*time.Second), fake.Answer("42")), hello()},
		"a minute and a half between two tokens":           {fake.Reply(fake.Text("a"), fake.Pause(90*time.Second), fake.Answer("b")), hello()},
		"four silent seconds before the usage":             {fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Pause(4*time.Second), fake.Usage(1, 1), fake.Done()), hello()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply), nil, func(t *testing.T, w *world) {
				resp, err := w.client.Chat(t.Context(), tc.req)
				require.NoError(t, err)
				require.False(t, resp.Empty())
				require.Len(t, w.srv.Requests(), 1, "and at the first attempt")
			})
		})
	}
}

func TestOneNanosecondBeforeTheLimitIsInTimeAndOneAfterIsNot(t *testing.T) {
	for d, kind := range map[time.Duration]llmclient.Kind{time.Second - 1: 0, time.Second + 1: llmclient.ErrTimeout} {
		inWorld(t, script(fake.Reply(fake.Pause(d), fake.Answer("ok"))), func(c *llmclient.Config) {
			c.Clocks.FirstOutput.Limit = time.Second
			c.Retry.Attempts = 1
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			if kind == 0 {
				require.NoError(t, err)
				w.elapsed(d)
				return
			}
			failure(t, err, kind)
		})
	}
}

func TestSilenceThatWasSet(t *testing.T) {
	silence := func(c *llmclient.Config) {
		c.Clocks.Silence.Limit = 300 * time.Millisecond
		c.Retry.Attempts = 1
	}
	t.Run("comments keep it from running out", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Headers(), fake.Repeat(10, 100*time.Millisecond, fake.Comment("keepalive")), fake.Answer("ok"))), silence, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
	t.Run("and it runs without any ping", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Headers(), fake.Pause(time.Second), fake.Answer("ok"))), silence, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.Equal(t, llmclient.ClockSilence, failure(t, err, llmclient.ErrTimeout).Clock)
			w.elapsed(300 * time.Millisecond)
		})
	})
	t.Run("but not before the head of the answer", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Pause(time.Second), fake.Answer("ok"))), silence, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
}

func TestPlainAnswersHaveTheAttemptClock(t *testing.T) {
	hang := fake.Reply(fake.Headers(), fake.Hang())
	slow := fake.Reply(fake.Pause(9*time.Minute), fake.Answer("ok"))
	t.Run("caught", func(t *testing.T) {
		inWorld(t, fake.Config{Script: fake.NoStreams(fake.Always(hang))}, nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			e := failure(t, err, llmclient.ErrTimeout)
			// The first request was refused, the second one hung for as long as
			// Attempt lets it, and the third for what Call left of its time.
			require.Len(t, e.Attempts, 3)
			assert.Equal(t, llmclient.ClockAttempt, e.Attempts[1].Clock)
			assert.Equal(t, 10*time.Minute, e.Attempts[1].Duration)
			assert.Equal(t, llmclient.ClockCall, e.Clock)
			w.elapsed(20 * time.Minute)
		})
	})
	t.Run("not killed", func(t *testing.T) {
		inWorld(t, fake.Config{Script: fake.NoStreams(fake.Always(slow))}, nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.elapsed(9 * time.Minute)
		})
	})
	t.Run("more time for more tokens", func(t *testing.T) {
		req := hello()
		req.MaxTokens = 4096 + 12_000 // ten minutes more
		inWorld(t, fake.Config{Script: fake.NoStreams(fake.Always(fake.Reply(fake.Pause(19*time.Minute), fake.Answer("ok"))))}, nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), req)
			require.NoError(t, err)
		})
	})
}

func TestALongPromptGetsMoreTime(t *testing.T) {
	req := hello()
	req.Messages[0].Content = strings.Repeat("word ", 48_000) // 240 kB, some 80,000 tokens
	inWorld(t, script(fake.Reply(fake.Pause(19*time.Minute), fake.Answer("ok"))), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), req)
		require.NoError(t, err)
		w.elapsed(19 * time.Minute)
		s := w.ofKind(llmclient.EventSuspect)
		require.Len(t, s, 1)
		assert.Greater(t, s[0].After, 3*time.Minute, "suspicion waits for the prefill too")
	})
}

func TestTheEndIsNotWaitedForLong(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Text("all"), fake.Finish("stop"), fake.Hang())), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err, "the model has finished; only its usage is missing")
		assert.Equal(t, "all", resp.Message.Content)
		assert.Nil(t, resp.Usage)
		w.elapsed(5 * time.Second)
		assert.Zero(t, w.client.Breaker().Failures)
	})
}

func TestABodyThatStaysOpenAfterDoneCostsNothing(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Answer("all"), fake.Hang())), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(w.start), 20*time.Millisecond)
	})
}

func TestAnErrorBodyThatNeverEndsIsCut(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Code(503), fake.Raw("no capacity"), fake.Hang())), once, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrServer)
		assert.Equal(t, 503, e.Status)
		assert.ErrorContains(t, err, "no capacity")
		w.elapsed(5 * time.Second)
	})
}

func TestSuspicionIsAnnouncedAndCutsNothing(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Pause(40*time.Second), fake.Text("a"), fake.Pause(30*time.Second), fake.Answer("b"))), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		s := w.ofKind(llmclient.EventSuspect)
		require.Len(t, s, 2)
		assert.Equal(t, llmclient.ClockFirstOutput, s[0].Clock)
		assert.Equal(t, 30*time.Second, s[0].Time.Sub(w.start))
		assert.Equal(t, llmclient.ClockGap, s[1].Clock)
		assert.Equal(t, 60*time.Second, s[1].Time.Sub(w.start))
		assert.Equal(t, "tester", s[1].Caller)
		assert.Len(t, w.ofKind(llmclient.EventAttempt), 1)
	})
}

func TestTheCallClock(t *testing.T) {
	t.Run("bounds a call below another limit, and says in which phase", func(t *testing.T) {
		inWorld(t, script(fake.Hang()), func(c *llmclient.Config) { c.Clocks.Call.Limit = 3 * time.Second }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			e := failure(t, err, llmclient.ErrTimeout)
			assert.Equal(t, llmclient.ClockCall, e.Clock)
			assert.Equal(t, llmclient.PhaseFirstOutput, e.Phase)
			assert.Equal(t, 3*time.Second, e.Bound)
			w.elapsed(3 * time.Second)
		})
	})
	t.Run("stands still while output comes", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Repeat(60, time.Second, fake.Text("x")), fake.End("stop"))),
			func(c *llmclient.Config) { c.Clocks.Call.Limit = 3 * time.Second }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			})
	})
	t.Run("runs on through attempts and backoff", func(t *testing.T) {
		// Attempts of 1 s, backoffs of 0.5, 1, 2 s: 1.5, 3.5, then 1 s of 1.5
		// is left for the third, and none for its backoff.
		inWorld(t, script(fake.Reply(fake.Pause(time.Second), fake.Unavailable())),
			func(c *llmclient.Config) { c.Clocks.Call.Limit = 5 * time.Second }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				e := failure(t, err, llmclient.ErrServer)
				assert.Len(t, e.Attempts, 3)
				assert.ErrorContains(t, err, "no time for another try")
				w.elapsed(4500 * time.Millisecond)
			})
	})
	t.Run("can be taken away", func(t *testing.T) {
		off := llmclient.Clock{Limit: -1}
		inWorld(t, script(fake.Reply(fake.Pause(30*time.Hour), fake.Answer("ok"))), func(c *llmclient.Config) {
			c.Clocks.Call, c.Clocks.FirstOutput = off, off
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.elapsed(30 * time.Hour)
		})
	})
}

func TestOnlyOneRetryAfterALongWaitForOutput(t *testing.T) {
	inWorld(t, script(fake.Hang()), func(c *llmclient.Config) { c.Clocks.Call.Limit = -1 }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrTimeout)
		assert.Len(t, e.Attempts, 2)
		w.elapsed(20*time.Minute + 500*time.Millisecond)
	})
}

func TestTheCallerEndsACallAtOnceInEveryPhase(t *testing.T) {
	big := hello()
	big.Messages[0].Content = strings.Repeat("a", 8<<20)
	tests := map[string]struct {
		srv    fake.Config
		change func(*llmclient.Config)
		phase  llmclient.Phase
	}{
		"connect":      {fake.Config{Net: []fake.NetFault{{Kind: fake.HangDial}}}, nil, llmclient.PhaseConnect},
		"send":         {fake.Config{Net: []fake.NetFault{{Kind: fake.NeverRead}}}, nil, llmclient.PhaseSend},
		"first output": {script(fake.Hang()), nil, llmclient.PhaseFirstOutput},
		"head":         {script(fake.Reply(fake.Headers(), fake.Hang())), nil, llmclient.PhaseFirstOutput},
		"output":       {script(fake.Reply(fake.Text("a"), fake.Hang())), nil, llmclient.PhaseOutput},
		"flood":        {script(fake.Endless(time.Millisecond)), nil, llmclient.PhaseOutput},
		"error body":   {script(fake.Reply(fake.Code(500), fake.Raw("x"), fake.Hang())), nil, llmclient.PhaseFirstOutput},
		"backoff":      {script(fake.Unavailable()), func(c *llmclient.Config) { c.Retry.Backoff = time.Minute; c.Retry.MaxBackoff = time.Minute }, llmclient.PhaseBackoff},
	}
	for name, tc := range tests {
		for _, how := range []string{"cancel", "deadline"} {
			if name == "backoff" && how == "deadline" {
				continue // a wait that does not fit the deadline is not begun
			}
			t.Run(name+"/"+how, func(t *testing.T) {
				inWorld(t, tc.srv, tc.change, func(t *testing.T, w *world) {
					cause := errors.New("had enough")
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if how == "deadline" {
						ctx = contextWith(t, 3*time.Second)
					} else {
						time.AfterFunc(3*time.Second, func() { cancel(cause) })
					}
					req := hello()
					if tc.phase == llmclient.PhaseSend { // net/http takes a small one for sent when it has it
						req.Messages = append(req.Messages, chat.User(strings.Repeat("x", 100<<10)))
					}
					_, err := w.client.Chat(ctx, req)
					w.elapsed(3 * time.Second)
					if how == "deadline" {
						failure(t, err, llmclient.ErrDeadline)
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					} else {
						failure(t, err, llmclient.ErrCanceled)
						assert.ErrorIs(t, err, context.Canceled)
						assert.ErrorIs(t, err, cause)
					}
					e, _ := errors.AsType[*llmclient.Error](err)
					assert.Equal(t, tc.phase, e.Phase)
					assert.False(t, e.Retryable())
				})
			})
		}
	}
}

// A transport that does not report the progress of the request has the clocks as well.
func TestClocksOverATransportWithoutTraces(t *testing.T) {
	inWorld(t, fake.Config{}, func(c *llmclient.Config) {
		c.HTTPClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c.Clocks.FirstOutput.Limit = 40 * time.Second
		c.Retry.Attempts = 1
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrTimeout)
		assert.Equal(t, llmclient.ClockFirstOutput, e.Clock)
		assert.NotErrorIs(t, err, context.Canceled)
		w.elapsed(40 * time.Second)
		assert.Len(t, w.ofKind(llmclient.EventSuspect), 1)
	})
}

func TestATransportsOwnTimeoutIsNotTheCallers(t *testing.T) {
	for name, reply := range map[string]fake.Step{"before the head": fake.Hang(), "in the body": fake.Reply(fake.Text("a"), fake.Hang())} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(reply), func(c *llmclient.Config) { c.HTTPClient.Timeout = time.Second; c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.Error(t, err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "HTTPClient.Timeout of 1s")
				w.elapsed(time.Second)
			})
		})
	}
}
