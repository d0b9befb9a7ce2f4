package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
)

// waiters starts n callers of Wait, one after the other. Each sends its number
// when it is let go.
func waiters(t *testing.T, b *breaker.Breaker, n int) <-chan int {
	t.Helper()
	gone := make(chan int, n)
	for i := range n {
		go func() {
			switch err := b.Wait(t.Context()); {
			case err == nil:
				gone <- i
			case t.Context().Err() == nil: // else the test is over
				t.Errorf("Wait = %v", err)
			}
		}()
		synctest.Wait() // so that they come in this order
	}
	return gone
}

// taken empties c.
func taken(c <-chan int) (got []int) {
	synctest.Wait()
	for len(c) > 0 {
		got = append(got, <-c)
	}
	return got
}

func TestWaitPassesWhileClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		assert.Len(t, taken(waiters(t, b, 100)), 100)
	})
}

// Waiters go when the breaker is half-open, as many as there are trials, and one by
// one when it has closed.
func TestWaitersAreLetGoForTrialsThenGradually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		gone := waiters(t, b, 30)

		time.Sleep(5*time.Second - ns)
		assert.Empty(t, taken(gone))
		time.Sleep(ns)
		assert.Equal(t, []int{0}, taken(gone))

		trial := acquire(t, b)
		time.Sleep(59 * time.Second) // longer than anybody is waited for who does not come
		assert.Empty(t, taken(gone))
		assert.Equal(t, 29, b.Stats().Waiting)

		trial.Done(breaker.Success)
		assert.Equal(t, []int{1}, taken(gone))
		time.Sleep(100*time.Millisecond - ns)
		assert.Empty(t, taken(gone))
		time.Sleep(ns)
		assert.Equal(t, []int{2}, taken(gone))

		closed := time.Now().Add(-100 * time.Millisecond)
		var at []time.Duration
		for i := 3; i < 30; i++ {
			assert.Equal(t, i, <-gone)
			at = append(at, time.Since(closed))
		}
		assert.Less(t, at[len(at)-1], 2*time.Second)
		for i := range at {
			j, _ := slices.BinarySearch(at, at[i]+50*time.Millisecond)
			assert.LessOrEqual(t, j-i, 30/4, "let go in the 50ms from %v", at[i])
		}
		assert.Empty(t, b.Stats().Waiting)
	})
}

// The pace of one readmission is not that of the next.
func TestEachReadmissionStartsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		for range 2 {
			trip(t, b)
			gone := waiters(t, b, 20)
			time.Sleep(5 * time.Second)
			acquire(t, b).Done(breaker.Success)
			assert.ElementsMatch(t, []int{0, 1}, taken(gone))
			time.Sleep(100*time.Millisecond - ns)
			assert.Empty(t, taken(gone))
			time.Sleep(ns)
			assert.Equal(t, []int{2}, taken(gone))
			time.Sleep(3 * time.Second)
			assert.Len(t, taken(gone), 17)
		}
	})
}

func TestLateComerDoesNotOvertakeTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		gone := waiters(t, b, 3)
		time.Sleep(5 * time.Second)
		acquire(t, b).Done(breaker.Success) // 0 and 1 go
		late := waiters(t, b, 1)
		assert.ElementsMatch(t, []int{0, 1}, taken(gone))
		assert.Empty(t, taken(late))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []int{2}, taken(gone))
		assert.Empty(t, taken(late))
		time.Sleep(time.Second / 11)
		assert.Equal(t, []int{0}, taken(late))
	})
}

// A caller that does not come after its Wait delays the others by a second.
func TestWaiterWhoDoesNotComeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 2})
		trip(t, b)
		gone := waiters(t, b, 5)
		time.Sleep(5 * time.Second)
		assert.ElementsMatch(t, []int{0, 1}, taken(gone))
		time.Sleep(time.Second - ns)
		assert.Empty(t, taken(gone))
		time.Sleep(ns)
		assert.ElementsMatch(t, []int{2, 3}, taken(gone))
		time.Sleep(time.Second)
		assert.Equal(t, []int{4}, taken(gone))
	})
}

// The more so if another trial is out for longer.
func TestWaiterWhoDoesNotComeIsReplacedBesideATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 2})
		trip(t, b)
		gone := waiters(t, b, 3)
		time.Sleep(5 * time.Second)
		assert.ElementsMatch(t, []int{0, 1}, taken(gone))
		acquire(t, b) // and the other does not come
		began := time.Now()
		time.Sleep(500 * ms)
		b.State()
		assert.Equal(t, 2, <-gone)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// A trial that is kept for a caller of Wait is not kept after the next change of
