package llmclient

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// A standing says how fit an endpoint is to take a call, the fittest first.
type standing uint8

const (
	available standing = iota
	busy               // its pacer has others waiting, or would let this one wait
	resting            // the call has failed there, and backs off
	cooling            // it asked for a pause, or readmits the calls that waited
	shut               // its breaker is open, or it is dead
	excluded           // it refused other calls for good
	ruledOut           // it refused this call for good
)

const (
	// A call prefers the endpoint that has its conversation in the cache. It waits
	// up to cachePatience for it, and goes there as long as that has at most crowd
	// calls more than twice the mean of the endpoints. (Hashing with bounded loads has
	// the same idea: Mirrokni, Thorup and Zadimoghaddam, 2018.)
	cachePatience = 2 * time.Second
	crowd         = 4
)

// standing returns how fit the endpoint is, and until when it is no better.
func (ep *endpoint) standing(now time.Time, model string) (standing, time.Time) {
	if until := ep.excluded.until(now, model); !until.IsZero() {
		return excluded, until
	}
	if until := ep.evidence.deadUntil(now); !until.IsZero() {
		return shut, until
	}
	switch b := ep.breaker.Stats(); {
	case b.State == breaker.Open:
		return shut, b.Retry
	case b.State == breaker.HalfOpen && (b.Trials > 0 || b.Waiting > 0):
		return shut, b.Overdue
	case b.Waiting > 0:
		return cooling, now
	}
	switch p := ep.pacer.Stats(); {
	case p.CoolDownUntil.After(now):
		return cooling, p.CoolDownUntil
	case p.Queued > 0, p.Limit > 0 && p.InFlight >= p.Limit:
		return busy, time.Time{}
	}
	return available, time.Time{}
}

// A candidate is an endpoint that may be chosen.
type candidate struct {
	ep     *endpoint
	is     standing
	until  time.Time
	failed int     // attempts of the call that failed there, throttles not counted
	load   float64 // calls there, by its weight
	cached bool    // the beginning of the conversation lies in its cache
	dice   float64 // chooses among equals, by their weights; the least wins
}

// choose returns the endpoint for the call's next attempt. Among those that can
// take it, it compares, in this order: failed attempts of this call, Order, whether
// the endpoint is busy, whether it is overrun, and whether it has the conversation
// in its cache. If none can take the call, it returns the one that may be able to
// soonest.
func (c *Client) choose(cl *call, now time.Time) candidate {
	if len(c.eps) == 1 {
		return candidate{ep: c.eps[0]}
	}
	list := make([]candidate, len(c.eps))
	var calls, weights float64
	for i, ep := range c.eps {
		k := candidate{ep: ep, cached: ep == cl.cached}
		k.is, k.until = cl.standing(ep, now)
		if r := cl.routeTo(ep); r != nil {
			k.failed = r.failed - r.throttled
		}
		n := float64(ep.calls.Load())
		k.load = n / ep.weight
		k.dice = -math.Log(1-c.random()) / ep.weight // exponential, so that weights are kept to
		if k.is <= busy {
			calls, weights = calls+n, weights+ep.weight
		}
		list[i] = k
	}
	overrun := func(k *candidate) bool {
		return weights > 0 && k.load > 2*calls/weights+crowd/k.ep.weight
	}
	best := slices.MinFunc(list, func(a, b candidate) int {
		if d := cmp.Compare(rank(a.is), rank(b.is)); d != 0 {
			return d
		}
		if a.is > busy {
			return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.dice, b.dice))
		}
		return cmp.Or(
			cmp.Compare(a.failed, b.failed),
			cmp.Compare(a.ep.order, b.ep.order),
			cmp.Compare(a.is, b.is),
			first(!overrun(&a), !overrun(&b)),
			first(a.cached, b.cached),
			cmp.Compare(a.dice, b.dice),
		)
	})
	if best.is <= busy {
		c.glance(best.ep, now) // otherwise no call would notice that another is alive again
	}
	if best.is == excluded && !slices.ContainsFunc(list, func(k candidate) bool { return k.is != excluded && k.is != ruledOut }) {
		best.until = time.Time{} // all refuse: one is asked, so that the caller hears why
	}
	if best.is == excluded && best.until.After(now) {
		best.is = resting // it is waited for like a backoff
	}
	return best
}

// rank is 0 for endpoints that can take a call, 1 for those that may later, and 2
// for those that never will.
func rank(s standing) int {
	switch {
	case s <= busy:
		return 0
	case s < ruledOut:
		return 1
	}
	return 2
}

// glance probes endpoints that are shut and that calls pass over, to see whether
// they are alive again. It reports whether there are any. It leaves out except,
// where a call is about to go.
func (c *Client) glance(except *endpoint, now time.Time) (any bool) {
	for _, ep := range c.eps {
		if ep == except {
			continue
		}
		if is, _ := ep.standing(now, ""); is == shut {
			ep.evidence.glance()
			any = true
		}
	}
	return any
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
