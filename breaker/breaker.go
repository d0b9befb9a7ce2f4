package breaker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Breaker guards one endpoint. Make one with [New]. It is safe for concurrent
// use, keeps no goroutine, and needs no Close.
type Breaker struct {
	onChange func(Change)

	mu      sync.Mutex
	core    core
	timer   *time.Timer // nil until somebody first waits
	armed   time.Time   // when timer fires; zero: it is stopped
	telling bool        // somebody is calling onChange
}

// Acquire lets one call through, or refuses it with an [OpenError]. It does not
// wait. The pass must be settled with [Pass.Done].
func (b *Breaker) Acquire() (*Pass, error) {
	b.mu.Lock()
	defer b.unlock()
	var now time.Time
	if b.core.state != Closed {
		now = time.Now()
	}
	p, err := b.core.acquire(b, now)
	b.armLocked(now)
	return p, err
}

// Wait returns nil when an Acquire may succeed: at once while the breaker is
// closed, else in the order of the calls to Wait, one for each trial that can
// be made, and one by one, ten a second at first and ever faster, when it has
// closed. That is no promise, since others may come first or the breaker may
// open again: a caller who is refused by Acquire waits anew. If it does not
// come to Acquire within a second, somebody else is let go in its place.
//
// When ctx ends, Wait returns at once with an error that matches ctx.Err() and
// [context.Cause]. If ctx has a deadline that comes before the next trial, it
// returns a [WaitError] as soon as that is known.
func (b *Breaker) Wait(ctx context.Context) error {
	if ctx == nil {
		return errors.New("breaker: nil context")
	}
	if ctx.Err() != nil {
		return ended(ctx, b.core.Name, 0)
	}

	b.mu.Lock()
	if b.core.calm() {
		b.mu.Unlock()
		return nil
	}
	deadline, _ := ctx.Deadline()
	now := time.Now()
	w, err := b.core.wait(now, deadline)
	b.armLocked(now)
	b.unlock()
	if w == nil {
		return err
	}

	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		b.mu.Lock()
		now := time.Now()
		b.core.leave(now, w)
		b.armLocked(now)
		b.unlock()
		return ended(ctx, b.core.Name, now.Sub(w.since))
	}
}

// Calm reports whether the breaker is closed and nobody is in Wait: who asks now
// overtakes nobody.
func (b *Breaker) Calm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.calm()
}

// Hurry tells an open breaker of a sign of life, for example that a health
// check was answered. It takes back what failed trials have added to the
// cool-down, so that the next trial comes Cooldown after the breaker opened, or
// now, also if it was postponed. It does not close the breaker: that takes a call.
func (b *Breaker) Hurry() {
	b.mu.Lock()
	defer b.unlock()
	if b.core.state == Closed {
		return
	}
	now := time.Now()
	b.core.hurry(now)
	b.armLocked(now)
}

// Postpone tells an open breaker that a trial would be in vain for now, for
// example that a health check says the model is still loading. The next trial
// comes no sooner than d from now, or Cooldown from now if that is less: who goes
// on knowing better says so again. All of that puts off one trial by MaxPostpone
// at most. A breaker that is closed or half-open it does not touch.
func (b *Breaker) Postpone(d time.Duration) {
	b.mu.Lock()
	defer b.unlock()
	if b.core.state != Open {
		return
	}
	now := time.Now()
	b.core.postpone(now, d)
	b.armLocked(now)
}

// State returns the present state.
func (b *Breaker) State() State { return b.Stats().State }

// Stats is what a [Breaker] is doing at one moment.
type Stats struct {
	State State
	Since time.Time // of the last change; zero if there was none

	Failures   int       // closed: failures in a row
	Calls      int       // closed: calls judged in the last Window
	Failed     int       // closed: those of them that failed
	Retry      time.Time // open: when the next trial may start
	Trials     int       // half-open: trials out
	Overdue    time.Time // half-open: when the first of them will be written off
	Waiting    int       // callers in Wait
	WrittenOff int       // trials written off since it was last closed
	Last       Change    // zero if there was none
}

// Stats tells the present state and what it depends on.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.core.advance(now)
	b.armLocked(now)
	return b.core.stats(now)
}

// wake is the timer's: time has come for somebody in Wait.
func (b *Breaker) wake() {
	b.mu.Lock()
	defer b.unlock()
	b.armed = time.Time{} // also if this wake was overtaken by a Reset: then it is armed anew
	now := time.Now()
	b.core.advance(now)
	b.armLocked(now)
}

// armLocked sets the timer to when the next one in Wait may be let go.
func (b *Breaker) armLocked(now time.Time) {
	next := b.core.next
	if next.Equal(b.armed) {
		return
	}
	b.armed = next
	switch {
	case next.IsZero():
		b.timer.Stop()
	case b.timer == nil:
		b.timer = time.AfterFunc(next.Sub(now), b.wake)
	default:
		b.timer.Reset(next.Sub(now))
	}
}

// unlock releases mu and tells what has changed. Only one goroutine tells at a
// time; what others change meanwhile is told by that one.
func (b *Breaker) unlock() {
	if b.onChange == nil {
		b.core.changes = nil
	}
	tell := len(b.core.changes) > 0 && !b.telling
	b.telling = b.telling || tell
	b.mu.Unlock()
	for tell {
		tell = b.tellOne()
	}
}

// tellOne tells the next change, and reports false if there was none.
func (b *Breaker) tellOne() bool {
	b.mu.Lock()
	if len(b.core.changes) == 0 {
		b.telling = false
		b.mu.Unlock()
		return false
	}
	c := b.core.changes[0]
	b.core.changes = b.core.changes[1:]
	b.mu.Unlock()

	told := false
	defer func() {
		if !told { // onChange panics: whoever comes next tells the rest
			b.mu.Lock()
			b.telling = false
			b.mu.Unlock()
		}
	}()
	b.onChange(c)
	told = true
	return true
}
