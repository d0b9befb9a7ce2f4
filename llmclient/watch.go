package llmclient

import (
	"sync"
	"time"
)

// A watch runs a meter on real time. It has one timer and no goroutine: the
// timer is moved only when a bound comes nearer than the time it is set to,
// so that output, which only pushes bounds away, costs no timer operations.
//
// It is safe for concurrent use, since transports report from their own goroutines.
type watch struct {
	// These run without the lock, in a goroutine of the timer or the one that
	// cuts.
	onSuspect func(expiry)
	onAsk     func()       // it is time to look for evidence
	onExpire  func(expiry) // at most once

	mu      sync.Mutex
	m       meter
	timer   *time.Timer
	wake    time.Time // when the timer fires; zero if it does not
	stopped bool
	expired *expiry
}

// start begins an attempt. The meter's bounds have been set.
func (w *watch) start(now time.Time, plain, traced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.start(now, plain, traced)
	w.armAtLocked(now, now.Add(firstLook))
	w.armLocked(now)
}

// firstLook bounds when the timer fires first. Most calls need no other setting of
// it. Moving a timer nearer wakes the thread that polls the network.
const firstLook = 5 * time.Second

// tell reports an event to the meter.
func (w *watch) tell(event func(m *meter, now moment)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	now := time.Now()
	event(&w.m, w.m.moment(now))
	w.armLocked(now)
}

func (w *watch) armLocked(now time.Time) {
	if w.stopped || w.expired != nil {
		return
	}
	if at := w.m.due(); at != never {
		w.armAtLocked(now, w.m.time(at))
	}
}

// armAtLocked makes the timer fire at that time at the latest.
func (w *watch) armAtLocked(now, at time.Time) {
	if !w.wake.IsZero() && !at.Before(w.wake) {
		return
	}
	w.wake = at
	if w.timer == nil {
		w.timer = time.AfterFunc(at.Sub(now), w.fire)
	} else {
		w.timer.Reset(at.Sub(now))
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	if w.stopped || w.expired != nil {
		w.mu.Unlock()
		return
	}
	now := time.Now()
	w.wake = time.Time{}
	f := w.m.check(w.m.moment(now))
	w.expired = f.out
	w.armLocked(now)
	w.mu.Unlock()

	if f.out != nil {
		w.onExpire(*f.out) // no suspicion is announced any more: the attempt's end says it all
		return
	}
	for _, t := range f.told {
		w.onSuspect(t)
	}
	if f.ask {
		w.onAsk()
	}
}

// cut lets a clock run out before its limit.
func (w *watch) cut(x expiry) {
	w.mu.Lock()
	late := w.stopped || w.expired != nil
	if !late {
		w.expired = &x
	}
	w.mu.Unlock()
	if !late {
		w.onExpire(x)
	}
}

// stop ends the watch. It returns the meter, which no longer changes, and the clock
// that ran out, if any.
func (w *watch) stop() (*meter, *expiry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped && w.timer != nil {
		w.timer.Stop()
	}
	w.stopped = true
	return &w.m, w.expired
}

// look copies the meter, and returns the clock that ran out, if any.
func (w *watch) look(m *meter) *expiry {
	w.mu.Lock()
	defer w.mu.Unlock()
	*m = w.m
	return w.expired
}

// phase returns where the attempt is.
func (w *watch) phase() Phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.phase
}

// outputFor returns how long the output has been going on.
func (w *watch) outputFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.lastOutput.Sub(w.m.firstOutput)
}
