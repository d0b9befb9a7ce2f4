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

	mu    sync.Mutex
	core  core
	timer *time.Timer // nil until somebody first waits for a time to come
	armed time.Time   // when timer fires; zero: it is stopped
}

// Acquire waits until a request may start and returns its permit, which must
// be given back with [Permit.Release] or [Permit.Return].
//
// Callers are admitted in the order they came. When ctx ends, Acquire returns
// at once with an error that matches ctx.Err() and [context.Cause]. It does not
// wait at all, and returns a [WaitError] or a [QueueFullError], where the wait
// cannot fit the deadline of ctx or too many wait already. A caller that is
// already waiting when a cool-down comes, and cannot outwait it, is told then.
func (p *Pacer) Acquire(ctx context.Context) (*Permit, error) {
	if ctx == nil {
		return nil, errors.New("pacer: nil context")
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, 0, "")
	}

	p.mu.Lock()
	if p.core.enterFree() {
		p.mu.Unlock()
		return &Permit{pacer: p}, nil
	}
	deadline, _ := ctx.Deadline()
	now := time.Now()
	w, at, err := p.core.enter(now, deadline)
	p.armLocked(now)
	p.mu.Unlock()

	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return &Permit{pacer: p, at: at}, nil
	}

	select {
	case <-w.done:
		if w.err != nil {
			return nil, w.err
		}
		return &Permit{pacer: p, at: w.at}, nil
	case <-ctx.Done():
		p.mu.Lock()
		now := time.Now()
		why := p.core.why
		p.core.leave(now, w)
		p.armLocked(now)
		p.mu.Unlock()
		return nil, ended(ctx, now.Sub(w.since), why)
	}
}

// TryAcquire returns a permit if one can be had without waiting and without
// overtaking anybody, and nil otherwise.
func (p *Pacer) TryAcquire() *Permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.core.enterFree() {
		return &Permit{pacer: p}
	}
	now := time.Now()
	at, ok := p.core.try(now)
	if !ok {
		p.core.admitDue(now) // takes back what try reserved
	}
	p.armLocked(now)
	if !ok {
		return nil
	}
	return &Permit{pacer: p, at: at}
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

// Stats is what a [Pacer] is doing at one moment.
type Stats struct {
	InFlight int // permits out
	Queued   int // callers waiting

	// WaitingFor says what holds the first in the queue back; it is empty if
	// nobody waits. The others wait for their turn.
	WaitingFor Reason

	// Next is when the first in the queue will be admitted. It is zero if
	// nobody waits, or if that depends on a permit being given back.
	Next time.Time

	// Longest is how long the first in the queue has been waiting.
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

// giveBack ends a permit that was given at the offset at.
func (p *Pacer) giveBack(at time.Duration, used bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if used && p.core.exitFree() {
		return
	}
	now := time.Now()
	p.core.exit(now, at, used)
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
