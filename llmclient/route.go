package llmclient

import (
	"context"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/neverhang/neverhang/chat"
)

// A route is one endpoint as a call sees it: what the call sends there, and the
// results so far. Only the goroutine of the call uses it, unless said otherwise.
type route struct {
	ep     *endpoint
	model  string
	speaks dialect // in which body is encoded
	body   payload
	load   load
	size   int // bytes of body; other goroutines read it under call.mu

	redact    func(string) string // takes secrets out of a text: those of an SDK's own request
	doubt     doubt               // about streams
	form      chat.Form           // of its messages; Tools does not count
	adapts    int                 // how often that has changed
	failed    int                 // attempts that failed there
	throttled int                 // of them, those that were throttled
	last      *Error              // what the last of them met
	out       bool                // it refused for good: the call does not ask it again
	back      *backoff.ExponentialBackOff
	notBefore time.Time // when the call may ask there again: the backoff, and what the endpoint asked for
	full      time.Time // until when the call stays away from its pacer, which was full
	renewed   bool      // one dead pooled connection has not been counted
	moved     *url.URL  // where the endpoint redirected the call, at the same host
	hops      int

	cut bool // evidence has cut an attempt there; guarded by call.mu
}

// head makes ep the endpoint of the call's next attempt.
func (cl *call) head(ep *endpoint) {
	r := cl.routeTo(ep)
	if r == nil {
		if r = &cl.home; r.ep != nil {
			r = new(route)
		}
		r.ep, r.redact = ep, ep.secrets.redact
		r.speaks, r.doubt = ep.speaks(time.Now())
		r.model = cl.modelAt(ep)
		r.form = ep.formOf(r.model)
		if cl.at != nil {
			r.load = cl.at.load // until it is encoded: the size will be about the same
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

// settleOn heads for the endpoint that is best now, if the present one cannot take
// the call or has failed it. If the best one is still in a backoff or exclusion,
// settleOn waits for its end; pacer and breaker have waits of their own. It fails if
// the request cannot be sent there.
func (cl *call) settleOn() *Error {
	if len(cl.client.eps) == 1 {
		return nil
	}
	for {
		now := time.Now()
		if s, _ := cl.standing(cl.at.ep, now); s > busy || cl.at.failed > 0 || cl.anew {
			cl.anew = false
			k := cl.client.choose(cl, now)
			cl.head(k.ep)
			if k.is == resting && k.until.After(now) {
				if failed := cl.await(k.until.Sub(now)); failed != nil {
					return failed
				}
				continue
			}
		}
		break
	}
	if cl.at.body.size > 0 {
		return nil
	}
	if err := cl.encode(); err != nil {
		e := cl.client.refuse(err, cl.at)
		if cl.retry.last != nil {
			e.causes = append(e.causes, cl.retry.last)
		}
		return e
	}
	return nil
}

// await rests until an endpoint that refused this call or others may be asked again.
// If the wait does not fit into the time that is left, the call fails with its last
// error. If it has none yet, it goes on with the endpoints that are not excluded.
func (cl *call) await(wait time.Duration) *Error {
	_, late, callers := cl.spare(wait)
	last := cl.retry.last
	switch {
	case late == "" && (last != nil || cl.client.cfg.WhenOpen == Wait):
		return cl.rest(wait)
	case last != nil:
		return last.noTime(wait, late, callers)
	}
	cl.hasty = true
	return nil
}

// rest waits until an endpoint may be asked again, or another can take the call.
func (cl *call) rest(wait time.Duration) *Error {
	cl.enter(PhaseBackoff)
	cl.tellWait(wait)
	ctx, cancel := cl.withinCall()
	defer cancel()
	ctx, stop := cl.until(ctx, func(now time.Time) bool { return cl.client.choose(cl, now).is <= busy })
	defer stop()
	start := time.Now()
	t := time.NewTimer(wait)
	defer t.Stop()
	defer func() { cl.spent += time.Since(start) }()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	}
	switch {
	case cl.gone():
		return cl.ended()
	case context.Cause(ctx) == errElsewhere:
		return nil
	}
	return cl.exhausted(nil)
}

// standing returns how fit an endpoint is to take this call, and until when it
// is no better.
func (cl *call) standing(ep *endpoint, now time.Time) (standing, time.Time) {
	is, until := ep.standing(now, cl.modelAt(ep))
	if is == excluded && cl.hasty {
		return ruledOut, time.Time{}
	}
	r := cl.routeTo(ep)
	switch {
	case r == nil:
	case r.out:
		return ruledOut, time.Time{}
	case is <= cooling && r.full.After(now):
		return resting, r.full
	case is <= busy && r.notBefore.After(now):
		return resting, r.notBefore
	}
	if is == cooling && ep == cl.cached && until.Sub(now) <= cachePatience {
		is = available
	}
	return is, until
}

// passesOver reports whether another endpoint may do better. An error in the request
// is an error everywhere.
func passesOver(e *Error) bool {
	switch e.Kind {
	case ErrAuth, ErrQuota, ErrNotFound, ErrNetwork:
		return true // one endpoint refuses for good, another may not
	}
	return e.retryable
}

// modelAt returns the model that the call asks an endpoint for.
func (cl *call) modelAt(ep *endpoint) string {
	if cl.req != nil && cl.req.Model != "" {
		return cl.req.Model
	}
	return ep.model
}
