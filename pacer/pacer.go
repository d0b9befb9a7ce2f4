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
	timer *time.Timer // nil until somebody first waits for a time to come
	armed time.Time   // when timer fires; zero: it is stopped
}

// Acquire is [Pacer.AcquireFor] for a caller who has nothing to say about the
// request.
func (p *Pacer) Acquire(ctx context.Context) (*Permit, error) {
	return p.AcquireFor(ctx, Demand{})
}

// AcquireFor waits until a request may start and returns its permit, which must
// be given back with [Permit.Done], [Permit.Release] or [Permit.Return].
//
// Agents take turns, and an agent's own requests are admitted in the order they
// came. When ctx ends, AcquireFor returns at once with an error that matches
// ctx.Err() and [context.Cause]. It does not wait at all, and returns a
// [TooLargeError], a [WaitError] or a [QueueFullError], where the request can
// never be admitted, where the wait cannot fit the deadline of ctx, or where too
// many wait already. A caller that is already waiting when a cool-down comes,
// and cannot outwait it, is told then.
func (p *Pacer) AcquireFor(ctx context.Context, d Demand) (*Permit, error) {
	if ctx == nil {
		return nil, errors.New("pacer: nil context")
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, 0, "")
	}
	permit := &Permit{pacer: p}
	w, err := p.enter(ctx, d, permit)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return permit, nil
	}
	return permit.await(ctx, w)
}

// enter takes a seat for a permit, or a place in line.
func (p *Pacer) enter(ctx context.Context, d Demand, permit *Permit) (*waiter, error) {
	deadline, _ := ctx.Deadline()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	w, err := p.core.enter(now, deadline, d, &permit.seat)
	p.armLocked(now)
	return w, err
}

// await waits for w, who waits for p, to be let in.
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

// leave takes w out of the line, and says how long it stood there for what.
func (p *Pacer) leave(w *waiter) (time.Duration, Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	why := p.core.why
	p.core.leave(now, w)
	p.armLocked(now)
	return now.Sub(w.since), why
}

// TryAcquire is [Pacer.TryAcquireFor] for a caller who has nothing to say about
// the request.
func (p *Pacer) TryAcquire() *Permit { return p.TryAcquireFor(Demand{}) }

// TryAcquireFor returns a permit if one can be had without waiting and without
// overtaking anybody, and nil otherwise.
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

// CoolDown holds back everybody for d from now: nobody is admitted before it
// is over. Under a pause that lasts longer already it does nothing, so that
// any number of callers may report the same refusal. Requests in flight are
// not touched. d of zero or less does nothing.
//
// When the pause is over callers are let in one by one, ten a second at first
// and quicker with each one admitted, until all that waited are in or ten
// seconds have passed. The first of them comes by up to a tenth of d, and at
// most a second, after the end; a lone caller notices nothing else.
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

// Heed takes in what the server said is left of its limits, in its answer to
// the request of a permit. Nobody is admitted beyond that until it has come
// back, but for two minutes at most. A nil permit stands for a request that was
// admitted just now.
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

	// Oldest is how long the oldest of the permits out has been out. If that is
	// longer than any request may take, somebody forgot to give one back.
	Oldest time.Duration

	// Limit is how many may be in flight now, by what was learned and by
	// MaxInFlight; zero if there is no limit. By what was learned, those that
	// are Forgotten may be in flight besides.
	Limit int

	// Forgotten is how many requests in flight the server seems to have
	// forgotten: they wait for their first output, and others are served that
	// began long after them.
	Forgotten int

	// Abandoned is how many requests we left that still weigh on admission.
	Abandoned int

	// TokensBooked is what is reserved or used of TokensPerMinute in the last
	// minute. It is zero if there is no such limit.
	TokensBooked int

	// WaitingFor says what holds the next in the queue back; it is empty if
	// nobody waits. The others wait for their turn.
	WaitingFor Reason

	// Next is when the next in the queue will be admitted. It is zero if
	// nobody waits, or if that depends on a permit being given back.
	Next time.Time

	// Longest is how long anybody in the queue has been waiting.
	Longest time.Duration

	// CoolDownUntil is when the current pause ends; zero if there is none.
	CoolDownUntil time.Time
}

// Stats tells who waits, and for what.
func (p *Pacer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.stats(time.Now())
}

// tell lets the core hear something of a request under way.
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

// wake is the timer's: time has come for the first in the queue.
func (p *Pacer) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = time.Time{} // also if this wake was overtaken by a Reset: then it is armed anew
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
