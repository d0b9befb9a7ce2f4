package llmclient

import (
	"net/http"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// settle ends the attempt, once: the connection, the clocks, the breaker's pass,
// the pacer's permit, the record. It ended at now.
func (a *attempt) settle(e *Error, v breaker.Verdict, now time.Time) {
	if !a.settled.CompareAndSwap(false, true) {
		return
	}
	cl := a.call
	m, _ := a.watch.stop()
	a.giveBack()
	a.pass.Done(v)
	a.permit.Done(a.result(e, m))

	took := a.record(e, m, now)
	cl.spent += m.spent(m.moment(now))
	if m.firstOutput != never {
		a.first = max(1, m.firstOutput.Sub(atStart))
	}
	cl.lastOne.first, cl.lastOne.outputs = a.first, m.outputs
	if e == nil {
		a.learn(m, now, took)
	}
	cl.at.ep.tel.endAttempt(a, e)
	if e != nil && cl.client.observed() {
		cl.tellFailed(e, took)
	}
}

// giveBack ends what the attempt holds of the network.
func (a *attempt) giveBack() {
	if a.call.live {
		a.cancel(errSettled)
		a.call.live = false
	}
	if a.body != nil {
		_ = a.body.Close()
	}
	if a.answer != nil && a.answer.events != nil {
		a.answer.events.Close()
	}
}

// record notes the attempt among those of its call, and returns how long it took.
func (a *attempt) record(e *Error, m *meter, now time.Time) time.Duration {
	cl := a.call
	rec := Attempt{
		Endpoint: a.at.ep.name, Started: a.started, Duration: now.Sub(a.started), Phase: m.phase,
		Status: a.out.status, Bytes: m.bytes,
	}
	if e != nil {
		rec.Kind, rec.Clock, rec.Text, rec.Phase = e.Kind, e.Clock, bounded(e.text, 200), e.Phase
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.attempts.add(rec)
	if cl.current == a {
		cl.current, cl.phase, cl.since = nil, rec.Phase, now
	}
	return rec.Duration
}

// learn notes what a successful attempt shows about its endpoint.
func (a *attempt) learn(m *meter, now time.Time, took time.Duration) {
	cl, ep := a.call, a.call.at.ep
	plainly := time.Duration(0)
	if a.at.doubt.plainly {
		plainly = max(took, 1)
	}
	ep.succeeded(a.speaks, plainly)
	if a.at.adapts > 0 {
		ep.learns(cl.at.model, a.at.form)
	}
	if a.pass == nil {
		ep.breaker.Hurry() // the attempt went past an open breaker, and the endpoint works
	}
	if len(cl.client.eps) > 1 && cl.req != nil {
		cl.client.prefixes.add(cl.req, a.at.ep)
	}
	if a.resp != nil && a.resp.Usage != nil && a.resp.Usage.ReasoningTokens > 0 {
		ep.sawReasoning(cl.at.model) // unseen, but counted
	}
	if a.first > 0 {
		ep.budget.give(now, gainOfSuccess)
		if more := cl.retry.paid - gainOfSuccess; more > 0 {
			cl.retry.paidTo.give(now, more)
		}
		ep.evidence.pace.add(a.kind, a.started, a.first, m.longestGap)
	}
}

// servesOthers is how long after the last output of any call a refusing server
// counts as full rather than out of order.
const servesOthers = 30 * time.Second

// result is what the pacer is told of the request.
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
		// The load is too high for a server that serves other calls. A server that
		// serves none is out of order, which is for the breaker and no reason to
		// lower the pacer's limit.
		if a.at.ep.breaker.Stats().Failures <= 2 && a.at.ep.serves(time.Now()) {
			r.Outcome = pacer.Refused
		}
	case m.phase >= PhaseFirstOutput && m.phase < PhaseEnd && (e.Kind == ErrTimeout || e.Kind == ErrDeadline && m.suspect >= 0):
		r.Outcome = pacer.Abandoned
	case m.phase >= PhaseFirstOutput && m.phase < PhaseEnd && (e.Kind == ErrCanceled || e.Kind == ErrDeadline || e.Kind == ErrClosed):
		r.Outcome = pacer.Cancelled
	case e.Status == 0 && m.phase < PhaseFirstOutput:
		r.Tokens = -1 // it did not reach the endpoint
	}
	return r
}

// tellFailed sends the event of a failed attempt.
func (cl *call) tellFailed(e *Error, after time.Duration) {
	ev := cl.event(EventFailed)
	ev.Phase, ev.Clock, ev.After, ev.Err = e.Phase, e.Clock, after, e
	ev.FirstOutput, ev.Outputs = cl.lastOne.first, cl.lastOne.outputs
	if e.Verdict != "" {
		ev.Text = "the server: " + e.Verdict
	}
	cl.client.notify(ev)
}
