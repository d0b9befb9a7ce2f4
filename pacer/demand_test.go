package pacer_test

import (
	"context"
	"errors"
	"fmt"
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

func TestTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1})
		first, err := p.Enqueue(t.Context(), pacer.Demand{Agent: "a"})
		require.NoError(t, err)
		assert.Equal(t, pacer.Place{}, first.Place(), "it is through")
		held, err := first.Wait(t.Context())
		require.NoError(t, err)

		second, err := p.Enqueue(t.Context(), pacer.Demand{Agent: "a"})
		require.NoError(t, err)
		third, err := p.Enqueue(t.Context(), pacer.Demand{Agent: "b"})
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		assert.Equal(t, pacer.Place{Waited: 3 * time.Second, For: pacer.ReasonInFlight}, second.Place())
		assert.Equal(t, pacer.Place{Ahead: 1, Waited: 3 * time.Second, For: pacer.ReasonInFlight}, third.Place())

		second.Cancel()
		second.Cancel()
		assert.Equal(t, 0, third.Place().Ahead)
		held.Done(pacer.Result{Outcome: pacer.Answered})
		assert.Equal(t, pacer.Place{Waited: 3 * time.Second}, third.Place(), "it is through")
		assert.Equal(t, 1, p.Stats().InFlight, "also while nobody waits for it")
		third.Cancel()
		idle(t, p)

		// A ticket that was through at once goes back as well.
		fourth, err := p.Enqueue(t.Context(), pacer.Demand{})
		require.NoError(t, err)
		fourth.Cancel()
		idle(t, p)
	})
}

func TestTicketWaitsWithItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{MaxInFlight: 1})
		held := acquire(t, p)
		ticket, err := p.Enqueue(t.Context(), pacer.Demand{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err = ticket.Wait(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		_, err = ticket.Wait(t.Context())
		assert.EqualError(t, err, "pacer: the ticket was used before")
		ticket.Cancel()
		held.Release()
		idle(t, p)
	})
}

func TestNoTicketIsNoPanic(t *testing.T) {
	var none *pacer.Ticket
	none.Cancel()
	new(pacer.Ticket).Cancel()
	assert.Equal(t, pacer.Place{}, none.Place())
	_, err := none.Wait(t.Context())
	assert.EqualError(t, err, "pacer: no ticket")
	p := newPacer(t, pacer.Config{})
	_, err = p.Enqueue(nil, pacer.Demand{}) //lint:ignore SA1012 that is what is tried
	assert.EqualError(t, err, "pacer: nil context")
	ticket, err := p.Enqueue(t.Context(), pacer.Demand{Priority: -1 << 63, Tokens: -1 << 63})
	require.NoError(t, err)
	_, err = ticket.Wait(nil) //lint:ignore SA1012 that is what is tried
	assert.EqualError(t, err, "pacer: nil context")
	ticket.Cancel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Enqueue(ctx, pacer.Demand{})
	assert.ErrorIs(t, err, context.Canceled)
	idle(t, p)

	permit := acquire(t, p)
	permit.Output(-5)
	permit.FirstOutput(-time.Hour)
	permit.FirstOutput(1<<63 - 1)
	permit.Output(1 << 62)
	permit.Done(pacer.Result{Outcome: 99, Outputs: -1 << 63, Tokens: 1 << 62})
	permit.Output(1)
	permit.FirstOutput(1)
	p.Heed(nil, pacer.Allowance{Remaining: 1 << 62, Limit: -1 << 63, Reset: 1<<63 - 1})
	p.Heed(new(pacer.Permit), pacer.Allowance{})
	p.Heed(nil)
	assert.Equal(t, "no outcome", pacer.Outcome(99).String())
	assert.Equal(t, "unknown abandoned", fmt.Sprint(pacer.Unknown, " ", pacer.Abandoned))
	acquire(t, p).Release()
}

// A learner meets the strangest words without falling over, and works after it.
func TestLearnerTakesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{StartInFlight: 2, TokensPerMinute: 1 << 62, TokenBurst: -1})
		rnd := rand.New(rand.NewPCG(1, 2))
		odd := func() int { return []int{0, 1, -1, 1 << 62, -1 << 63, 17}[rnd.IntN(6)] }
		for range 2000 {
			permit, err := p.AcquireFor(t.Context(), pacer.Demand{Tokens: odd(), Priority: odd()})
			if errors.Is(err, pacer.ErrTooLarge) {
				continue
			}
			require.NoError(t, err)
			time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
			permit.FirstOutput(time.Duration(odd()))
			time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
			permit.Output(odd())
			permit.Done(pacer.Result{Outcome: pacer.Outcome(rnd.IntN(8) - 1), Outputs: odd(), Tokens: odd()})
			require.GreaterOrEqual(t, p.Stats().Limit, 1)
			require.Zero(t, p.Stats().InFlight)
			time.Sleep(time.Minute)
		}
	})
}

