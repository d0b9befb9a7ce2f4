package llmclient

import (
	"sync"
	"time"
)

// The retry budget bounds the load that retries add to an endpoint. Size and costs
// are those of the AWS SDKs' retry mode (version 2.1), where a throttle costs less
// than a failure because the endpoint still answers. Gain and refill are those of
// Finagle's retry budget: a fifth of the requests, and ten a second besides. Those
// refuse a retry that the budget does not cover. This one delays it, because a
// caller should not fail for the failures of others. It is made for endpoints that
// fail in part; if all calls fail, the breaker opens sooner.
const (
	budgetSize     = 500
	costOfFailure  = 14
	costOfThrottle = 5
	costOfProbe    = 1 // a question without tokens
	gainOfSuccess  = costOfFailure / 5.0
	budgetRefill   = 10 * costOfFailure // each second
)

// A budget is the retry budget of an endpoint. It is safe for concurrent use.
type budget struct {
	mu      sync.Mutex
	balance float64 // negative: promised to retries that still wait
	at      time.Time
}

// take pays for a retry and returns how long it must wait until it is covered.
func (b *budget) take(now time.Time, cost float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(now)
	b.balance -= cost
	if b.balance >= 0 {
		return 0
	}
	return time.Duration(-b.balance / budgetRefill * float64(time.Second))
}

// borrow pays for a probe, which cannot wait. It reports false if that would overdraw
// the budget by more than its size.
func (b *budget) borrow(now time.Time, cost float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(now)
	if b.balance-cost < -budgetSize {
		return false
	}
	b.balance -= cost
	return true
}

// give pays in.
func (b *budget) give(now time.Time, gain float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(now)
	b.balance = min(budgetSize, b.balance+gain)
}

func (b *budget) settleLocked(now time.Time) {
	if b.at.IsZero() {
		b.balance = budgetSize
	} else if d := now.Sub(b.at); d > 0 {
		b.balance = min(budgetSize, b.balance+d.Seconds()*budgetRefill)
	}
	b.at = now
}
