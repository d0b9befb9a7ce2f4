package llmclient_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// deaf is an endpoint that takes everything and says nothing until a time.
func deaf(until time.Duration) fake.Config {
	silent := func(then fake.Step) fake.Script {
		return func(r *fake.Request) fake.Step {
			if r.Since < until {
				return fake.Hang()
			}
			return then
		}
	}
	return fake.Config{Script: silent(fake.Answer("ok")), Models: silent(fake.ModelList())}
}

func TestADeadEndpointIsKnownSoon(t *testing.T) {
	t.Run("and the call ends when its time is up", func(t *testing.T) {
		inWorld(t, deaf(time.Hour), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			e := failure(t, err, llmclient.ErrTimeout)
			assert.Equal(t, llmclient.ClockCall, e.Clock)
			w.elapsed(20 * time.Minute)
			require.LessOrEqual(t, len(e.Attempts), 3, "little is sent to the dead")
			// Probes from 30 s and 35 s on go unanswered for 5 s each.
			assert.Equal(t, 40*time.Second, e.Attempts[0].Duration)
			dead := w.ofKind(llmclient.EventDead)
			require.Len(t, dead, 1)
			assert.Equal(t, 40*time.Second, dead[0].Time.Sub(w.start))
			f := w.ofKind(llmclient.EventFailed)
			assert.ErrorContains(t, f[0].Err, "probes in a row were not answered")
			assert.NotZero(t, w.client.Breaker().Failures, "the breaker is told")
		})
	})
	t.Run("and the call succeeds when it is alive again", func(t *testing.T) {
		inWorld(t, deaf(3*time.Minute), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(w.start), 3*time.Minute+10*time.Second)
			assert.Len(t, w.srv.Requests(), 2)
		})
	})
	t.Run("by all of forty-five callers, all of them served in the end", func(t *testing.T) {
		inWorld(t, deaf(3*time.Minute), nil, func(t *testing.T, w *world) {
			w.callers(t, 45)
			assert.Less(t, time.Since(w.start), 4*time.Minute)
			assert.Len(t, w.ofKind(llmclient.EventDead), 1)
			assert.LessOrEqual(t, len(w.srv.Requests()), 45+45+5)
		})
	})
	t.Run("even if probes are refused a connection", func(t *testing.T) {
		inWorld(t, script(fake.Hang()), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			time.AfterFunc(10*time.Second, func() { w.srv.SetNet(fake.NetFault{Kind: fake.Refused}) })
			_, err := w.client.Chat(t.Context(), hello())
			e := failure(t, err, llmclient.ErrTimeout)
			assert.NotEmpty(t, e.Evidence)
			assert.Equal(t, llmclient.ClockFirstOutput, e.Clock)
			assert.Equal(t, 35*time.Second, e.Bound, "refused at 30 s and at 35 s")
		})
	})
	t.Run("unless its clock is off", func(t *testing.T) {
		inWorld(t, deaf(90*time.Minute), func(c *llmclient.Config) {
			c.Clocks.FirstOutput.Limit = -1
			c.Clocks.Call.Limit = -1
		}, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := w.client.Chat(ctx, hello())
			failure(t, err, llmclient.ErrDeadline)
		})
	})
}

func TestTheProbeIsAFreeQuestion(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Pause(59*time.Second), fake.Answer("ok"))), func(c *llmclient.Config) { c.APIKey = "sk-key" }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		probes := w.srv.Probes()
		require.Len(t, probes, 3, "at 30, 40 and 50 s")
		assert.Equal(t, "GET", probes[0].Method)
		assert.Equal(t, "/v1/models", probes[0].Path)
		assert.Equal(t, "Bearer sk-key", probes[0].Header.Get("Authorization"))
		assert.NotEqual(t, w.srv.Requests()[0].Conn, probes[0].Conn, "on a connection of its own")
		assert.Len(t, w.srv.Requests(), 1, "and never a completion")
	})
}

// An endpoint that works and never answers probes. It is taken for dead once, and not
// again.
func TestAnEndpointThatAnswersNoProbesIsNotDead(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Reply(fake.Pause(2*time.Minute), fake.Answer("ok"))), Models: fake.Always(fake.Hang())}, nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Len(t, w.srv.Requests(), 2)
		for range 3 {
			start := time.Now()
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, 2*time.Minute, time.Since(start))
		}
		assert.Len(t, w.ofKind(llmclient.EventDead), 1)
	})
}