func TestTooLargeIsToldAtOnce(t *testing.T) {
	p := newPacer(t, pacer.Config{TokensPerMinute: 1000})
	_, err := p.AcquireFor(t.Context(), pacer.Demand{Tokens: 1001})
	assert.ErrorIs(t, err, pacer.ErrTooLarge)
	te, ok := errors.AsType[*pacer.TooLargeError](err)
	require.True(t, ok)
	assert.Equal(t, pacer.TooLargeError{Tokens: 1001, Max: 1000}, *te)
	assert.EqualError(t, err, "pacer: request is too large: 1001 tokens, want at most 1000, all that a minute has")
	assert.Nil(t, p.TryAcquireFor(pacer.Demand{Tokens: 1001}))
	assert.NotNil(t, p.TryAcquireFor(pacer.Demand{Tokens: 1000}))
}

// When the first in line leaves, one that is due sooner may be next.
func TestWhoLeavesWakesTheNextInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{TokensPerMinute: 1000, TokenBurst: -1})
		began := time.Now()
		require.NotNil(t, p.TryAcquireFor(pacer.Demand{Tokens: 500}))
		time.Sleep(30 * time.Second)
		require.NotNil(t, p.TryAcquireFor(pacer.Demand{Tokens: 500}))
		big, err := p.Enqueue(t.Context(), pacer.Demand{Tokens: 1000})
		require.NoError(t, err)
		assert.Equal(t, began.Add(90*time.Second), p.Stats().Next)
		time.AfterFunc(time.Second, big.Cancel)
		_, err = p.AcquireFor(t.Context(), pacer.Demand{Tokens: 400})
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

// Output that makes room lets one in, and wakes the one behind it when a rate lets
// that in.
func TestWhoHearsOutputWakesTheNextInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{StartInFlight: 8, RequestsPerMinute: 20, Burst: 8})
		began := time.Now()
		var out []*pacer.Permit
		for range 8 {
			out = append(out, acquire(t, p))
		}
		time.Sleep(500 * time.Millisecond)
		for _, permit := range out {
			permit.FirstOutput(500 * time.Millisecond)
		}
		var wg sync.WaitGroup
		for _, want := range []time.Duration{3500 * time.Millisecond, 6 * time.Second} {
			wg.Go(func() {
				acquire(t, p)
				assert.Equal(t, want, time.Since(began))
			})
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		assert.Equal(t, 2, p.Stats().Queued)
		for _, permit := range out {
			permit.Output(50)
		}
		wg.Wait()
	})
}

// Return frees the place in the minute and Release does not, even if no limit is
// learned.
func TestReturnFreesThePlaceInTheMinute(t *testing.T) {
	for _, start := range []int{-1, 8} {
		p := newPacer(t, pacer.Config{StartInFlight: start, RequestsPerMinute: 1})
		permit := p.TryAcquire()
		assert.Nil(t, p.TryAcquire())
		permit.Return()
		permit = p.TryAcquire()
		require.NotNil(t, permit)
		permit.Return()
		ticket, err := p.Enqueue(t.Context(), pacer.Demand{})
		require.NoError(t, err)
		ticket.Cancel() // as a ticket does that was not used
		permit = p.TryAcquire()
		require.NotNil(t, permit)
		permit.Release()
		assert.Nil(t, p.TryAcquire())
	}
}

// What is heard without a permit is taken for the answer to the last request, with
// one to that: those that began later may not be part of it.
func TestHeedKnowsWhatBeganLater(t *testing.T) {
	for name, start := range map[string]int{"fixed": -1, "learned": 50} {
		p := newPacer(t, pacer.Config{StartInFlight: start})
		var first *pacer.Permit
		for i := range 5 {
			permit := acquire(t, p)
			if i == 0 {
				first = permit
			}
		}
		left := func() (n int) {
			for n < 100 && p.TryAcquire() != nil {
				n++
			}
			return n
		}
		p.Heed(first, pacer.Allowance{Remaining: 11, Reset: time.Hour, AtOnce: true})
		assert.Equal(t, 11-4, left(), "%s: four began later", name)
		p.Heed(nil, pacer.Allowance{Remaining: 3, Reset: time.Hour, AtOnce: true})
		assert.Equal(t, 3, left(), "%s: none did", name)
	}
}

