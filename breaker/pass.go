package breaker

import "time"

// A Pass lets one call through. The first call of Done settles it; it may be
// used from any goroutine.
type Pass struct {
	breaker *Breaker
	report  func(error) // to the counter, which drops what is of an earlier state
	trial   bool

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
	switch {
	case p.settled:
		return
	case b.core.state == Closed && v != Failure:
		p.report(v.err()) // nothing else comes of this, and time plays no part
	default:
		now := time.Now()
		b.core.judge(now, p, v)
		b.armLocked(now)
	}
	p.settled = true
}

// err is the verdict in the words of the counter.
func (v Verdict) err() error {
	switch v {
	case Success:
		return nil
	case Failure:
		return errFailed
	}
	return errIgnored
}
