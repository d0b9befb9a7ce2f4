package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/pacer"
)

func noJitter() float64 { return 0 }

func newPacer(t *testing.T, cfg pacer.Config) *pacer.Pacer {
	t.Helper()
	if cfg.Rand == nil {
		cfg.Rand = noJitter
	}
	if cfg.StartInFlight == 0 {
		cfg.StartInFlight = -1 // what is learned has tests of its own
	}
	p, err := pacer.New(cfg)
	require.NoError(t, err)
	return p
}

func acquire(t *testing.T, p *pacer.Pacer) *pacer.Permit {
	t.Helper()
	permit, err := p.Acquire(t.Context())
	require.NoError(t, err)
	return permit
}

// idle checks that no permit is out and no caller waits.
func idle(t *testing.T, p *pacer.Pacer) {
	t.Helper()
	s := p.Stats()
	s.Limit = 0
	assert.Equal(t, pacer.Stats{}, s)
}

// admissions starts n callers, one after the other, and returns when each of
// them was admitted, counted from now. Each keeps its permit for hold.
func admissions(t *testing.T, p *pacer.Pacer, n int, hold time.Duration) []time.Duration {
	t.Helper()
	began := time.Now()
	at := make([]time.Duration, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			permit, err := p.Acquire(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			at[i] = time.Since(began)
			time.Sleep(hold)
			permit.Release()
		})
		synctest.Wait() // so that they come in this order
	}
	wg.Wait()
	return at
}

func TestConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  pacer.Config
		want string
	}{
		"zero":                           {pacer.Config{}, ""},
		"everything off":                 {pacer.Config{RequestsPerMinute: -1, Burst: -1, MaxInFlight: -1, MaxQueue: -1}, ""},
		"a burst of the whole minute":    {pacer.Config{RequestsPerMinute: 9, Burst: 9}, ""},
		"a burst of more than a minute":  {pacer.Config{RequestsPerMinute: 9, Burst: 10}, "pacer: Burst is 10, want at most RequestsPerMinute, 9"},
		"a burst without a rate":         {pacer.Config{Burst: 10}, ""},
		"a rate too low to tell a tenth": {pacer.Config{RequestsPerMinute: 1}, ""},
		"all tokens of a minute at once": {pacer.Config{TokensPerMinute: 9, TokenBurst: 9}, ""},
		"more than that at once":         {pacer.Config{TokensPerMinute: 9, TokenBurst: 10}, "pacer: TokenBurst is 10, want at most TokensPerMinute, 9"},
		"a burst without tokens":         {pacer.Config{TokenBurst: 10}, ""},
		"too few tokens to tell a tenth": {pacer.Config{TokensPerMinute: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pacer.New(tt.cfg)
			if tt.want != "" {
				require.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			acquire(t, p).Release()
		})
	}
}

func TestNothingIsSpacedUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{})
		began := time.Now()
		at := admissions(t, p, 500, time.Hour)
		assert.Zero(t, slices.Max(at))
		assert.Equal(t, time.Hour, time.Since(began))
	})
}

// What is paced is admission: 50 calls of a second each, at 100 a second, are
// all in flight at once and done after one second, not after 50.
func TestExecutionIsNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{RequestsPerMinute: 6000})
		began := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				permit, err := p.Acquire(t.Context())
				if assert.NoError(t, err) {
					time.Sleep(time.Second)
					permit.Release()
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, 50, p.Stats().InFlight)
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestLineMovesByPermitsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 2})
		at := admissions(t, p, 6, 3*time.Second)
		assert.Equal(t, []time.Duration{0, 0, 3e9, 3e9, 6e9, 6e9}, at)
	})
}

