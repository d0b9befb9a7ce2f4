package llmclient

import (
	"sync"
	"time"
)

// What retries may add to the load of an endpoint. Size and costs are those of
// the AWS SDKs' retry mode (version 2.1), where a throttle is told apart from a
// failure because the endpoint still answers; gain and refill are those of
// Finagle's retry budget: a fifth of the requests, and ten a second besides.
// What those refuse, this budget delays, because a caller should not fail for
// what others met. It is made for endpoints that fail in part; where all fails
// the breaker is quicker.
const (
	budgetSize     = 500
	costOfFailure  = 14
	costOfThrottle = 5
	costOfProbe    = 1 // a question without tokens
	gainOfSuccess  = costOfFailure / 5.0
	budgetRefill   = 10 * costOfFailure // each second
)

// A budget is what is left to an endpoint's callers for retries. It is safe
// for concurrent use.
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

// borrow pays for a probe, which cannot wait. It is refused while as much as the
// whole budget is owed.
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
