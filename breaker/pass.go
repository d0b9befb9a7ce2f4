package breaker

import "time"

// A Pass lets one call through. The first call of Done settles it; it may be
// used from any goroutine.
type Pass struct {
	breaker *Breaker
	trial   bool
	epoch   int // of the core, when it was let through

	// Guarded by breaker.mu.
	settled bool
	heard   time.Time // a trial began, or made headway
	limit   time.Duration
}

// Trial reports whether the breaker was half-open and this call is to find out
// whether the endpoint works again.
func (p *Pass) Trial() bool { return p != nil && p.trial }

// Progress says that the call is making headway, for example that output has
// begun or goes on. A trial gets its limit anew; for other calls it does
// nothing, and costs nothing.
func (p *Pass) Progress() {
	if !p.Trial() {
		return
	}
	b := p.breaker
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
	switch {
	case v == Success && b.core.succeed(p):
	case v != Success && v != Failure && b.core.state == Closed: // nothing comes of it
	default:
		now := time.Now()
		b.core.judge(now, p, v)
		b.armLocked(now)
	}
	p.settled = true
}