// After a pause of a second told by one of them, 30 callers come back: none of
// them early, all within two seconds, never a quarter of them within 50 ms.
func TestReadmissionIsNoHerd(t *testing.T) {
	for _, n := range []int{30, 45, 1000} {
		t.Run(fmt.Sprint(n, " callers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pacer.Config{Rand: rand.Float64})
				refused := acquire(t, p)
				refused.Release()
				p.CoolDown(time.Second)

				at := admissions(t, p, n, time.Second)
				assert.True(t, slices.IsSorted(at), "out of order: %v", at)
				assert.GreaterOrEqual(t, at[0], time.Second)
				assert.Less(t, at[0], 1100*time.Millisecond, "the first one should hardly notice")
				assert.Less(t, at[n-1], 7*time.Second)
				for i := range at {
					j, _ := slices.BinarySearch(at, at[i]+50*time.Millisecond)
					assert.LessOrEqual(t, j-i, n/4, "admissions in the 50ms from %v", at[i])
				}
				idle(t, p)
			})
		})
	}
}

func TestManyReportOneRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{})
		for range 30 {
			p.CoolDown(time.Second)
		}
		p.CoolDown(300 * time.Millisecond)
		assert.Equal(t, time.Now().Add(time.Second), p.Stats().CoolDownUntil)
		assert.Equal(t, []time.Duration{time.Second}, admissions(t, p, 1, 0))
	})
}

// An endless cool-down holds back callers without a deadline, and refuses the others
// at once.
func TestCoolDownWithoutEnd(t *testing.T) {
	for _, d := range []time.Duration{365 * 24 * time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			p := newPacer(t, pacer.Config{RequestsPerMinute: 60})
			p.CoolDown(d)
			p.CoolDown(time.Second)
			assert.Equal(t, time.Now().Add(d), p.Stats().CoolDownUntil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			_, err := p.Acquire(ctx)
			var we *pacer.WaitError
			require.ErrorAs(t, err, &we)
			assert.GreaterOrEqual(t, we.Wait, d)
			assert.Zero(t, time.Since(began))
			assert.Nil(t, p.TryAcquire())
		})
	}
}

// Permits that are never given back take no place for ever, if what others tell
// shows that the server goes on without them. They stay to be seen.
func TestLostPermitsAreOutweighed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{StartInFlight: 8})
		for range 6 {
			acquire(t, p) // and forget it
		}
		for range 20 {
			permit := acquire(t, p)
			time.Sleep(100 * time.Millisecond)
			permit.FirstOutput(100 * time.Millisecond)
			time.Sleep(100 * time.Millisecond)
			permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 10})
		}
		s := p.Stats()
		assert.Equal(t, 6, s.InFlight)
		assert.Equal(t, 6, s.Forgotten)
		n := 0
		for n < 10_000 && p.TryAcquire() != nil {
			n++
		}
		assert.GreaterOrEqual(t, n, 6, "places, where there would be two")
		assert.Less(t, n, 100)
	})
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1})
		held := acquire(t, p)
		cause := errors.New("the run was stopped")
		began := time.Now()

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		_, err := p.Acquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, cause)
		assert.EqualError(t, err, "pacer: waited 3s for a request in flight to end: context canceled: the run was stopped")
		assert.Equal(t, 3*time.Second, time.Since(began))

		_, err = p.Acquire(ctx) // ended before
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, cause)

		timed, cancelTimed := context.WithTimeout(t.Context(), time.Second)
		defer cancelTimed()
		_, err = p.Acquire(timed)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "pacer: waited 1s for a request in flight to end: context deadline exceeded")

		held.Release()
		idle(t, p)
		acquire(t, p).Release()
	})
}

func TestEndedContextTakesNoFreePlace(t *testing.T) {
	p := newPacer(t, pacer.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Acquire(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, p.Stats().InFlight)
}

func TestHopelessWaitIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{})
		p.CoolDown(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()

		began := time.Now()
		_, err := p.Acquire(ctx)
		assert.Zero(t, time.Since(began))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		we, ok := errors.AsType[*pacer.WaitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, pacer.WaitError{Wait: time.Minute, Left: 10 * time.Second, For: pacer.ReasonCoolDown}, *we)
		assert.True(t, we.Timeout())
		assert.EqualError(t, err, "pacer: would wait 1m0s for the end of a cool-down, but the context ends in 10s")
	})
}

