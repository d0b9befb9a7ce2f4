package llmclient_test

import (
	"context"
	"errors"
	"sync"
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

func TestAPermitIsNotHeldDuringBackoff(t *testing.T) {
	first := true
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if first {
			first = false
			return fake.Unavailable()
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) {
		c.Pacer.MaxInFlight = 1
		c.Retry.Backoff = 2 * time.Second
	}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
		time.Sleep(100 * time.Millisecond)
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		w.elapsed(100 * time.Millisecond)
		wg.Wait()
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 2 * time.Second}, w.arrivals())
	})
}

func TestTheQueueClockAndTheCallerInTheQueue(t *testing.T) {
	slow := script(fake.Reply(fake.Text("a"), fake.Repeat(200, time.Minute, fake.Text("b")), fake.End("stop")))
	busy := func(t *testing.T, w *world, test func(t *testing.T)) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = w.client.Chat(ctx, hello()) })
		synctest.Wait()
		test(t)
		cancel()
		wg.Wait()
	}
	one := func(c *llmclient.Config) { c.Pacer.MaxInFlight = 1 }
	t.Run("two hours are the limit", func(t *testing.T) {
		inWorld(t, slow, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				_, err := w.client.Chat(t.Context(), hello())
				e := failure(t, err, llmclient.ErrTimeout)
				assert.Equal(t, llmclient.ClockQueue, e.Clock)
				assert.Equal(t, llmclient.PhaseQueue, e.Phase)
				w.elapsed(2 * time.Hour)
			})
		})
	})
	t.Run("an hour in the queue is no time of the call", func(t *testing.T) {
		hour := script(fake.Reply(fake.Text("a"), fake.Repeat(61, time.Minute, fake.Text("b")), fake.End("stop")), fake.Answer("ok"))
		inWorld(t, hour, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.GreaterOrEqual(t, time.Since(w.start), time.Hour)
			})
		})
	})
	t.Run("the caller may leave", func(t *testing.T) {
		inWorld(t, slow, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := w.client.Chat(ctx, hello())
				failure(t, err, llmclient.ErrDeadline)
				w.elapsed(3 * time.Second)
				assert.Equal(t, 1, w.client.Pacer().InFlight)
			})
		})
	})
}

func TestTheBreakerOpensAndCallersOutliveTheOutage(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < time.Minute {
			return fake.Unavailable()
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) { c.Retry.Attempts = 100 }, func(t *testing.T, w *world) {
		w.callers(t, 16)
		assert.Less(t, time.Since(w.start), 2*time.Minute)
		assert.Equal(t, breaker.Closed, w.client.Breaker().State)
		assert.NotEmpty(t, w.ofKind(llmclient.EventBreaker))
		assert.Less(t, len(w.srv.Requests()), 16+16+20, "an outage is not stormed")
	})
}

func TestFailFastSaysThatTheBreakerIsOpen(t *testing.T) {
	inWorld(t, script(fake.Unavailable()), func(c *llmclient.Config) { c.WhenOpen = llmclient.FailFast; c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
		for range 5 {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrServer)
		}
		_, err := w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrOpen)
		require.ErrorIs(t, err, breaker.ErrOpen)
		assert.Len(t, w.srv.Requests(), 5)
	})
}

func TestRefusedRequestsDoNotOpenTheBreaker(t *testing.T) {
	n := 0
	inWorld(t, fake.Config{Script: func(*fake.Request) fake.Step {
		if n++; n <= 20 {
			return fake.Error(400, "invalid_request_error", "", "no")
		}
		return fake.Answer("ok")
	}}, nil, func(t *testing.T, w *world) {
		for range 20 {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrRequest)
		}
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Empty(t, w.ofKind(llmclient.EventBreaker))
	})
}

func TestCancelsDoNotCountAgainstTheEndpointAndDeadlinesOnStallsDo(t *testing.T) {
	inWorld(t, script(fake.Hang()), nil, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		_, err := w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrCanceled)
		assert.Zero(t, w.client.Breaker().Failures)

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrDeadline)
		assert.Zero(t, w.client.Breaker().Failures, "nothing was suspect yet")

		ctx, cancel = context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		_, err = w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrDeadline)
		assert.Equal(t, 1, w.client.Breaker().Failures, "it was suspect for ten seconds")
	})
}

