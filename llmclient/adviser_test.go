package llmclient_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestWhatIsKnownOfTheServerStandsInErrorsEventsAndDumps(t *testing.T) {
	inWorld(t, script(fake.Hang()), func(c *llmclient.Config) {
		c.Retry.Attempts = 1
		c.Explain = func(endpoint string) string { return "wedged since 16:09 at " + endpoint }
	}, func(t *testing.T, w *world) {
		go func() {
			time.Sleep(time.Minute)
			var b strings.Builder
			assert.NoError(t, llmclient.Dump(&b, w.client))
			assert.Contains(t, b.String(), "the server: wedged since 16:09")
		}()
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrTimeout)
		assert.Equal(t, "wedged since 16:09 at http://model.test/v1", e.Verdict)
		assert.Contains(t, err.Error(), "; the server: wedged since 16:09")
		require.NotEmpty(t, w.ofKind(llmclient.EventSuspect))
		assert.Contains(t, w.ofKind(llmclient.EventSuspect)[0].Text, "the server: wedged")
		assert.Contains(t, w.ofKind(llmclient.EventFailed)[0].Text, "the server: wedged")
	})
	t.Run("an explanation that panics is none", func(t *testing.T) {
		inWorld(t, script(fake.Hang()), func(c *llmclient.Config) {
			c.Retry.Attempts = 1
			c.Explain = func(string) string { panic("oh") }
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			assert.Empty(t, failure(t, err, llmclient.ErrTimeout).Verdict)
		})
	})
}

func TestASignOfLifeFromElsewhereLetsCallsGoOn(t *testing.T) {
	var back atomic.Bool
	srv := fake.Config{
		Script: func(*fake.Request) fake.Step {
			if back.Load() {
				return fake.Answer("ok")
			}
			return fake.Hang()
		},
		Models: fake.Always(fake.Hang()), // it never answers probes
	}
	for name, tc := range map[string]struct {
		endpoint string
		after    time.Duration
	}{
		"it is told":   {"http://model.test/v1", 60 * time.Second},
		"all are told": {"", 60 * time.Second},
		"of another":   {"elsewhere", 3*time.Minute + 40500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			back.Store(false)
			inWorld(t, srv, nil, func(t *testing.T, w *world) {
				go func() {
					time.Sleep(59500 * time.Millisecond)
					back.Store(true)
					w.client.MarkAlive(tc.endpoint)
				}()
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				w.elapsed(tc.after)
			})
		})
	}
}

// adviserFunc is an Adviser made of a function.
type adviserFunc func(waiting []llmclient.InFlight) llmclient.Advice

func (f adviserFunc) Advise(_ context.Context, waiting []llmclient.InFlight) llmclient.Advice {
	return f(waiting)
}

func TestCallsThatTheServerDoesNotHaveAreCutOnItsWord(t *testing.T) {
	lost := llmclient.Advice{State: llmclient.AdviceLost, Why: "running 3, none of them ours"}
	idle := llmclient.Advice{State: llmclient.AdviceIdle, Why: "running 0"}
	for name, tc := range map[string]struct {
		hangs   int
		advise  func([]llmclient.InFlight) llmclient.Advice
		after   time.Duration // until the answer
		counted int           // failures in the window of the breaker at the end
	}{
		"once": {1, func([]llmclient.InFlight) llmclient.Advice { return lost }, 30*time.Second + 500*time.Millisecond, 0},
		"each time it is lost": {
			3, func([]llmclient.InFlight) llmclient.Advice { return lost },
			3*30*time.Second + 500*time.Millisecond + time.Second + 2*time.Second, 0,
		},
		"idle is said once, then the limit": {
			2, func([]llmclient.InFlight) llmclient.Advice { return idle },
			30*time.Second + 500*time.Millisecond + 10*time.Minute + time.Second, 1,
		},
		"not when it is about another call": {
			1, func(w []llmclient.InFlight) llmclient.Advice {
				return llmclient.Advice{State: llmclient.AdviceLost, Calls: []uint64{w[0].Call + 1}}
			}, 10*time.Minute + 500*time.Millisecond, 1,
		},
		"it names the call": {
			1, func(w []llmclient.InFlight) llmclient.Advice {
				return llmclient.Advice{State: llmclient.AdviceLost, Calls: []uint64{w[0].Call}}
			}, 30*time.Second + 500*time.Millisecond, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			steps := make([]fake.Step, 0, tc.hangs+1)
			for range tc.hangs {
				steps = append(steps, fake.Hang())
			}
			inWorld(t, script(append(steps, fake.Answer("ok"))...), func(c *llmclient.Config) {
				c.Adviser = adviserFunc(tc.advise)
			}, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				w.elapsed(tc.after)
				assert.Equal(t, tc.counted, w.client.Breaker().Failed)
			})
		})
	}
}

func TestProbesOfOthersDrawOnTheRetryBudget(t *testing.T) {
	inWorld(t, script(fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		at := w.client.Endpoints()[0].Name
		assert.True(t, w.client.AllowProbe("elsewhere"), "of an endpoint that is not ours")
		allowed := 0
		for w.client.AllowProbe(at) && allowed < 5000 {
			allowed++
		}
		assert.Equal(t, 1000, allowed, "the budget, and as much again on credit")
		time.Sleep(time.Second)
		assert.True(t, w.client.AllowProbe(at))
	})
}

func TestATrialIsPutOffWhileTheEndpointIsAiling(t *testing.T) {
	for name, tc := range map[string]struct {
		told  bool
		after time.Duration
	}{
		"nothing is said": {false, 5 * time.Second},
		"it is":           {true, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			srv := fake.Config{Script: func(q *fake.Request) fake.Step {
				if q.Ordinal == 1 {
					return fake.Status(500, "out of order")
				}
				return fake.Answer("ok")
			}}
			inWorld(t, srv, func(c *llmclient.Config) {
				c.Breaker.Failures, c.Retry.Attempts = 1, 1
			}, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, llmclient.ErrServer)
				require.Equal(t, breaker.Open, w.client.Breaker().State)
				if tc.told {
					go func() {
						time.Sleep(4 * time.Second)
						w.client.MarkAiling("elsewhere")
						w.client.MarkAiling("")
					}()
				}
				_, err = w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.InDelta(t, tc.after.Seconds(), time.Since(w.start).Seconds(), 1)
			})
		})
	}
}

func TestTheClientsOwnProbesDrawOnTheBudgetToo(t *testing.T) {
	inWorld(t, script(fake.Hang()), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.client.Chat(ctx, hello())
		}()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.NotEmpty(t, w.srv.Probes(), "the probe")
		allowed := 0
		for w.client.AllowProbe("http://model.test/v1") && allowed < 5000 {
			allowed++
		}
		assert.Equal(t, 999, allowed)
		cancel()
		<-done
	})
}
