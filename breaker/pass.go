package breaker

import (
	"sync/atomic"
	"time"
)

// A Pass lets one call through. The first call of Done settles it. It may be used
// from any goroutine.
type Pass struct {
	breaker *Breaker
	trial   bool
	epoch   int           // of the core, when it was let through
	number  int64         // among the calls of the epoch; zero: not counted
	sign    atomic.Uint64 // the run of failures in which it last made progress

	// Guarded by breaker.mu.
	settled bool
	heard   time.Time // when a trial began or last made progress
	limit   time.Duration
}

// Trial reports whether this call is a trial of a half-open breaker.
func (p *Pass) Trial() bool { return p != nil && p.trial }

// Progress says that the call makes progress, for example that output has begun or
// goes on. The limit of a trial then starts anew. With Failures at its default, a
// run of fewer than 20 failures does not open the breaker as long as such a call is
// running. Progress may be called for each piece of output: mostly it costs one
// atomic load.
func (p *Pass) Progress() {
	if p == nil || p.breaker == nil {
		return
	}
	b := p.breaker
	if !p.trial {
		if run := b.core.run.Load(); run != 0 && run != p.sign.Load() {
			b.mu.Lock()
			b.core.sign(p, run)
			b.mu.Unlock()
		}
		return
	}
	b.mu.Lock()
	defer b.unlock()
	now := time.Now()
	b.core.progress(now, p)
	b.armLocked(now)
}

// Done settles the call. Only the first verdict counts, and only if the breaker has
// neither changed its state since the call was let through nor written it off. A
// verdict that is none of the three counts as [Ignored].
func (p *Pass) Done(v Verdict) {
	if p == nil || p.breaker == nil {
		return
	}
	b := p.breaker
	b.mu.Lock()
	defer b.unlock()
	if p.settled {
		return
	}
	b.core.ended(p)
	switch {
	case v == Success && b.core.succeed(p):
	case v != Success && v != Failure && b.core.state == Closed:
		// Nothing comes of it. Reading the clock would cost more than all the rest when
		// thousands of callers leave at once.
	default:
		now := time.Now()
		b.core.judge(now, p, v)
		b.armLocked(now)
	}
	p.settled = true
}