// A probe that is answered, with any status, cuts nothing.
func TestAnyStatusIsASignOfLife(t *testing.T) {
	for name, models := range map[string]fake.Step{"404": fake.Status(404, "no"), "500": fake.Unavailable(), "401": fake.Error(401, "x", "", "no")} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: fake.Always(fake.Reply(fake.Pause(8*time.Minute), fake.Answer("ok"))), Models: fake.Always(models)}, nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				w.elapsed(8 * time.Minute)
			})
		})
	}
}

// A server that answers no other request while it generates is alive, as its bytes
// show.
func TestASingleThreadedServerIsNotDead(t *testing.T) {
	inWorld(t, fake.Config{
		Script: func(r *fake.Request) fake.Step {
			if r.Ordinal == 1 {
				return fake.Reply(fake.Repeat(6*60, time.Second, fake.Text("x")), fake.End("stop"))
			}
			return fake.Reply(fake.Pause(6*time.Minute), fake.Answer("ok"))
		},
		Models: fake.Always(fake.Hang()),
	}, nil, func(t *testing.T, w *world) {
		w.callers(t, 2)
		assert.Len(t, w.srv.Requests(), 2)
		assert.Empty(t, w.ofKind(llmclient.EventDead))
	})
}

// A request that the server has forgotten while it serves others.
func TestAForgottenRequestIsCutAndSentAgain(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Ordinal%5 == 0 && r.Turn <= 100 {
			return fake.Hang()
		}
		return fake.Reply(fake.Pause(time.Second), fake.Answer("ok"))
	}}, func(c *llmclient.Config) { c.Pacer.MaxInFlight, c.Pacer.StartInFlight = 30, -1 }, func(t *testing.T, w *world) {
		w.callers(t, 100)
		assert.Less(t, time.Since(w.start), 7*time.Minute)
		assert.Empty(t, w.ofKind(llmclient.EventBreaker), "the others succeed")
		for _, e := range w.ofKind(llmclient.EventFailed) {
			assert.ErrorContains(t, e.Err, "like calls that started later")
		}
	})
}

func TestALongReasonerAmongQuickSiblingsIsNotAnOrphan(t *testing.T) {
	for name, slow := range map[string]fake.Step{
		"it has sent the head of its answer": fake.Reply(fake.Headers(), fake.Pause(8*time.Minute), fake.Answer("42")),
		"it has sent a ping":                 fake.Reply(fake.Ping(), fake.Pause(8*time.Minute), fake.Answer("42")),
		"it was asked to reason":             fake.Reply(fake.Pause(8*time.Minute), fake.Answer("42")),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
				if r.Ordinal == 1 {
					return slow
				}
				return fake.Answer("ok")
			}}, nil, func(t *testing.T, w *world) {
				req := hello()
				if name == "it was asked to reason" {
					req.ReasoningEffort = "high"
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := w.client.Chat(t.Context(), req)
					assert.NoError(t, err)
					w.elapsed(8 * time.Minute)
				})
				for range 20 {
					time.Sleep(time.Second)
					_, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
				}
				wg.Wait()
			})
		})
	}
}

type adviser func(waiting []llmclient.InFlight) llmclient.Advice

func (f adviser) Advise(_ context.Context, waiting []llmclient.InFlight) llmclient.Advice {
	return f(waiting)
}

