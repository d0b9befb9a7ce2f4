package llmclient

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// again decides what follows a failed attempt. It returns nil when it is time for
// the next one, or the error of the call.
func (cl *call) again(e *Error, r ruling) *Error {
	cl.retry.last = e
	switch {
	case e.Kind == ErrCanceled, e.Kind == ErrDeadline, e.Kind == ErrClosed, cl.gone():
		return e
	}
	cl.renew()
	switch {
	case r.stale && !cl.at.renewed:
		// A pooled connection had died while it was idle, and others of its age
		// probably have too.
		cl.at.renewed = true
		cl.at.ep.wire.renew(cl.at.ep.multiplexed.Load())
		return nil
	case r.adapted:
		if err := cl.encode(); err != nil {
			return e
		}
		return nil
	case e.Clock == ClockCall:
		return e
	}
	now := time.Now()
	cl.noteFailure(e, now)
	wait, leaves, goes := cl.nextTry(e, r, now)
	if !goes || !cl.outlives(e, r, now) && !cl.retry.allows(e, leaves && cl.unasked(cl.onward.ep)) {
		return cl.worthRetrying(e)
	}
	if e.Evidence != "" && len(cl.client.eps) == 1 && cl.client.cfg.WhenOpen == Wait {
		if failed := cl.awaitLife(); failed != nil {
			return failed
		}
	}
	need := wait + cl.reserve(e, leaves)
	spare, late, callers := cl.spare(need)
	if late != "" {
		return e.noTime(need, late, callers)
	}
	if leaves {
		cl.head(cl.onward.ep)
	}
	return cl.pause(e, r, wait, spare)
}

// noteFailure notes at the call's route and at its endpoint that an attempt failed.
func (cl *call) noteFailure(e *Error, now time.Time) {
	cl.at.failed++
	if e.Kind == ErrThrottled {
		cl.at.throttled++
	}
	cl.at.last = e
	cl.doubtStreams(e)
	cl.at.ep.refuses(e, now)
}

// reserve returns how much time must be left after the wait for another try to be
// of use. What has just stalled may stall again: without the time in which that
// would show, the try would only add to the server's load.
func (cl *call) reserve(e *Error, leaves bool) time.Duration {
	if leaves || e.Kind != ErrTimeout || e.Clock == ClockConnect || e.Clock == ClockSend {
		return 0
	}
	return cl.client.cfg.Clocks.bound(iFirstOutput, cl.at.load).suspect
}

// pause pays for the next try and waits for it: the backoff, and until the budget
// covers it, for which there is some time to spare. It returns how the call ended
// meanwhile, or nil.
func (cl *call) pause(e *Error, r ruling, wait, spare time.Duration) *Error {
	covered := min(cl.pay(r), wait+spare/2) // half of it, so that there is time for the try itself
	ev := cl.event(EventRetry)
	ev.Wait, ev.Err = max(wait, covered), e
	cl.client.notify(ev)
	if wait > 0 && len(cl.client.eps) > 1 {
		// The backoff is this endpoint's, and another may be fit before it is over.
		// The budget's wait is the same wherever the call goes.
		began := time.Now()
		if failed := cl.rest(wait); failed != nil {
			cl.unpay()
			return failed
		}
		if wait = 0; covered > 0 {
			covered -= time.Since(began)
		}
	}
	if wait = max(wait, covered); wait <= 0 {
		return nil
	}
	return cl.backoff(wait)
}

// outlives reports whether the cause of a failed attempt is temporary, so that the
// attempt does not count: the call goes on for as long as it may. Backoff, retry
// budget and breaker bound the load of this.
func (cl *call) outlives(e *Error, r ruling, now time.Time) bool {
	if cl.retry.cfg.Attempts <= 1 {
		return false
	}
	ep := cl.at.ep
	switch {
	case r.unreached:
		return ep.works() // it worked before: it is being restarted
	case cl.client.cfg.WhenOpen != Wait:
		return false
	case e.Status == http.StatusBadGateway, e.Status == http.StatusServiceUnavailable, e.Status == 529, strings.Contains(strings.ToLower(e.Message), "loading model"):
		return ep.works() // likewise, behind a proxy; or it is full
	case e.Kind == ErrThrottled:
		return ep.serves(now) // it is full, and calls that it serves will end
	}
	return false
}

