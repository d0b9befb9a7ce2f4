package engine

import (
	"math"
	"time"
)

// A bucket holds what may be used now of a rate, and fills up evenly. The
// zero value limits nothing.
type bucket struct {
	limit  int // in a period
	period time.Duration
	most   float64 // it can hold, at least one
	level  float64
	at     time.Duration
}

// newBucket returns a bucket that is full: of as much as comes in during a
// part of the period.
func newBucket(limit int, period time.Duration, part float64) bucket {
	most := max(float64(limit)*part, 1)
	return bucket{limit: limit, period: period, most: most, level: most}
}

func (b *bucket) fill(now time.Duration) {
	if b.limit > 0 {
		b.level = min(b.level+b.per(now-b.at), b.most)
		b.at = now
	}
}

// per returns what comes in during a time.
func (b *bucket) per(d time.Duration) float64 {
	return float64(b.limit) * (float64(d) / float64(b.period))
}

// wait returns how long it takes until n can be taken, 0 if they can now.
// More than it can ever hold can be taken once it is full.
func (b *bucket) wait(n float64) time.Duration {
	if b.limit <= 0 {
		return 0
	}
	lack := min(n, b.most) - b.level
	if lack <= 1e-9 {
		return 0
	}
	return time.Duration(math.Ceil(lack / float64(b.limit) * float64(b.period)))
}

// reset returns how long it takes until it is full.
func (b *bucket) reset() time.Duration { return b.wait(math.Inf(1)) }

// Rates is the state of the rate limits as a reply's headers tell it. A limit
// of zero is not told of.
type Rates struct {
	LimitRequests, LimitTokens         int
	RemainingRequests, RemainingTokens int
	ResetRequests, ResetTokens         time.Duration // until all is there again

	// RetryAfter is how long to wait before this request would be let in,
	// zero if it is.
	RetryAfter time.Duration
	// Of is what has run out: requests or tokens.
	Of string
}

// charge takes a call's demand from the limits, or says how long it has to
// wait for them. It returns nil if there are no limits.
func (c *Core) charge(call *Call) *Rates {
	if c.requests.limit <= 0 && c.tokens.limit <= 0 {
		return nil
	}
	c.requests.fill(c.now)
	c.tokens.fill(c.now)
	demand := call.prompt + call.MaxTokens
	r := &Rates{LimitRequests: c.requests.limit, LimitTokens: c.tokens.limit}
	byRequests, byTokens := c.requests.wait(1), c.tokens.wait(float64(demand))
	r.RetryAfter, r.Of = byRequests, "requests"
	if byTokens > byRequests {
		r.RetryAfter, r.Of = byTokens, "tokens"
	}
	if r.RetryAfter == 0 {
		r.Of = ""
		call.charged = demand
		c.requests.level--
		c.tokens.level -= float64(demand)
	}
	r.RemainingRequests, r.RemainingTokens = int(max(c.requests.level, 0)), int(max(c.tokens.level, 0))
	r.ResetRequests, r.ResetTokens = c.requests.reset(), c.tokens.reset()
	return r
}

// refund gives back the tokens that an answer did not use, if the provider
// does.
func (c *Core) refund(call *Call) {
	if !c.cfg.Limits.Refund || call.charged == 0 {
		return
	}
	c.tokens.fill(c.now)
	c.tokens.level = min(c.tokens.level+float64(max(call.charged-call.prompt-call.made, 0)), c.tokens.most)
}