// A waiting caller is refused when a cool-down begins that outlasts its deadline, not
// at the deadline.
func TestCoolDownTellsWhoCannotOutwaitIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1})
		defer acquire(t, p).Release()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		time.AfterFunc(time.Second, func() { p.CoolDown(time.Minute) })

		_, err := p.Acquire(ctx)
		assert.Equal(t, time.Second, time.Since(began))
		we, ok := errors.AsType[*pacer.WaitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, pacer.WaitError{Wait: time.Minute, Left: 9 * time.Second, For: pacer.ReasonCoolDown}, *we)
	})
}

func TestFullQueueRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1, MaxQueue: 1})
		held := acquire(t, p)
		var wg sync.WaitGroup
		wg.Go(func() {
			permit, err := p.Acquire(t.Context())
			if assert.NoError(t, err) {
				permit.Release()
			}
		})
		synctest.Wait()

		_, err := p.Acquire(t.Context())
		assert.ErrorIs(t, err, pacer.ErrQueueFull)
		assert.EqualError(t, err, "pacer: queue is full: 1 callers wait for a request in flight to end, want at most 1")
		held.Release()
		wg.Wait()
	})
}

func TestPermitCountsOnce(t *testing.T) {
	p := newPacer(t, pacer.Config{MaxInFlight: 2})
	a, b := acquire(t, p), acquire(t, p)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(a.Release)
		wg.Go(a.Return)
	}
	wg.Wait()
	assert.Equal(t, 1, p.Stats().InFlight)
	b.Return()
	b.Release()
	assert.Zero(t, p.Stats().InFlight)
}

func TestNoPermitIsNoPanic(t *testing.T) {
	var none *pacer.Permit
	none.Release()
	none.Return()
	new(pacer.Permit).Release()

	p := newPacer(t, pacer.Config{Rand: func() float64 { return -7 }})
	_, err := p.Acquire(nil) //lint:ignore SA1012 that is what is tried
	assert.EqualError(t, err, "pacer: nil context")
	p.CoolDown(1<<63 - 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err = p.Acquire(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	new(pacer.Pacer).CoolDown(time.Nanosecond)
}

func TestStatsTellWhoWaitsForWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1, RequestsPerMinute: 60, Burst: 1})
		began := time.Now()
		held := acquire(t, p)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				permit, err := p.Acquire(t.Context())
				if assert.NoError(t, err) {
					permit.Release()
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, pacer.Stats{InFlight: 1, Oldest: 200 * time.Millisecond, Limit: 1, Queued: 2, WaitingFor: pacer.ReasonInFlight, Longest: 200 * time.Millisecond}, p.Stats())

		held.Release()
		assert.Equal(t, pacer.Stats{Limit: 1, Queued: 2, WaitingFor: pacer.ReasonRate, Next: began.Add(time.Second), Longest: 200 * time.Millisecond}, p.Stats())

		p.CoolDown(5 * time.Second)
		end := time.Now().Add(5 * time.Second)
		assert.Equal(t, pacer.Stats{Limit: 1, Queued: 2, WaitingFor: pacer.ReasonCoolDown, Next: end, Longest: 200 * time.Millisecond, CoolDownUntil: end}, p.Stats())
		wg.Wait()
		idle(t, p)
	})
}

