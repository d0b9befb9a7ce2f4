package breaker

import (
	"sync/atomic"
	"time"
)

// A Pass lets one call through. The first call of Done settles it; it may be
// used from any goroutine.
type Pass struct {
	breaker *Breaker
	trial   bool
	epoch   int           // of the core, when it was let through
	number  int64         // among the calls of the epoch; zero: nobody asked
	sign    atomic.Uint64 // the run of failures in which it last made headway

	// Guarded by breaker.mu.
	settled bool
	heard   time.Time // a trial began, or made headway
	limit   time.Duration
}

// Trial reports whether the breaker was half-open and this call is to find out
// whether the endpoint works again.
func (p *Pass) Trial() bool { return p != nil && p.trial }

// Progress says that the call is making headway, for example that output has
// begun or goes on. A trial gets its limit anew. Of other calls it is a sign of
// life, as long as they last: with Failures at its default a run of failures
// does not open the breaker meanwhile, up to 20 of them. It may be called for
// each piece of output; mostly it is one look at a number.
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

// Done settles the call. Only the first verdict counts, and only if the breaker
// has not changed its state since the call was let through and has not written
// it off. A verdict that is none of the three is [Ignored].
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
	if v != Success || !b.core.succeed(p) {
		now := time.Now()
		b.core.judge(now, p, v)
		b.armLocked(now)
	}
	p.settled = true
}
