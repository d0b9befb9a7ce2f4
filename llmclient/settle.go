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
	"github.com/neverhang/neverhang/pacer"
)

// fail rules on a failed attempt and settles it.
func (a *attempt) fail(err error) (*Error, ruling) {
	cl := a.call
	m, out := a.watch.stop()
	now := time.Now()
	left, cause := err, err
	if !a.cancelled(err, m, out) {
		left, cause = cl.callersEnd()
	}
	if left != nil {
		e := cl.endedIn(m.phase, left, cause, now)
		cl.live = false // it has ended with the caller's
		v := breaker.Ignored
		switch {
		case e.Kind == ErrDeadline && m.suspect >= 0:
			// Deadlines that callers set are how many a stall is noticed.
			v = breaker.Failure
		case m.outputs > 0 && m.suspect < 0:
			v = breaker.Success // the caller left an endpoint that works
		}
		a.deadlines(e, m, out, now)
		if p := a.partial(m); p != nil {
			e.Partial = p
		}
		if a.out.status >= 400 {
			e.Status = a.out.status
			e.causes = append(e.causes, classify(a.out, now).kind)
		}
		a.settle(e, v)
		return e, ruling{kind: e.Kind}
	}
	e := &Error{Phase: m.phase, Endpoint: cl.at.ep.name, Model: cl.at.model, Status: a.out.status, Partial: a.partial(m)}
	var r ruling
	var bad *badAnswer
	if out != nil && !(out.clock == ClockEnd && (a.out.server != nil || errors.As(err, &bad))) {
		r = ruling{kind: ErrTimeout, retry: true, fault: theirs}
		if out.orphan || out.clock == ClockCall && m.suspect < 0 {
			r.fault = nobodys // others are served, or the bound was ours and nothing looked wrong
		}
		e.Clock, e.Bound, e.Phase, e.Evidence = out.clock, out.bound, out.phase, out.evidence
		a.deadlines(e, m, out, now)
		if out.clock == ClockCall {
			e.Bound = cl.client.cfg.Clocks.bound(iCall, cl.at.load).limit
		}
	} else {
		var in *insideError
		a.out.err = bare(err)
		switch {
		case errors.As(err, &in):
			a.out.server, a.out.inside = in.said, true
		case err == errStatus:
			a.out.err = nil
		}
		a.out.passes = a.at.ep.passes
		r = classify(a.out, now)
		if a.out.err == nil && cl.passed == nil {
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
	v := breaker.Ignored
	switch r.fault {
	case theirs:
		if v = breaker.Failure; e.Status == http.StatusInternalServerError && a.at.failed > 0 {
			v = breaker.Ignored // the same once more: it may be the request
		}
	case ours:
		v = breaker.Success // it answers
	}
	a.settle(e, v)
	if e.Clock != "" && a.reused.Load() && m.bytes == 0 {
		// The connection may have been dead, and others with it. They are given
		// up before the next request: only then is this one off it.
		cl.at.ep.doubt.Store(true)
	}
	return e, r
}

// cancelled reports whether an error alone shows that the caller cancelled the
// call. Once the request is written and until the head of an answer comes,
// net/http returns context.Canceled itself for nothing else, unless it was us:
// when thousands are cancelled at once there are that many fewer contexts to ask.
func (a *attempt) cancelled(err error, m *meter, out *expiry) bool {
	ep := a.at.ep
	return err == context.Canceled && m.phase == PhaseFirstOutput && a.head == nil && out == nil &&
		ep.wire.direct && !ep.multiplexed.Load() && !a.call.stopped.Load()
}

// unseen reports whether a request that creates something may be sent again all
// the same: it was not taken, or its endpoint says so.
func (a *attempt) unseen(e *Error, r ruling) bool {
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable, r.stale, r.unreached:
		return true
	case e.Clock == ClockConnect, e.Clock == "" && !a.connected.Load() && a.at.ep.wire.dials:
		return true
	}
	return strings.EqualFold(a.out.header.Get("X-Should-Retry"), "true")
}

// adapt sees whether the endpoint refused the dialect rather than the request.
// Then it is asked again in another, which is remembered if that helps.
func (a *attempt) adapt(r *ruling) {
	d, text := adapted(a.speaks, a.out.status, a.out.server)
	if text == "" {
		return
	}
	a.at.speaks = d
	*r = ruling{kind: r.kind, adapted: true}
	if a.at.ep.news(d) {
		ev := a.call.event(EventAdapted)
		ev.Text = text
		a.call.client.notify(ev)
	}
}

// maxHops bounds the redirects that a call follows.
const maxHops = 5

// redirect follows one that repeats the request (307 and 308) at the same host.
// To another neither key nor prompt goes.
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

// maxPause bounds the pause that all calls to an endpoint make because one was
// told to wait. Servers name times that are not meant, and come back sooner
// than they say: after so long one call may ask again. The caller who was told
// gets the whole time.
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
	a.call.client.news.tell()
	ev := a.call.event(EventCoolDown)
	ev.Wait, ev.Err = d, e
	a.call.client.notify(ev)
}

