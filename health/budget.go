package health

import (
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// A budget is a token bucket for questions: perMinute of them come in a minute, and
// as many may be asked at once.
type budget struct {
	perMinute int
	left      float64
	at        time.Time
}

func (b *budget) take(now time.Time) bool {
	if b.perMinute < 0 {
		return true
	}
	full := float64(b.perMinute)
	if b.at.IsZero() {
		b.left = full
	} else {
		b.left = min(full, b.left+now.Sub(b.at).Minutes()*full)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// affords reports whether a question may be asked now, and takes it from our budget
// and from the clients' retry budgets.
func (m *Monitor) affords() bool {
	m.mu.Lock()
	ok := m.budget.take(time.Now())
	m.mu.Unlock()
	if ok && m.cfg.Allow != nil {
		m.contain("Allow", func() { ok = m.cfg.Allow() })
	}
	m.eachEndpoint(func(c endpoints, ep llmclient.EndpointStatus) {
		if payer, pays := c.(lender); pays {
			ok = ok && payer.AllowProbe(ep.Name)
		}
	})
	return ok
}
