package llmclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
)

// fail rules on a failed attempt and settles it.
func (a *attempt) fail(err error) (*Error, ruling) {
	m, out := a.watch.stop()
	now := time.Now()
	if e := a.leftByCaller(err, m, out, now); e != nil {
		return e, ruling{kind: e.Kind}
	}
	cl := a.call
	e := &Error{Phase: m.phase, Endpoint: cl.at.ep.name, Model: cl.at.model, Status: a.out.status, Partial: a.partial(m)}
	var r ruling
	if a.cutBy(out, err) {
		r = a.ruleOnClock(e, m, out, now)
	} else {
		r = a.ruleOnFailure(e, err, now)
	}
	if cl.passed != nil {
		cl.last = a.keep()
		if r.retry && cl.passed.creates && !a.unseen(e, r) {
			r.retry = false
		}
	}
	e.Kind = r.kind
	a.tried(e, &r)
	e.retryable, e.retryAfter = r.retry, r.after
	if d := a.at.ep.wire.client.Timeout; d > 0 && now.Sub(a.started) >= d {
		e.outlasted = true
	}
	a.describe(e, m)
	if e.Kind == ErrTimeout {
		e.Verdict = cl.client.explain(cl.at.ep.name)
	}
	if r.throttle && (r.hasAfter || r.kind == ErrThrottled) {
		a.coolDown(e, r)
	}
	a.settle(e, a.verdict(e, r), now)
	if e.Clock != "" && a.reused.Load() && m.bytes == 0 {
		// The connection may have been dead, and other pooled ones too. They are
		// closed before the next request: only then is this one idle.
		cl.at.ep.doubt.Store(true)
	}
	return e, r
}

// leftByCaller settles the attempt if it failed because the caller ended the call,
// and returns the error of that. It returns nil if the caller has not.
func (a *attempt) leftByCaller(err error, m *meter, out *expiry, now time.Time) *Error {
	cl := a.call
	left, cause := err, err
	if !a.cancelled(err, m, out) {
		left, cause = cl.callersEnd()
	}
	if left == nil {
		return nil
	}
	e := cl.endedIn(m.phase, left, cause, now)
	cl.live = false // its context has ended with the caller's
	a.deadlines(e, m, out, now)
	if p := a.partial(m); p != nil {
		e.Partial = p
	}
	if a.out.status >= 400 {
		e.Status = a.out.status
		e.causes = append(e.causes, classify(a.out, now).kind)
	}
	v := breaker.Ignored
	switch {
	case e.Kind == ErrDeadline && m.suspect >= 0:
		// Many callers notice a stall by their own deadline alone.
		v = breaker.Failure
	case m.outputs > 0 && m.suspect < 0:
		v = breaker.Success // the caller left an endpoint that works
	}
	a.settle(e, v, now)
	return e
}

// cutBy reports whether a clock that ran out decides the ruling. When End runs out
// the error or answer that has been read decides it instead.
func (a *attempt) cutBy(out *expiry, err error) bool {
	var bad *badAnswer
	return out != nil && !(out.clock == ClockEnd && (a.out.server != nil || errors.As(err, &bad)))
}

// ruleOnClock rules on an attempt that a clock or evidence cut.
func (a *attempt) ruleOnClock(e *Error, m *meter, out *expiry, now time.Time) ruling {
	r := ruling{kind: ErrTimeout, retry: true, fault: theirs}
	if out.orphan || out.clock == ClockCall && m.suspect < 0 {
		r.fault = nobodys // others are served, or only our own bound ran out
	}
	e.Clock, e.Bound, e.Phase, e.Evidence = out.clock, out.bound, out.phase, out.evidence
	a.deadlines(e, m, out, now)
	if out.clock == ClockCall {
		e.Bound = a.call.client.cfg.Clocks.bound(iCall, a.at.load).limit
	}
	return r
}