// nextTry reports whether the call may be sent again, after which wait, and whether
// it leaves for another endpoint, which is then cl.onward. Backoff and Retry-After of
// an endpoint hold for that endpoint only.
func (cl *call) nextTry(e *Error, r ruling, now time.Time) (wait time.Duration, leaves, goes bool) {
	wait = cl.retry.wait(cl.at, r)
	if len(cl.client.eps) == 1 {
		return wait, false, e.retryable
	}
	cl.at.notBefore = now.Add(wait)
	if !e.retryable {
		if !passesOver(e) {
			return 0, false, false
		}
		cl.at.out = true
	}
	next := cl.client.choose(cl, now)
	cl.onward = &next
	switch {
	case cl.onward.is == ruledOut:
		return 0, false, false
	case cl.onward.is <= busy:
		return 0, cl.onward.ep != cl.at.ep, true
	}
	return max(0, cl.onward.until.Sub(now)), false, true
}

// worthRetrying returns the error of a call that ends. If the last error is final
// for one endpoint only, it prefers a temporary error of another endpoint.
func (cl *call) worthRetrying(e *Error) *Error {
	if e.retryable || !passesOver(e) {
		return e
	}
	for _, r := range cl.routes {
		if r.last != nil && r.last.retryable {
			return r.last
		}
	}
	return e
}

// spare returns how much more time than need is left. If there is not even that, it
// returns which bound is too near, and whether that is the caller's deadline.
func (cl *call) spare(need time.Duration) (spare time.Duration, late string, callers bool) {
	spare = noLimit
	if left, bounded := cl.left(); bounded {
		if spare = left - need; spare < 0 {
			return 0, fmt.Sprintf("the call has %v left (clock Call)", round(left)), false
		}
	}
	if at, ok := cl.parent.Deadline(); ok {
		left := time.Until(at)
		if left <= need {
			return 0, fmt.Sprintf("the caller's deadline leaves %v", round(left)), true
		}
		spare = min(spare, left-need-1)
	}
	return spare, "", false
}

// unasked reports whether the call has not failed at an endpoint yet.
func (cl *call) unasked(ep *endpoint) bool {
	r := cl.routeTo(ep)
	return r == nil || r.failed == 0
}

// noTime returns the error of a call that has no time for its next attempt; late and
// callers are from spare.
func (e *Error) noTime(need time.Duration, late string, callers bool) *Error {
	final := e.clone() // e itself has been shown to observers
	final.text += fmt.Sprintf("; there is no time for another try: it would take %v or more, and %s", round(need), late)
	if callers {
		final.causes = append(slices.Clone(e.causes), context.DeadlineExceeded)
	}
	return final
}

// pay takes a retry from the endpoint's budget, and returns how long it is until the
// budget covers it.
func (cl *call) pay(r ruling) time.Duration {
	cl.retry.paid = costOfFailure
	if r.kind == ErrThrottled {
		cl.retry.paid = costOfThrottle
	}
	cl.retry.paidTo = &cl.at.ep.budget
	return cl.retry.paidTo.take(time.Now(), cl.retry.paid)
}

// restarted makes a call that repeats a failed one pay as a retry does, and wait
// until the budget covers it.
func (cl *call) restarted() *Error {
	wait := cl.pay(ruling{})
	if spare, _, _ := cl.spare(0); wait > spare/2 {
		wait = spare / 2 // the attempt itself needs time
	}
	if wait <= 0 {
		return nil
	}
	return cl.backoff(wait)
}

// awaitLife waits, within the call, until the endpoint answers a probe.
func (cl *call) awaitLife() *Error {
	cl.enter(PhaseBackoff)
	ctx, cancel := cl.withinCall()
	defer cancel()
	ctx, stop := cl.orElsewhere(ctx)
	defer stop()
	start := time.Now()
	err := cl.at.ep.evidence.awaitLife(ctx)
	cl.spent += time.Since(start)
	switch {
	case err == nil, !cl.gone() && context.Cause(ctx) == errElsewhere:
		return nil
	case cl.gone():
		return cl.ended()
	}
	return cl.exhausted(err)
}

// backoff waits. It returns nil, or how the caller ended the call meanwhile.
func (cl *call) backoff(wait time.Duration) *Error {
	cl.enter(PhaseBackoff)
	cl.tellWait(wait)
	start := time.Now()
	t := time.NewTimer(wait)
	defer t.Stop()
	defer func() { cl.spent += time.Since(start) }()
	select {
	case <-t.C:
		return nil
	case <-cl.ctx.Done():
		cl.unpay()
		return cl.ended()
	}
}

// tellWait calls the request's OnWait.
func (cl *call) tellWait(d time.Duration) {
	if req := cl.req; req != nil && req.OnWait != nil && d > 0 {
		_, _ = contain(func() (any, error) { req.OnWait(d); return nil, nil })
	}
}

// unpay gives back what was paid for a retry that is not made.
func (cl *call) unpay() { cl.retry.paidTo.give(time.Now(), cl.retry.paid) }
