package llmclient

import (
	"net/url"
	"time"
)

// A route is one endpoint as a call sees it: what the call sends there, and how
// that has gone. Only the goroutine of the call uses it, unless said otherwise.
type route struct {
	ep     *endpoint
	model  string
	speaks dialect // in which body is encoded
	body   payload
	load   load
	size   int // bytes of body; others than the call look at it under call.mu

	doubted bool     // it is asked plainly because streams have brought nothing
	failed  int      // attempts that failed there
	renewed bool     // a dead pooled connection has been forgiven
	moved   *url.URL // where the endpoint sent the call, at the same host
	hops    int

	cut bool // evidence has cut an attempt there; guarded by call.mu
}

// head makes ep the endpoint of the call's next attempt.
func (cl *call) head(ep *endpoint) {
	r := cl.routeTo(ep)
	if r == nil {
		if r = &cl.home; r.ep != nil {
			r = new(route)
		}
		r.ep = ep
		r.speaks, r.doubted = ep.speaks()
		if cl.req != nil {
			r.model = cl.req.Model
		}
		if r.model == "" {
			r.model = ep.model
		}
	}
	if cl.at != nil {
		cl.at.ep.calls.Add(-1)
	}
	ep.calls.Add(1)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.routeTo(ep) == nil {
		cl.routes = append(cl.routes, r)
	}
	cl.at = r
}

// routeTo returns the call's route to an endpoint, or nil if it has none yet.
func (cl *call) routeTo(ep *endpoint) *route {
	for _, r := range cl.routes {
		if r.ep == ep {
			return r
		}
	}
	return nil
}

// settleOn heads for the endpoint that is best now, if the present one cannot
// take the call, or has failed it. It fails if the request cannot be sent there.
func (cl *call) settleOn(now time.Time) *Error {
	if len(cl.client.eps) == 1 {
		return nil
	}
	if s, _ := cl.at.ep.standing(now, cl.at.model); s != available || cl.at.failed > 0 {
		cl.head(cl.client.choose(cl, now))
	}
	if cl.at.body.size > 0 {
		return nil
	}
	if err := cl.encode(); err != nil {
		return cl.client.refuse(err, cl.at)
	}
	return nil
}

// elsewhere heads for another endpoint after a failure, if one could take the
// call at once and has not failed it as often. What is wrong with the request is
// wrong everywhere.
func (cl *call) elsewhere(e *Error, now time.Time) bool {
	if len(cl.client.eps) == 1 || !passesOver(e) {
		return false
	}
	next := cl.client.choose(cl, now)
	if next == cl.at.ep {
		return false
	}
	if r := cl.routeTo(next); r != nil && r.failed >= cl.at.failed {
		return false
	}
	if s, _ := next.standing(now, cl.modelAt(next)); s != available {
		return false
	}
	cl.head(next)
	return true
}

// modelAt returns the model that the call asks an endpoint for.
func (cl *call) modelAt(ep *endpoint) string {
	if cl.req != nil && cl.req.Model != "" {
		return cl.req.Model
	}
	return ep.model
}

// passesOver reports whether another endpoint may do better.
func passesOver(e *Error) bool {
	switch e.Kind {
	case ErrAuth, ErrQuota, ErrNotFound, ErrNetwork:
		return true // what one endpoint refuses for good another may give
	}
	return e.retryable
}
