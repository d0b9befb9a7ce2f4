package breaker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Breaker guards one endpoint. Make one with [New]. It is safe for concurrent
// use, runs no goroutine, and needs no Close.
type Breaker struct {
	onChange func(Change)

	mu      sync.Mutex
	core    core
	timer   *time.Timer // nil until the first Wait that has to wait
	armed   time.Time   // when timer fires; zero: it is stopped
	telling bool        // some goroutine is calling onChange
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

// Wait returns nil when an Acquire may succeed. While the breaker is closed, that
// is at once. While it is half-open, Wait returns for one caller for each trial
// that can start, in the order of the calls. When it has closed, Wait returns for
// one caller after the other, at ten a second at first and ever faster.
//
// Acquire may still refuse, since others may come first or the breaker may open
// again: then call Wait again. A caller that does not call Acquire within a second
// after Wait loses its turn to the next.
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

// Calm reports whether the breaker is closed and no caller is in Wait, so that an
// Acquire now overtakes none.
func (b *Breaker) Calm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.calm()
}

// Hurry tells an open breaker of a sign of life, for example that a health check
// was answered. The next trial then comes Cooldown after the breaker opened, or now
// if that has passed, even if trials have failed or it was postponed. Hurry does
// not close the breaker: that takes a successful trial.
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

// Postpone tells an open breaker that a trial would fail for now, for example
// because the model is still loading. The next trial comes no sooner than d from
// now, or Cooldown from now if that is less. To put it off for longer, call
// Postpone again: all calls together put off one trial by MaxPostpone at most.
// Postpone does nothing while the breaker is closed or half-open.
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
	Overdue    time.Time // half-open: when the first of those will be written off
	Waiting    int       // callers in Wait
	WrittenOff int       // trials written off since it was last closed
	Last       Change    // zero if there was none
}

// Stats returns the present state and what it depends on.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.core.advance(now)
	b.armLocked(now)
	return b.core.stats(now)
}

// wake is called by the timer when the next caller in Wait may be due.
func (b *Breaker) wake() {
	b.mu.Lock()
	defer b.unlock()
	b.armed = time.Time{} // even if a Reset has overtaken this wake: then it is armed anew
	now := time.Now()
	b.core.advance(now)
	b.armLocked(now)
}

// armLocked sets the timer to when the next caller in Wait may go.
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

// unlock releases mu and calls onChange for the changes. One goroutine does so at a
// time, and passes on what others change meanwhile.
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

// tellOne calls onChange for the next change, and reports false if there is none.
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
		if !told { // onChange has panicked: the next unlock tells the rest
			b.mu.Lock()
			b.telling = false
			b.mu.Unlock()
		}
	}()
	b.onChange(c)
	told = true
	return true
}