// ruleOnFailure rules on an attempt that failed by itself: by an error status, a
// broken connection, or an answer that is none.
func (a *attempt) ruleOnFailure(e *Error, err error, now time.Time) ruling {
	var in *insideError
	a.out.err = bare(err)
	switch {
	case errors.As(err, &in):
		a.out.server, a.out.inside = in.said, true
	case err == errStatus:
		a.out.err = nil
	}
	a.out.passes = a.at.ep.passes
	r := classify(a.out, now)
	if a.out.err == nil && a.call.passed == nil {
		a.adapt(&r)
		a.adaptForm(&r)
		a.redirect(&r)
	}
	if a.out.err != nil && !a.out.inside {
		e.causes = append(e.causes, a.out.err)
	}
	if r.kind == ErrIncomplete && !errors.Is(a.out.err, io.ErrUnexpectedEOF) {
		e.causes = append(e.causes, io.ErrUnexpectedEOF) // what others call it
	}
	return r
}

// verdict is what the breaker is told of a failed attempt.
func (a *attempt) verdict(e *Error, r ruling) breaker.Verdict {
	switch r.fault {
	case theirs:
		if e.Status == http.StatusInternalServerError && a.at.failed > 0 {
			return breaker.Ignored // a second 500 for one call may be due to the request
		}
		return breaker.Failure
	case ours:
		return breaker.Success // it answers
	}
	return breaker.Ignored
}

// cancelled reports whether the error alone proves that the caller cancelled the
// call. Between the written request and the head of the answer, net/http returns a
// bare context.Canceled for nothing else, unless the client itself cancelled. This
// saves thousands of contended context reads when thousands of calls are cancelled
// at once.
func (a *attempt) cancelled(err error, m *meter, out *expiry) bool {
	ep := a.at.ep
	return err == context.Canceled && m.phase == PhaseFirstOutput && a.head == nil && out == nil &&
		ep.wire.direct && !ep.multiplexed.Load() && !a.call.stopped.Load()
}

// unseen reports whether a request that creates something may be sent again: the
// endpoint has not taken it, or says that it may.
func (a *attempt) unseen(e *Error, r ruling) bool {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable, r.stale, r.unreached:
		return true
	case e.Clock == ClockConnect, e.Clock == "" && !a.connected.Load() && a.at.ep.wire.dials:
		return true
	}
	return strings.EqualFold(a.out.header.Get("X-Should-Retry"), "true")
}

// adapt checks whether the endpoint refused the dialect rather than the request. If
// so, it is asked again in another dialect, which is remembered if that helps.
func (a *attempt) adapt(r *ruling) {
	d, text := adapted(a.speaks, a.out.status, a.out.server)
	if text == "" {
		return
	}
	a.at.speaks = d
	*r = ruling{kind: r.kind, adapted: true}
	if a.at.ep.firstHeard(d) {
		ev := a.call.event(EventAdapted)
		ev.Text = text
		a.call.client.notify(ev)
	}
}

// maxHops bounds the redirects that a call follows.
const maxHops = 5

// redirect follows a redirect that repeats the request (307 and 308) to the same
// host. Neither key nor prompt is sent to another one.
func (a *attempt) redirect(r *ruling) {
	if s := a.out.status; s != http.StatusTemporaryRedirect && s != http.StatusPermanentRedirect {
		return
	}
	to, err := a.head.Location()
	from := a.head.Request.URL
	if err != nil || to.Host != from.Host || to.Scheme != from.Scheme || a.at.hops >= maxHops {
		return
	}
	a.at.moved = to
	a.at.hops++
	*r = ruling{kind: r.kind, adapted: true}
}

// maxPause bounds the cool-down of all calls to an endpoint after it told one to
// wait. Some servers name times that are far too long. Only the call that was told
// waits for the whole time.
const maxPause = 2 * time.Minute

// coolDown makes all calls to the endpoint wait, since it told one to.
func (a *attempt) coolDown(e *Error, r ruling) {
	d := r.after
	if !r.hasAfter {
		d = a.call.client.cfg.Retry.Backoff
	}
	if d = min(d, maxPause); d <= 0 {
		return
	}
	a.at.ep.pacer.CoolDown(d)
	a.call.client.changes.tell()
	ev := a.call.event(EventCoolDown)
	ev.Wait, ev.Err = d, e
	a.call.client.notify(ev)
}

// partial returns the part of the answer that has come, or nil.
func (a *attempt) partial(m *meter) *chat.Response {
	if a.answer == nil || m.outputs == 0 && !a.answer.finished {
		return nil
	}
	resp := a.answer.asm.Response()
	resp.Endpoint = a.at.ep.name
	return resp
}