// partial returns what has come of the answer, or nil.
func (a *attempt) partial(m *meter) *chat.Response {
	if a.answer == nil || m.outputs == 0 && !a.answer.finished {
		return nil
	}
	resp := a.answer.asm.Response()
	resp.Endpoint = a.at.ep.name
	return resp
}

// settle ends the attempt, once: the connection, the clocks, the pass, the
// permit, the record.
func (a *attempt) settle(e *Error, v breaker.Verdict) {
	if !a.settled.CompareAndSwap(false, true) {
		return
	}
	cl := a.call
	m, _ := a.watch.stop()
	now := time.Now()
	if cl.live {
		a.cancel(errSettled)
		cl.live = false
	}
	if a.body != nil {
		_ = a.body.Close()
	}
	if a.answer != nil && a.answer.events != nil {
		a.answer.events.Close()
	}
	a.pass.Done(v)
	a.permit.Done(a.result(e, m))

	rec := Attempt{
		Endpoint: a.at.ep.name, Started: a.started, Duration: now.Sub(a.started), Phase: m.phase,
		Status: a.out.status, Bytes: m.bytes,
	}
	if e != nil {
		rec.Kind, rec.Clock, rec.Text, rec.Phase = e.Kind, e.Clock, bounded(e.text, 200), e.Phase
	}
	cl.mu.Lock()
	cl.attempts = append(cl.attempts, rec)
	if cl.current == a {
		cl.current, cl.phase, cl.since = nil, rec.Phase, now
	}
	cl.mu.Unlock()
	cl.spent += m.spent(m.moment(now))
	if e == nil {
		var took time.Duration
		if a.at.doubt.plainly {
			took = max(rec.Duration, 1)
		}
		cl.at.ep.succeeded(a.speaks, took)
		if a.at.adapts > 0 {
			cl.at.ep.learns(cl.at.model, a.at.form)
		}
	}
	if m.firstOutput != never {
		a.first = max(1, m.firstOutput.Sub(atStart))
	}
	cl.lastOne.first, cl.lastOne.outputs = a.first, m.outputs
	if e == nil && a.pass == nil {
		cl.at.ep.breaker.Hurry() // it was asked past its breaker, and works
	}
	if e == nil && len(cl.client.eps) > 1 && cl.req != nil {
		cl.client.prefixes.add(cl.req, a.at.ep)
	}
	if e == nil && a.resp != nil && a.resp.Usage != nil && a.resp.Usage.ReasoningTokens > 0 {
		cl.at.ep.sawReasoning(cl.at.model) // unseen, but counted
	}
	if e == nil && a.first > 0 {
		cl.at.ep.budget.give(now, gainOfSuccess)
		if more := cl.retry.paid - gainOfSuccess; more > 0 {
			cl.retry.paidTo.give(now, more)
		}
		cl.at.ep.evidence.pace.add(a.kind, a.started, a.first, m.longestGap)
	}
	cl.at.ep.tel.endAttempt(a, e)
	if e != nil && cl.client.observed() {
		cl.tellFailed(e, rec.Duration)
	}
}

// servesOthers is how long after an output of any call a server that refuses is
// taken to be full, and not out of order.
const servesOthers = 30 * time.Second

// result tells the pacer what became of the request.
func (a *attempt) result(e *Error, m *meter) pacer.Result {
	r := pacer.Result{Outcome: pacer.Failed, Outputs: a.pieces}
	switch {
	case !a.call.infers():
		r.Outcome = pacer.Unknown
	case e == nil:
		r.Outcome = pacer.Answered
		if a.resp != nil && a.resp.Usage != nil {
			r.Tokens = int(a.resp.Usage.TotalTokens)
		}
	case e.Kind == ErrThrottled:
		r.Outcome = pacer.Throttled
	case e.Status == http.StatusServiceUnavailable || e.Status == 529:
		// Too much for a server that serves others. One that serves nobody is out
		// of order, which is the breaker's business: when it is back it can do what
		// it could before.
		if a.at.ep.breaker.Stats().Failures <= 2 && a.at.ep.serves(time.Now()) {
			r.Outcome = pacer.Refused
		}
	case m.phase >= PhaseFirstOutput && m.phase < PhaseEnd && (e.Kind == ErrTimeout || e.Kind == ErrDeadline && m.suspect >= 0):
		r.Outcome = pacer.Abandoned
	case m.phase >= PhaseFirstOutput && m.phase < PhaseEnd && (e.Kind == ErrCanceled || e.Kind == ErrDeadline || e.Kind == ErrClosed):
		r.Outcome = pacer.Cancelled
	case e.Status == 0 && m.phase < PhaseFirstOutput:
		r.Tokens = -1 // it reached nobody
	}
	return r
}

// tellFailed tells that an attempt has failed.
func (cl *call) tellFailed(e *Error, after time.Duration) {
	ev := cl.event(EventFailed)
	ev.Phase, ev.Clock, ev.After, ev.Err = e.Phase, e.Clock, after, e
	ev.FirstOutput, ev.Outputs = cl.lastOne.first, cl.lastOne.outputs
	if e.Verdict != "" {
		ev.Text = "the server: " + e.Verdict
	}
	cl.client.notify(ev)
}
