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
	cooling            // it asked for a pause, or readmits those who waited
	shut               // its breaker is open, or it is dead
	benched            // it refused in a way that no wait mends
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
	if p := ep.pacer.Stats(); p.CoolDownUntil.After(now) {
		return cooling, p.CoolDownUntil
	}
	return available, time.Time{}
}

// A candidate is an endpoint that may be chosen.
type candidate struct {
	ep     *endpoint
	is     standing
	until  time.Time
	failed int     // attempts of the call
	load   float64 // calls there, by its weight
	cached bool    // the beginning of the conversation lies in its cache
	dice   float64 // makes the choice among equals, by their weights
}

// choose returns the endpoint that should take the call's next attempt: one
// that can take it at once, that has failed the call least, that comes first in
// order, that has the conversation in its cache, and is not overrun. If none can
// take it, it is the one that may be able to first.
func (c *Client) choose(cl *call, now time.Time) *endpoint {
	if len(c.eps) == 1 {
		return c.eps[0]
	}
	list := make([]candidate, len(c.eps))
	var calls, weights float64
	for i, ep := range c.eps {
		k := candidate{ep: ep, cached: ep == cl.cached}
		k.is, k.until = ep.standing(now, cl.modelAt(ep))
		if k.cached && k.is == cooling && k.until.Sub(now) <= cachePatience {
			k.is = available
		}
		if r := cl.routeTo(ep); r != nil {
			k.failed = r.failed
		}
		n := float64(ep.calls.Load())
		k.load = n / ep.weight
		k.dice = rand.ExpFloat64() / ep.weight
		if k.is == available {
			calls, weights = calls+n, weights+ep.weight
		}
		list[i] = k
	}
	overrun := func(k *candidate) bool {
		return weights > 0 && k.load > 2*calls/weights+crowd/k.ep.weight
	}
	best := slices.MinFunc(list, func(a, b candidate) int {
		if a.is != b.is {
			return cmp.Compare(a.is, b.is)
		}
		if a.is != available {
			return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.dice, b.dice))
		}
		return cmp.Or(
			cmp.Compare(a.failed, b.failed),
			cmp.Compare(a.ep.order, b.ep.order),
			first(!overrun(&a), !overrun(&b)),
			first(a.cached, b.cached),
			cmp.Compare(a.dice, b.dice),
		)
	})
	for i := range list {
		if k := &list[i]; k.ep != best.ep && k.is == shut && best.is == available {
			k.ep.evidence.glance() // or nobody would notice that it lives again
		}
	}
	return best.ep
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
	if len(b.models) < maxBenched {
		b.models[model] = until
	}
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

// refused is told what an endpoint refused.
func (ep *endpoint) refused(e *Error, now time.Time) {
	switch {
	case e.Kind == ErrQuota, e.Kind == ErrAuth && e.Status == 401:
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
// with errElsewhere as its cause when that endpoint cannot take the call and
// another could. stop must be called when the wait is over.
func (cl *call) orElsewhere(ctx context.Context) (_ context.Context, stop func()) {
	if len(cl.client.eps) == 1 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			next := cl.client.news.next()
			if cl.better(time.Now()) {
				cancel(errElsewhere)
				return
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended // it reads what the call is about to change
	}
}

// better reports whether the present endpoint cannot take the call and another
// could.
func (cl *call) better(now time.Time) bool {
	if s, _ := cl.at.ep.standing(now, cl.at.model); s == available {
		return false
	}
	ep := cl.client.choose(cl, now)
	s, _ := ep.standing(now, cl.modelAt(ep))
	return ep != cl.at.ep && s == available
}

// moved stands for a wait that ended because there is a better endpoint.
var moved = new(Error)
