package pacer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pacer admits requests to one endpoint. Make one with [New]. It is safe for
// concurrent use, starts no goroutine that outlives a wait, and needs no Close.
type Pacer struct {
	rand func() float64
	born time.Time // what Permit.Output counts from

	mu    sync.Mutex
	core  core
	timer *time.Timer // nil until the first wait for a known time
	armed time.Time   // when timer fires; zero: it is stopped
}

// Acquire is [Pacer.AcquireFor] for an ordinary request.
func (p *Pacer) Acquire(ctx context.Context) (*Permit, error) {
	return p.AcquireFor(ctx, Demand{})
}

// AcquireFor waits until a request may start and returns its permit, which must
// be given back with [Permit.Done], [Permit.Release] or [Permit.Return].
//
// Agents take turns, and an agent's own requests are admitted in order. When ctx
// ends, AcquireFor returns at once with an error that matches ctx.Err() and
// [context.Cause]. It does not wait but returns
//
//   - a [TooLargeError] if the request can never be admitted,
//   - a [WaitError] if the wait cannot fit the deadline of ctx,
//   - a [QueueFullError] if too many callers wait already.
//
// If a cool-down begins during the wait and outlasts the deadline of ctx, it
// returns the WaitError then.
func (p *Pacer) AcquireFor(ctx context.Context, d Demand) (*Permit, error) {
	permit, w, err := p.enter(ctx, d)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return permit, nil
	}
	return permit.await(ctx, w)
}

// enter makes a permit, and admits it or gives it a place in line (w).
func (p *Pacer) enter(ctx context.Context, d Demand) (permit *Permit, w *waiter, err error) {
	if ctx == nil {
		return nil, nil, errors.New("pacer: nil context")
	}
	if ctx.Err() != nil {
		return nil, nil, ended(ctx, 0, "")
	}
	deadline, _ := ctx.Deadline()
	permit = &Permit{pacer: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, err = p.core.enter(now, deadline, d, &permit.seat)
	p.armLocked(now)
	return permit, w, err
}

// await waits until w, the waiter for p, is admitted or refused.
func (p *Permit) await(ctx context.Context, w *waiter) (*Permit, error) {
	select {
	case <-w.done:
		if w.err != nil {
			return nil, w.err
		}
		return p, nil
	case <-ctx.Done():
		waited, why := p.pacer.leave(w)
		return nil, ended(ctx, waited, why)
	}
}

// leave takes w out of line, and returns how long it was there and for what.
func (p *Pacer) leave(w *waiter) (time.Duration, Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	why := p.core.why
	p.core.leave(now, w)
	p.armLocked(now)
	return now.Sub(w.since), why
}

// TryAcquire is [Pacer.TryAcquireFor] for an ordinary request.
func (p *Pacer) TryAcquire() *Permit { return p.TryAcquireFor(Demand{}) }

// TryAcquireFor returns a permit if the request can start at once without overtaking
// another, and nil otherwise.
func (p *Pacer) TryAcquireFor(d Demand) *Permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core.tokens != nil && !p.core.tokens.fits(d.need()) {
		return nil
	}
	now := time.Now()
	permit := &Permit{pacer: p}
	ok := p.core.try(now, d, &permit.seat)
	if !ok {
		p.core.admitDue(now) // takes back what try reserved
	}
	p.armLocked(now)
	if !ok {
		return nil
	}
	return permit
}

// CoolDown admits no request for d from now. If a cool-down lasts longer already, it
// does nothing, so any number of callers may report the same refusal. Requests in
// flight go on. A d of zero or less does nothing.
//
// After the cool-down, callers are admitted one by one: ten a second at first and
// faster with each one, until all that waited are in or 10 s have passed. The first
// comes up to a tenth of d, and up to 1 s, after the end, as jitter.
func (p *Pacer) CoolDown(d time.Duration) {
	if d <= 0 {
		return
	}
	jitter := rand.Float64
	if p.rand != nil {
		jitter = p.rand
	}
	j := jitter()

	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.core.coolDown(now, d, j)
	p.armLocked(now)
}

// Heed takes what the server said is left of its limits, in its answer to the
// request of a permit. No more is admitted until it has come back, or for 2 minutes
// at most. A nil permit stands for a request that was just admitted.
func (p *Pacer) Heed(permit *Permit, allowances ...Allowance) {
	if len(allowances) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	number := p.core.admitted
	if permit != nil && permit.pacer == p {
		number = permit.seat.number
	}
	p.core.heed(now, number, allowances)
	p.armLocked(now)
}

// Stats is what a [Pacer] is doing at one moment.
type Stats struct {
	InFlight int // permits out
	Queued   int // callers waiting

	// Oldest is the age of the oldest permit that is out. If that is longer than
	// any request may take, a permit was not given back.
	Oldest time.Duration

	// Limit is how many requests may be in flight now: the lower of the learned
	// limit and MaxInFlight, zero if there is none. Forgotten requests do not
	// count against the learned limit.
	Limit int

	// Forgotten is how many requests in flight the server seems to have forgotten:
	// they have no output, while others that began long after them do.
	Forgotten int

	// Abandoned is how many abandoned requests still count against the limit.
	Abandoned int

	// TokensBooked is what is reserved or used of TokensPerMinute in the last
	// minute. It is zero if there is no such limit.
	TokensBooked int

	// WaitingFor is what the next in the queue waits for. It is empty if the queue
	// is. The others wait for their turn.
	WaitingFor Reason

	// Next is when the next in the queue will be admitted. It is zero if the queue
	// is empty, or if that depends on a permit to be given back.
	Next time.Time

	// Longest is the longest time that a caller in the queue has waited.
	Longest time.Duration

	// CoolDownUntil is when the present cool-down ends, zero if there is none.
	CoolDownUntil time.Time
}

// Stats returns what the pacer is doing now.
func (p *Pacer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.stats(time.Now())
}

// tell calls f for a request in flight, with the lock held.
func (p *Pacer) tell(permit *Permit, f func(c *core, now time.Time)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if permit.ended.Load() {
		return
	}
	now := time.Now()
	f(&p.core, now)
	p.armLocked(now)
}

// giveBack ends a permit.
func (p *Pacer) giveBack(permit *Permit, r Result, used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if used && p.core.exitFree(&permit.seat) {
		return
	}
	now := time.Now()
	p.core.exit(now, &permit.seat, r, used)
	p.armLocked(now)
}

// wake is called by the timer when the first in the queue may be due.
func (p *Pacer) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = time.Time{} // even if a Reset has overtaken this wake: then it is armed anew
	now := time.Now()
	p.core.admitDue(now)
	p.armLocked(now)
}

// armLocked sets the timer to when the first in the queue may be due.
func (p *Pacer) armLocked(now time.Time) {
	next := p.core.next
	if next.Equal(p.armed) {
		return
	}
	p.armed = next
	switch {
	case next.IsZero():
		p.timer.Stop()
	case p.timer == nil:
		p.timer = time.AfterFunc(next.Sub(now), p.wake)
	default:
		p.timer.Reset(next.Sub(now))
	}
}