// A permit that is never given back shows by its age, under a limit that was set
// as under one that is learned.
func TestStatsTellTheOldestPermit(t *testing.T) {
	for name, cfg := range map[string]pacer.Config{
		"nothing is bounded": {StartInFlight: -1},
		"a number was set":   {StartInFlight: -1, MaxInFlight: 4},
		"it is learned":      {StartInFlight: 4},
		"with a rate":        {StartInFlight: -1, RequestsPerMinute: 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, cfg)
				assert.Zero(t, p.Stats().Oldest)
				first := acquire(t, p)
				assert.Zero(t, p.Stats().Oldest)
				time.Sleep(time.Second)
				second := p.TryAcquire()
				require.NotNil(t, second)
				time.Sleep(time.Second)
				third := acquire(t, p)
				ticket, err := p.Enqueue(t.Context(), pacer.Demand{})
				require.NoError(t, err)
				assert.Equal(t, 2*time.Second, p.Stats().Oldest)

				second.Return() // out of the middle
				assert.Equal(t, 2*time.Second, p.Stats().Oldest)
				first.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 5})
				assert.Zero(t, p.Stats().Oldest)
				time.Sleep(24 * time.Hour)
				assert.Equal(t, 24*time.Hour, p.Stats().Oldest)
				for range 100 { // others come and go
					acquire(t, p).Release()
				}
				third.Release()
				assert.Equal(t, 24*time.Hour, p.Stats().Oldest, "of a ticket that nobody waits for")
				ticket.Cancel()
				idle(t, p)
			})
		})
	}
}

// What one pacer hears is nothing to another: a cool-down, a limit that was told,
// a permit.
func TestPacersShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := newPacer(t, pacer.Config{MaxInFlight: 1}), newPacer(t, pacer.Config{MaxInFlight: 1})
		permit := acquire(t, one)
		one.CoolDown(time.Hour)
		one.Heed(permit, pacer.Allowance{Reset: time.Hour, AtOnce: true})
		other.Heed(permit, pacer.Allowance{Remaining: 1, Reset: time.Hour, AtOnce: true})
		assert.Nil(t, one.TryAcquire())
		acquire(t, other).Release()
		assert.Nil(t, other.TryAcquire(), "one was left, after a request that was none of its own")
		assert.Equal(t, 1, one.Stats().InFlight)
		permit.Release()
		assert.Zero(t, one.Stats().InFlight)
	})
}

// Rand is the caller's: it may look at the pacer, and fall over.
func TestRandRunsWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *pacer.Pacer
		calls := 0
		p = newPacer(t, pacer.Config{Rand: func() float64 {
			assert.Zero(t, p.Stats().InFlight)
			if calls++; calls == 1 {
				panic("in Rand")
			}
			return math.NaN()
		}})
		assert.PanicsWithValue(t, "in Rand", func() { p.CoolDown(time.Second) })
		acquire(t, p).Release()
		p.CoolDown(time.Second)
		assert.Equal(t, []time.Duration{time.Second}, admissions(t, p, 1, 0), "no number is no jitter")
	})
}

// Waiters come and go, often in the very moment in which they would be let in,
// and nothing leaks: in the end all places are free and no caller waits.
func TestNothingIsLostWhenWaitersLeave(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				const places = 3
				p := newPacer(t, pacer.Config{MaxInFlight: places, RequestsPerMinute: 6000})
				var wg sync.WaitGroup
				for range 200 {
					// Whole milliseconds, so that much falls on the same instant.
					start := time.Duration(rnd.IntN(100)) * time.Millisecond
					patience := time.Duration(1+rnd.IntN(50)) * time.Millisecond
					hold := time.Duration(rnd.IntN(20)) * time.Millisecond
					used := rnd.IntN(4) > 0
					wg.Go(func() {
						time.Sleep(start)
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(patience, cancel)
						began := time.Now()
						permit, err := p.Acquire(ctx)
						if err != nil {
							assert.ErrorIs(t, err, context.Canceled)
							assert.Equal(t, patience, time.Since(began))
							return
						}
						assert.LessOrEqual(t, p.Stats().InFlight, places)
						time.Sleep(hold)
						if used {
							permit.Release()
						} else {
							permit.Return()
						}
						cancel()
					})
				}
				wg.Wait()
				idle(t, p)
				for range places {
					acquire(t, p)
				}
			})
		})
	}
}

// The same without virtual time, for the race detector.
func TestNothingIsLostInARace(t *testing.T) {
	p := newPacer(t, pacer.Config{MaxInFlight: 2})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+j)%2 == 0 {
					go cancel()
				}
				if permit, err := p.Acquire(ctx); err == nil {
					permit.Release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	idle(t, p)
}
