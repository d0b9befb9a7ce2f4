package llmclient

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// A standing says how fit an endpoint is to take a call, the fittest first.
type standing uint8

const (
	available standing = iota
	busy               // its pacer has others waiting, or would let this one wait
	resting            // the call has failed there, and backs off
	cooling            // it asked for a pause, or readmits those who waited
	shut               // its breaker is open, or it is dead
	benched            // it refused others in a way that no wait mends
	ruledOut           // and this call
)

const (
	// benchFor is how long calls pass an endpoint over that refused one for its
	// key, its account, or a model it does not have.
	benchFor = time.Minute

	// A conversation's cache is worth a short pause, and some company: where it
	// lies a call waits up to cachePatience, and shares with up to crowd more
	// calls than twice the mean of the endpoints. (Hashing with bounded loads has
	// the same idea: Mirrokni, Thorup and Zadimoghaddam, 2018.)
	cachePatience = 2 * time.Second
	crowd         = 4
)

// standing returns how fit the endpoint is, and until when it is no better.
func (ep *endpoint) standing(now time.Time, model string) (standing, time.Time) {
	if until := ep.bench.until(now, model); !until.IsZero() {
		return benched, until
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
	failed int     // attempts of the call that failed there, and not for being too many
	load   float64 // calls there, by its weight
	cached bool    // the beginning of the conversation lies in its cache
	dice   float64 // makes the choice among equals, by their weights
}

// choose returns the endpoint that should take the call's next attempt: one
// that can take it, that has failed the call least, that comes first in order,
// that is not full or overrun, and that has the conversation in its cache. If
// none can take it now, it is the one that may be able to first.
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
		k.dice = rand.ExpFloat64() / ep.weight
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
		c.glance(best.ep, now) // or nobody would notice that another lives again
	}
	if best.is == benched && !slices.ContainsFunc(list, func(k candidate) bool { return k.is != benched && k.is != ruledOut }) {
		best.until = time.Time{} // waiting would help nobody: it is asked, and the caller hears why not
	}
	if best.is == benched && best.until.After(now) {
		best.is = resting // it is waited for like a backoff
	}
	return best
}

// rank makes all that can take a call equal, and all that may be able to later.
func rank(s standing) int {
	switch {
	case s <= busy:
		return 0
	case s < ruledOut:
		return 1
	}
	return 2
}

// glance looks whether endpoints live again that calls pass over, and reports
// whether there are any. The endpoint at except, if not nil, is heard of by the
// call that goes there.
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

// first puts what is true first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// bench is what an endpoint refuses, and until when it is not asked for it
// again. The empty model stands for all.
type bench struct {
	mu     sync.Mutex
	models map[string]time.Time
}

// maxBenched bounds the models that are remembered: callers name them.
const maxBenched = 1000

func (b *bench) put(model string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.models == nil {
		b.models = make(map[string]time.Time)
	}
	if len(b.models) >= maxBenched {
		for name := range b.models {
			delete(b.models, name) // whichever comes: they are put again if need be
			break
		}
	}
	b.models[model] = until
}

func (b *bench) until(now time.Time, model string) (until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range [...]string{"", model} {
		switch at, there := b.models[name]; {
		case !there:
		case !at.After(now):
			delete(b.models, name)
		case at.After(until):
			until = at
		}
	}
	return until
}

// refuses notes what an endpoint refused for good.
func (ep *endpoint) refuses(e *Error, now time.Time) {
	switch {
	case e.retryable:
	case e.Kind == ErrQuota, e.Kind == ErrAuth:
		ep.bench.put("", now.Add(benchFor))
	case e.Kind == ErrNotFound:
		ep.bench.put(e.Model, now.Add(benchFor))
	}
}

// news wakes calls that wait at one endpoint when another may have become fit.
type news struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next piece of news.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// errElsewhere ends a wait at one endpoint because another can take the call.
var errElsewhere = errors.New("another endpoint can take the call")

// orElsewhere returns a context for a wait at the present endpoint. It ends
// with errElsewhere as its cause when the call would fare better at another. stop
// must be called when the wait is over.
func (cl *call) orElsewhere(ctx context.Context) (_ context.Context, stop func()) {
	return cl.until(ctx, cl.better)
}

// until returns a context that ends with errElsewhere as its cause when
// something is so: it is looked at when there is news, and when the time of an
// endpoint has come.
func (cl *call) until(ctx context.Context, so func(now time.Time) bool) (_ context.Context, stop func()) {
	if len(cl.client.eps) == 1 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			news := cl.client.news.next()
			now := time.Now()
			if so(now) {
				cancel(errElsewhere)
				return
			}
			t := time.NewTimer(cl.nextChange(now))
			select {
			case <-news:
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended // it reads what the call is about to change
	}
}

// better reports whether the present endpoint cannot take the call and another
// could, or whether the call should leave a queue for one that is free.
func (cl *call) better(now time.Time) bool {
	is, _ := cl.standing(cl.at.ep, now)
	if is == available {
		return false
	}
	k := cl.client.choose(cl, now)
	if k.ep == cl.at.ep {
		return false
	}
	if is > busy {
		return k.is <= busy
	}
	// One or two of those in the queue go, not all: they all see the same.
	queued := cl.at.ep.pacer.Stats().Queued
	return k.is == available && queued > 0 && rand.IntN(queued/2+1) == 0
}

// nextChange returns when another endpoint may become fit by time alone, and
// looks at those that do not tell.
func (cl *call) nextChange(now time.Time) time.Duration {
	next := time.Hour
	for _, ep := range cl.client.eps {
		if _, until := cl.standing(ep, now); ep != cl.at.ep && until.After(now) {
			next = min(next, until.Sub(now))
		}
	}
	if is, _ := cl.standing(cl.at.ep, now); is == busy {
		next = min(next, lookAround)
	}
	if cl.client.glance(nil, now) {
		next = min(next, probeEvery)
	}
	return next
}

// lookAround is how often a call in a queue looks whether another endpoint is
// free.
const lookAround = 5 * time.Second

// moved stands for a wait that ended because there is a better endpoint.
var moved = new(Error)