// To try in vain is no promise: it leaves nothing reserved that would let more in
// at once later.
func TestATryInVainHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{RequestsPerMinute: 60, Burst: 2})
		at := func() (n int) {
			for n < 10 && p.TryAcquire() != nil {
				n++
			}
			return n
		}
		assert.Equal(t, 2, at())
		time.Sleep(time.Second - time.Millisecond)
		assert.Equal(t, 0, at())
		time.Sleep(time.Millisecond)
		assert.Equal(t, 1, at())
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, 1, at())
		time.Sleep(10 * time.Second)
		assert.Equal(t, 2, at())
	})
}

// What was reserved is settled by Done and given back by Return, whatever else is
// bounded.
func TestTokensAreSettledAtTheEnd(t *testing.T) {
	for name, cfg := range map[string]pacer.Config{
		"nothing else":    {StartInFlight: -1},
		"places":          {StartInFlight: -1, MaxInFlight: 10},
		"what is learned": {StartInFlight: 8},
		"a rate":          {StartInFlight: -1, RequestsPerMinute: 600},
	} {
		cfg.TokensPerMinute, cfg.TokenBurst = 1000, -1
		p := newPacer(t, cfg)
		take := func() *pacer.Permit {
			permit := p.TryAcquireFor(pacer.Demand{Tokens: 300})
			require.NotNil(t, permit, name)
			return permit
		}
		a, b, c := take(), take(), take()
		assert.Equal(t, 900, p.Stats().TokensBooked, name)
		assert.Nil(t, p.TryAcquireFor(pacer.Demand{Tokens: 300}), name)
		assert.Equal(t, 900, p.Stats().TokensBooked, "%s: who is refused takes none", name)
		a.Done(pacer.Result{Outcome: pacer.Answered, Tokens: 20})
		assert.Equal(t, 620, p.Stats().TokensBooked, name)
		b.Return()
		assert.Equal(t, 320, p.Stats().TokensBooked, name)
		c.Release()
		assert.Equal(t, 320, p.Stats().TokensBooked, name)
		take().Done(pacer.Result{Outcome: pacer.Failed, Outputs: -1})
		assert.Equal(t, 320, p.Stats().TokensBooked, "%s: less than no output is none", name)
	}
}

// 45 agents start at once, and nothing is known: eight at once, then one each
// second, until the first output is heard. Then it is seen how they do.
func TestFortyFiveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pacer.New(pacer.Config{})
		require.NoError(t, err)
		began := time.Now()
		at := make([]time.Duration, 45)
		var wg sync.WaitGroup
		for i := range at {
			wg.Go(func() {
				permit, err := p.AcquireFor(t.Context(), pacer.Demand{Agent: fmt.Sprint(i)})
				if !assert.NoError(t, err) {
					return
				}
				at[i] = time.Since(began)
				time.Sleep(time.Hour) // it thinks, and nobody hears of it
				permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 100})
			})
		}
		wg.Wait()
		slices.Sort(at)
		assert.Zero(t, at[7])
		assert.Equal(t, time.Second, at[8])
		assert.Equal(t, 37*time.Second, at[44])
		assert.Zero(t, p.Stats().InFlight)
	})
}

// All methods of a permit are called from several goroutines, for the race detector.
func TestPermitIsForManyGoroutines(t *testing.T) {
	p, err := pacer.New(pacer.Config{TokensPerMinute: 1_000_000})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: fmt.Sprint(i), Priority: j % 3, Tokens: j})
				if err == nil {
					var both sync.WaitGroup
					both.Go(func() { permit.FirstOutput(time.Millisecond); permit.Output(j) })
					both.Go(func() { p.Heed(permit, pacer.Allowance{Remaining: 1000, Limit: 1000, Reset: time.Second}) })
					both.Go(func() { permit.Done(pacer.Result{Outcome: pacer.Outcome(j % 6), Outputs: j, Tokens: j}) })
					both.Wait()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	assert.Zero(t, p.Stats().InFlight)
	assert.Zero(t, p.Stats().Queued)
}

// Looking at one's place is no way to stop the line: whoever is due goes, and
// the one after it is woken in time.
func TestLookingKeepsTheLineGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pacer.Config{RequestsPerMinute: 60, Burst: 1})
		acquire(t, p).Release()
		began := time.Now()
		var tickets []*pacer.Ticket
		for range 3 {
			ticket, err := p.Enqueue(t.Context(), pacer.Demand{})
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		assert.Equal(t, pacer.Place{Ahead: 2, For: pacer.ReasonRate, Expected: 3 * time.Second}, tickets[2].Place())
		for range 7 {
			time.Sleep(400 * time.Millisecond)
			tickets[2].Place()
		}
		permit, err := tickets[2].Wait(t.Context())
		require.NoError(t, err)
		permit.Release()
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}