// state.
func TestPlacesAreKeptForOneSpell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 2, Cooldown: 100 * ms})
		trip(t, b)
		gone := waiters(t, b, 4)
		time.Sleep(100 * ms)
		assert.ElementsMatch(t, []int{0, 1}, taken(gone))
		acquire(t, b).Done(breaker.Failure) // and one does not come
		time.Sleep(200*ms - ns)
		assert.Empty(t, taken(gone))
		time.Sleep(ns)
		assert.ElementsMatch(t, []int{2, 3}, taken(gone))
	})
}

// A lost trial does not block the line, even if no call asks in the meantime.
func TestLostTrialDoesNotKeepTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{TrialLimit: 20 * time.Second})
		trip(t, b)
		gone := waiters(t, b, 3)
		began := time.Now()
		for i, want := range []time.Duration{5, 25, 65} {
			assert.Equal(t, i, <-gone)
			assert.Equal(t, want*time.Second, time.Since(began))
			acquire(t, b) // and forget it
		}
	})
}

func TestIgnoredTrialLetsTheNextGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		gone := waiters(t, b, 2)
		time.Sleep(5 * time.Second)
		assert.Equal(t, []int{0}, taken(gone))
		acquire(t, b).Done(breaker.Ignored)
		assert.Equal(t, []int{1}, taken(gone))
	})
}

func TestHurryLetsAWaiterGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		time.Sleep(5 * time.Second)
		acquire(t, b).Done(breaker.Failure) // now it is 10 s
		gone := waiters(t, b, 2)
		time.Sleep(6 * time.Second)
		assert.Empty(t, taken(gone))
		b.Hurry()
		assert.Equal(t, []int{0}, taken(gone))
	})
}

// Hurry during the first Cooldown wakes waiters at its end, not at that of the longer
// cool-down.
func TestHurryWakesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		time.Sleep(5 * time.Second)
		acquire(t, b).Done(breaker.Failure) // now it is 10 s
		began := time.Now()
		gone := waiters(t, b, 1)
		time.Sleep(2 * time.Second)
		b.Hurry()
		assert.Equal(t, 0, <-gone)
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Name: "api"})
		trip(t, b)
		began := time.Now()
		cause := errors.New("the run was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(cause) })
		err := b.Wait(ctx)
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, cause)
		assert.NotErrorIs(t, err, breaker.ErrOpen)
		assert.EqualError(t, err, "breaker: api: waited 2s for it to close: context canceled: the run was stopped")

		err = b.Wait(ctx)
		assert.EqualError(t, err, "breaker: api: context canceled: the run was stopped")
		assert.Zero(t, b.Stats().Waiting)

		err = newBreaker(t, breaker.Config{}).Wait(ctx)
		assert.EqualError(t, err, "breaker: context canceled: the run was stopped", "closed, nobody need wait")

		err = b.Wait(nil) //lint:ignore SA1012 that is what is tried
		assert.EqualError(t, err, "breaker: nil context")
	})
}

func TestHopelessWaitIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Name: "api"})
		trip(t, b)
		began := time.Now()
		onTheDot, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := b.Wait(onTheDot)
		assert.Zero(t, time.Since(began))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, breaker.ErrOpen)
		we, ok := errors.AsType[*breaker.WaitError](err)
		require.True(t, ok)
		assert.Equal(t, breaker.WaitError{Name: "api", Wait: 5 * s, Left: 5 * s}, *we)
		assert.True(t, we.Timeout())
		assert.EqualError(t, err, "breaker: api: open, next trial in 5s, but the context ends in 5s")

		justEnough, cancel := context.WithTimeout(t.Context(), 5*time.Second+ns)
		defer cancel()
		assert.NoError(t, b.Wait(justEnough))
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

// A failed trial makes the wait longer, and refuses waiters that cannot wait so long.
func TestFailedTrialTellsWhoCannotOutwaitIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		began := time.Now()
		time.AfterFunc(5*time.Second, func() {
			if p, err := b.Acquire(); assert.NoError(t, err) {
				time.Sleep(time.Second)
				p.Done(breaker.Failure)
			}
		})
		gone := waiters(t, b, 2) // 0 is let go and refused
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		err := b.Wait(ctx)
		assert.Equal(t, 6*time.Second, time.Since(began))
		we, ok := errors.AsType[*breaker.WaitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, breaker.WaitError{Wait: 9 * s, Left: 9 * s}, *we)
		assert.Equal(t, 0, <-gone)
		assert.Equal(t, 1, <-gone)
		assert.Equal(t, 15*time.Second, time.Since(began))
	})
}