// A trial shows that the model works when its output goes on, not only when its
// answer is whole.
func TestALongTrialLetsTheOthersIn(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < 2*time.Second {
			return fake.Unavailable()
		}
		return fake.Reply(fake.Repeat(60, time.Second, fake.Text("a ")), fake.End("stop"))
	}}, func(c *llmclient.Config) { c.Retry.Attempts = 10 }, func(t *testing.T, w *world) {
		w.callers(t, 8)
		assert.Less(t, time.Since(w.start), 80*time.Second)
	})
}

// If all answers break off, that is an outage like any other.
func TestAnOutageOfBrokenOffAnswers(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < 10*time.Minute {
			return fake.Reply(fake.Text("x"), fake.Cut())
		}
		return fake.Answer("ok")
	}}, nil, func(t *testing.T, w *world) {
		w.callers(t, 45)
		assert.Less(t, len(w.srv.Requests()), 45+45+40)
	})
}

func TestACallThatTheBreakerHeldToItsEndNamesItsClock(t *testing.T) {
	inWorld(t, script(fake.Unavailable()), nil, func(t *testing.T, w *world) {
		errs := make([]error, 45)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.client.Chat(t.Context(), hello()) })
		}
		wg.Wait()
		held := 0
		for _, err := range errs {
			require.NotErrorIs(t, err, context.DeadlineExceeded, "no caller set one")
			if e, _ := errors.AsType[*llmclient.Error](err); e.Kind == llmclient.ErrTimeout {
				held++
				assert.Equal(t, llmclient.ClockCall, e.Clock)
				assert.Equal(t, 20*time.Minute, e.Bound)
				assert.ErrorIs(t, err, breaker.ErrOpen)
				assert.ErrorContains(t, err, "clock Call")
			}
		}
		assert.NotZero(t, held)
		assert.LessOrEqual(t, time.Since(w.start), 20*time.Minute)
	})
}

// A call outlives a restart even if there are no other calls: attempts that cannot
// connect do not count at an endpoint that had worked.
func TestALoneCallerOutlivesARestart(t *testing.T) {
	inWorld(t, script(fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		w.srv.SetNet(fake.NetFault{Kind: fake.Refused})
		w.srv.CloseConns()
		time.AfterFunc(2*time.Minute, func() { w.srv.SetNet() })
		_, err = w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Less(t, time.Since(w.start), 3*time.Minute)
	})
	t.Run("but an address where nobody ever was is told soon", func(t *testing.T) {
		inWorld(t, fake.Config{Net: []fake.NetFault{{Kind: fake.Refused}}}, nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrNetwork)
			w.elapsed(3500 * time.Millisecond)
		})
	})
}

func TestACallThatLeavesItsRetryGivesItsBudgetBack(t *testing.T) {
	var healthy atomic.Bool
	inWorld(t, fake.Config{Script: func(*fake.Request) fake.Step {
		if healthy.Load() {
			return fake.Answer("ok")
		}
		return fake.Error(500, "server_error", "", "oops")
	}}, func(c *llmclient.Config) { c.Breaker.Failures = -1 }, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { _, _ = w.client.Chat(ctx, hello()) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		start := time.Now()
		time.AfterFunc(time.Millisecond, func() { healthy.Store(true) })
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
	})
}

func TestCloseFromAnObserverIsBounded(t *testing.T) {
	var c *llmclient.Client
	inWorld(t, script(fake.Answer("ok")), func(cfg *llmclient.Config) {
		cfg.OnEvent = func(e llmclient.Event) {
			if e.Kind == llmclient.EventAttempt {
				assert.Error(t, c.Close())
			}
		}
	}, func(t *testing.T, w *world) {
		c = w.client
		_, err := w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrClosed)
		w.elapsed(2 * time.Second)
	})
}