func TestTheAdviser(t *testing.T) {
	say := func(s llmclient.AdviceState) func(*llmclient.Config) {
		return func(c *llmclient.Config) {
			c.Adviser = adviser(func(waiting []llmclient.InFlight) llmclient.Advice {
				if len(waiting) == 0 || waiting[0].Caller != "tester" {
					panic("nobody waits")
				}
				return llmclient.Advice{State: s, Why: "running 0"}
			})
		}
	}
	prefill := func(d time.Duration) fake.Config { return script(fake.Reply(fake.Pause(d), fake.Answer("ok"))) }

	t.Run("idle cuts, once", func(t *testing.T) {
		inWorld(t, script(fake.Hang(), fake.Reply(fake.Pause(5*time.Minute), fake.Answer("ok"))), say(llmclient.AdviceIdle), func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.elapsed(30*time.Second + 500*time.Millisecond + 5*time.Minute)
			assert.ErrorContains(t, w.ofKind(llmclient.EventFailed)[0].Err, "running 0")
		})
	})
	t.Run("busy holds back", func(t *testing.T) {
		inWorld(t, prefill(29*time.Minute), say(llmclient.AdviceBusy), func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Len(t, w.srv.Requests(), 1)
		})
	})
	t.Run("but not for ever", func(t *testing.T) {
		inWorld(t, prefill(31*time.Minute), func(c *llmclient.Config) { say(llmclient.AdviceBusy)(c); c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			assert.Equal(t, llmclient.ClockFirstOutput, failure(t, err, llmclient.ErrTimeout).Clock)
			w.elapsed(30 * time.Minute)
		})
	})
	t.Run("nor a limit that was set", func(t *testing.T) {
		inWorld(t, prefill(31*time.Minute), func(c *llmclient.Config) {
			say(llmclient.AdviceBusy)(c)
			c.Retry.Attempts = 1
			c.Clocks.FirstOutput.Limit = 5 * time.Minute
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrTimeout)
			w.elapsed(5 * time.Minute)
		})
	})
	t.Run("may never answer", func(t *testing.T) {
		var release chan struct{}
		inWorld(t, prefill(5*time.Minute), func(c *llmclient.Config) {
			release = make(chan struct{})
			c.Adviser = adviser(func([]llmclient.InFlight) llmclient.Advice { <-release; return llmclient.Advice{} })
		}, func(t *testing.T, w *world) {
			defer close(release)
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.elapsed(5 * time.Minute)
			assert.NotEmpty(t, w.srv.Probes(), "and holds up nothing")
		})
	})
	t.Run("may panic", func(t *testing.T) {
		inWorld(t, prefill(5*time.Minute), func(c *llmclient.Config) {
			c.Adviser = adviser(func([]llmclient.InFlight) llmclient.Advice { panic("adviser") })
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
}

func TestWhatAnEndpointHasShownLengthensDefaultClocks(t *testing.T) {
	slow := fake.Reply(fake.Pause(9*time.Minute), fake.Text("a"), fake.Pause(9*time.Minute), fake.Text("b"), fake.End("stop"))
	slower := fake.Reply(fake.Pause(17*time.Minute), fake.Text("a"), fake.Pause(2*time.Minute), fake.Text("b"), fake.End("stop"))
	sparser := fake.Reply(fake.Text("a"), fake.Pause(17*time.Minute), fake.Text("b"), fake.End("stop"))
	inWorld(t, script(slow, slower, sparser), nil, func(t *testing.T, w *world) {
		for range 3 {
			_, err := w.client.Chat(t.Context(), withTools())
			require.NoError(t, err)
		}
		assert.Len(t, w.srv.Requests(), 3)
	})
	t.Run("but none that was set", func(t *testing.T) {
		inWorld(t, script(slow, slower), func(c *llmclient.Config) {
			c.Clocks.FirstOutput.Limit = 10 * time.Minute
			c.Retry.Attempts = 1
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), withTools())
			require.NoError(t, err)
			_, err = w.client.Chat(t.Context(), withTools())
			failure(t, err, llmclient.ErrTimeout)
		})
	})
}

// A server that is at work sends informational answers, and answers no other request
// meanwhile. It is not dead, but calls do not wait for it for ever.
func TestInformationalAnswersAreSignsOfLife(t *testing.T) {
	works := func(n int, every time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; (i < n || n < 0 || r.Method == http.MethodGet) && r.Context().Err() == nil; i++ {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusProcessing)
				}
				select {
				case <-time.After(every):
				case <-r.Context().Done():
				}
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, piece("ok")+finStop+doneLine)
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		clock   llmclient.ClockName // that runs out; none if it succeeds
		after   time.Duration
	}{
		"for minutes": {works(100, 4*time.Second), "", 400 * time.Second},
		"for ever":    {works(-1, 4*time.Second), llmclient.ClockFirstOutput, 10 * time.Minute},
		"then none":   {works(-1, time.Hour), llmclient.ClockFirstOutput, 40 * time.Second}, // it is dead
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, handled(tc.handler), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				if tc.clock == "" {
					require.NoError(t, err)
				} else {
					assert.Equal(t, tc.clock, failure(t, err, llmclient.ErrTimeout).Clock)
				}
				w.elapsed(tc.after)
			})
		})
	}
}