// So does putting a trial off.
func TestPostponeTellsWhoCannotOutwaitIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		began := time.Now()
		time.AfterFunc(4*time.Second, func() { b.Postpone(5 * time.Second) })
		gone := waiters(t, b, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		err := b.Wait(ctx)
		assert.Equal(t, 4*time.Second, time.Since(began))
		we, ok := errors.AsType[*breaker.WaitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, breaker.WaitError{Wait: 5 * s, Left: 5 * s}, *we)
		assert.Equal(t, 0, <-gone)
		assert.Equal(t, 9*time.Second, time.Since(began))
	})
}

// 45 callers whose endpoint is away for two minutes: all outlive it, in the
// meantime the endpoint sees one call per cool-down.
func TestCallersOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		const outage = 2 * time.Minute
		began := time.Now()
		var during atomic.Int32
		one := func() bool {
			for {
				if err := b.Wait(t.Context()); !assert.NoError(t, err) {
					return false
				}
				p, err := b.Acquire()
				if err != nil {
					continue
				}
				time.Sleep(100 * time.Millisecond)
				if time.Since(began) < outage {
					during.Add(1)
					p.Done(breaker.Failure)
					time.Sleep(time.Second) // its backoff
					continue
				}
				p.Done(breaker.Success)
				return true
			}
		}
		var wg sync.WaitGroup
		for range 45 {
			wg.Go(func() { assert.True(t, one()) })
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(began), outage+33*time.Second)
		// The 45 that were on their way, and trials after 5, 15, 35, 65 and 95 s.
		assert.EqualValues(t, 45+5, during.Load())
		assert.Equal(t, breaker.Closed, b.State())
	})
}

// Callers at random: they wait, come or do not come, succeed, fail, are ignored,
// forget their trial, or lose patience. There are never more trials than there
// may be, changes lead from one to the next, and in the end, when the endpoint
// works again, all callers get through.
func TestNobodyWaitsForEver(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomCallers(t, seed) })
		})
	}
}

func randomCallers(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	trials := 1 + rnd.IntN(3)
	limit := time.Duration(1+rnd.IntN(40)) * time.Second
	state := breaker.Closed
	b := newBreaker(t, breaker.Config{
		Failures: 1 + rnd.IntN(4), Trials: trials, TrialLimit: limit,
		OnChange: func(c breaker.Change) {
			assert.Equal(t, state, c.From)
			state = c.To
		},
	})
	began := time.Now()
	const troubled = 5 * time.Minute

	caller := func(rnd *rand.Rand) {
		time.Sleep(time.Duration(rnd.IntN(120)) * time.Second)
		for {
			well := time.Since(began) > troubled
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if !well && rnd.IntN(3) == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rnd.IntN(30))*time.Second)
			}
			err := b.Wait(ctx)
			cancel()
			if err != nil {
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Second)
				continue
			}
			if !well && rnd.IntN(5) == 0 {
				time.Sleep(time.Duration(rnd.IntN(5)) * time.Second) // on its way
				continue
			}
			p, err := b.Acquire()
			if err != nil {
				assert.ErrorIs(t, err, breaker.ErrOpen)
				continue
			}
			assert.LessOrEqual(t, b.Stats().Trials, trials)
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			switch verdict := rnd.IntN(10); {
			case time.Since(began) > troubled:
				p.Done(breaker.Success)
				return
			case verdict < 5:
				p.Done(breaker.Failure)
			case verdict < 6:
				p.Done(breaker.Ignored)
			case verdict < 7:
				p.Progress()
				p.Done(breaker.Success)
			case verdict < 8:
				b.Hurry()
				p.Done(breaker.Failure)
			case verdict < 9:
				time.Sleep(2 * limit)
				p.Done(breaker.Success) // late, if it is a trial
			default: // forgotten
			}
		}
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { caller(rand.New(rand.NewPCG(rnd.Uint64(), 0))) })
		synctest.Wait()
	}
	wg.Wait()
	// The last trial may have been forgotten just before, ten limits long.
	assert.Less(t, time.Since(began), troubled+10*limit+2*time.Minute)
	assert.Zero(t, b.Stats().Waiting)
	assert.Equal(t, breaker.Closed, b.State())
}
