package llmclient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A retrier is a call's retries: how many there were, and how long to wait
// for the next.
type retrier struct {
	cfg     *Retry
	used    int     // attempts that counted
	stalled int     // of them, those that took long and brought nothing
	paid    float64 // for the present attempt
	paidTo  *budget // the endpoint's
	last    *Error  // what the last attempt met
}

func newRetrier(cfg *Retry) retrier { return retrier{cfg: cfg} }

// allows counts a failed attempt and reports whether one more may follow. The
// first at another endpoint is part of the same try.
func (r *retrier) allows(e *Error, elsewhere bool) bool {
	if !elsewhere || r.cfg.Attempts <= 1 {
		r.used++
	}
	switch {
	case e.Evidence != "":
	case e.Kind == ErrRunaway, e.Clock == ClockFirstOutput, e.Clock == ClockAttempt, e.Clock == ClockSilence && e.Partial == nil, e.outlasted:
		r.stalled++
	}
	// A third wait of ten minutes would help nobody, except at an endpoint that has
	// not made the call wait yet.
	return r.used < r.cfg.Attempts && (r.stalled < 2 || elsewhere)
}

// backoffs returns what spaces the attempts at one endpoint.
func (r *retrier) backoffs() *backoff.ExponentialBackOff {
	back := &backoff.ExponentialBackOff{
		InitialInterval:     r.cfg.Backoff,
		MaxInterval:         r.cfg.MaxBackoff,
		Multiplier:          2,
		RandomizationFactor: max(0, r.cfg.Jitter),
		MaxElapsedTime:      0, // not its default of 15 minutes: the Call clock bounds the call
		Stop:                backoff.Stop,
		Clock:               backoff.SystemClock,
	}
	back.Reset()
	return back
}

// wait returns how long to wait before the next attempt there: the backoff, or
// what the endpoint asked for if that is longer, and then never less.
func (r *retrier) wait(at *route, after ruling) time.Duration {
	if at.back == nil {
		at.back = r.backoffs()
	}
	wait := at.back.NextBackOff()
	if after.hasAfter && after.after > 0 {
		// Everybody who was told the same time would come back at the same
		// time. Earlier than asked is never right, so the spread is upwards.
		spread := time.Duration(max(0, r.cfg.Jitter) * float64(min(after.after, time.Minute)))
		if spread > 0 {
			spread = rand.N(spread)
		}
		wait = max(wait, after.after+spread)
	}
	return wait
}

// again decides what follows a failed attempt. It returns nil when it is time
// to try again, and the error of the call when it is not.
func (cl *call) again(e *Error, r ruling) *Error {
	switch cl.retry.last = e; {
	case e.Kind == ErrCanceled, e.Kind == ErrDeadline, e.Kind == ErrClosed, cl.gone():
		return e
	}
	cl.renew()
	switch {
	case r.stale && !cl.at.renewed:
		// A pooled connection had died while nobody used it. Others of its age
		// will have too.
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
	cl.at.failed++
	if e.Kind == ErrThrottled {
		cl.at.throttled++
	}
	cl.at.last = e
	cl.doubtStreams(e)
	cl.at.ep.refuses(e, now)
	wait, leaves, goes := cl.nextTry(e, r, now)
	if !goes {
		return cl.worthRetrying(e)
	}
	if !cl.outlives(e, r, now) && !cl.retry.allows(e, leaves && cl.unasked(cl.onward.ep)) {
		return cl.worthRetrying(e)
	}
	if e.Evidence != "" && len(cl.client.eps) == 1 && cl.client.cfg.WhenOpen == Wait {
		if failed := cl.awaitLife(); failed != nil {
			return failed
		}
	}
	var reserve time.Duration
	if e.Kind == ErrTimeout && e.Clock != ClockConnect && e.Clock != ClockSend && !leaves {
		// What has just stalled may stall again: without the time in which
		// that would show, another try only adds to the server's load.
		reserve = cl.client.cfg.Clocks.bound(iFirstOutput, cl.at.load).suspect
	}
	spare, late, callers := cl.spare(wait + reserve)
	if late != "" {
		return e.noTime(wait+reserve, late, callers)
	}
	if leaves {
		cl.head(cl.onward.ep)
	}
	covered := min(cl.pay(r), wait+spare/2) // half of it, so that there is time for the try itself
	ev := cl.event(EventRetry)
	ev.Wait, ev.Err = max(wait, covered), e
	cl.client.notify(ev)
	if wait > 0 && len(cl.client.eps) > 1 {
		// The backoff is this endpoint's, and another may be fit before it is over.
		// What the budget does not cover is waited for wherever the call goes.
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

// outlives reports whether what a failed attempt met will pass, and does not
// count: the call goes on as long as it may. Backoff, budget and breaker see to it
// that nobody is harmed by that.
func (cl *call) outlives(e *Error, r ruling, now time.Time) bool {
	if cl.retry.cfg.Attempts <= 1 {
		return false
	}
	ep := cl.at.ep
	switch {
	case r.unreached:
		return ep.works() // there is nobody: it is being restarted
	case cl.client.cfg.WhenOpen != Wait:
		return false
	case e.Status == http.StatusBadGateway, e.Status == http.StatusServiceUnavailable, e.Status == 529, strings.Contains(strings.ToLower(e.Message), "loading model"):
		return ep.works() // likewise, behind something that answers; or it is full
	case e.Kind == ErrThrottled:
		return ep.serves(now) // it is full: others have the places, and will leave them
	}
	return false
}

// nextTry reports whether the call may be sent again, how long it is until then,
// and whether that is to another endpoint at once, which is then cl.onward. One
// endpoint's backoff, and what it asked for, holds for that endpoint only.
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

// worthRetrying returns the error of a call that ends: of what its endpoints met,
// rather what passes than what one of them refuses for good.
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

// spare returns how much more time than need there is, or what does not leave
// even that, and whether it is the caller's deadline.
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

// noTime returns the error of a call for whose next try, which would take so long,
// there is no time, see spare.
func (e *Error) noTime(need time.Duration, late string, callers bool) *Error {
	final := e.clone() // e itself has been shown to observers
	final.text += fmt.Sprintf("; there is no time for another try: it would take %v or more, and %s", round(need), late)
	if callers {
		final.causes = append(slices.Clone(e.causes), context.DeadlineExceeded)
	}
	return final
}

// pay draws on the endpoint's budget for a retry, and returns how long it is
// until the budget covers it.
func (cl *call) pay(r ruling) time.Duration {
	cl.retry.paid = costOfFailure
	if r.kind == ErrThrottled {
		cl.retry.paid = costOfThrottle
	}
	cl.retry.paidTo = &cl.at.ep.budget
	return cl.retry.paidTo.take(time.Now(), cl.retry.paid)
}

// restarted makes a call that repeats a failed one pay as a retry does, and wait
// until it is covered.
func (cl *call) restarted() *Error {
	wait := cl.pay(ruling{})
	if spare, _, _ := cl.spare(0); wait > spare/2 {
		wait = spare / 2 // there must be time for the try itself
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

// tellWait tells who watches the caller of a wait.
func (cl *call) tellWait(d time.Duration) {
	if req := cl.req; req != nil && req.OnWait != nil && d > 0 {
		_, _ = contain(func() (any, error) { req.OnWait(d); return nil, nil })
	}
}

// unpay gives back what was paid for a retry that will not be.
func (cl *call) unpay() { cl.retry.paidTo.give(time.Now(), cl.retry.paid) }
