package health

import (
	"slices"
	"time"
)

// A budget is how many questions may be asked in a minute. All may be asked at
// once.
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

// affords reports whether a question may be asked now. It counts against the
// budget of our own, and against those that the clients have for their retries.
func (m *Monitor) affords() bool {
	m.mu.Lock()
	ok := m.budget.take(time.Now())
	clients := slices.Clone(m.clients)
	m.mu.Unlock()
	if ok && m.cfg.Allow != nil {
		_ = contained(func() { ok = m.cfg.Allow() })
	}
	for _, c := range clients {
		for _, one := range clientsOf(c) {
			payer, pays := one.(lender)
			if !pays {
				continue
			}
			for _, ep := range one.Endpoints() {
				if m.concerns(ep.Name) {
					ok = ok && payer.AllowProbe(ep.Name)
				}
			}
		}
	}
	return ok
}

// concerns reports whether an endpoint of a client is the service.
func (m *Monitor) concerns(endpoint string) bool {
	return m.cfg.Endpoint == "" || m.cfg.Endpoint == endpoint
}
