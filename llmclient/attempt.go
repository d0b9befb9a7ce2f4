package llmclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// An attempt is one request on the wire, from its permit to the end of its
// body. It is used by one goroutine, apart from settle.
type attempt struct {
	call   *call
	n      int
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  watch
	speaks dialect
	span   trace.Span

	started time.Time
	permit  *pacer.Permit
	pass    *breaker.Pass
	settled atomic.Bool

	out       outcome
	connected atomic.Bool // a connection was there
	reused    atomic.Bool // it had carried requests before
	firstByte atomic.Bool

	head   *http.Response
	body   io.ReadCloser // of the answer; nil before
	tape   tape          // of the answer to a passed request
	answer answer
	asm    chat.Assembler
	text   loopGuard
	args   loopGuard
	resp   *chat.Response // the whole answer
	early  []chat.Chunk   // read before the attempt committed
	first  time.Duration  // until the first output, once settled; 0 if there was none
}

// attempt begins the next attempt of the call.
func (cl *call) attempt(permit *pacer.Permit, pass *breaker.Pass) *attempt {
	a := &attempt{call: cl, speaks: cl.speaks, started: time.Now(), permit: permit, pass: pass}
	a.text.limit = cl.client.cfg.Limits.RepeatBytes
	a.args.limit = cl.client.cfg.Limits.RepeatBytes * argsPatience
	a.ctx, a.cancel = context.WithCancelCause(cl.ctx)
	a.watch.onSuspect, a.watch.onAsk, a.watch.onExpire = a.suspect, cl.client.ep.evidence.ask, a.expire

	b := cl.client.cfg.Clocks.bounds(cl.load)
	first, gap := cl.client.ep.evidence.pace.shown(cl.model)
	b[iFirstOutput].lengthen(first)
	b[iAttempt].lengthen(first)
	b[iGap].lengthen(gap)
	if left, bounded := cl.left(); bounded {
		b[iCall].limit = max(left, 1)
	}
	a.ctx, a.span = cl.client.tel.startAttempt(a)
	a.watch.start(newMeter(a.started, b, a.speaks.plain, cl.client.wire.trusted))
	cl.mu.Lock()
	cl.n++
	a.n = cl.n
	cl.current = a
	cl.mu.Unlock()
	cl.client.notify(cl.event(EventAttempt))
	return a
}

// suspect announces a clock past its suspect bound.
func (a *attempt) suspect(x expiry) {
	ev := a.call.event(EventSuspect)
	ev.Phase, ev.Clock, ev.After = x.phase, x.clock, x.bound
	ev.Text = fmt.Sprintf("%v without %s", x.bound, missing[x.clock])
	a.call.client.notify(ev)
}

// missing says what each clock waits for.
var missing = map[ClockName]string{
	ClockConnect: "a connection", ClockSend: "the request being read", ClockFirstOutput: "output", ClockGap: "output",
	ClockSilence: "a sign of life", ClockAttempt: "a whole answer", ClockEnd: "the end of the answer", ClockCall: "success",
}

// expire cuts the attempt: its clock has run out.
func (a *attempt) expire(x expiry) { a.cancel(errExpired) }

var errExpired = errors.New("a clock ran out")

// commit sends the request and reads until the attempt counts. On failure the
// attempt is settled.
func (a *attempt) commit(want commitment) (*Error, ruling) {
	err := a.open()
	for err == nil {
		var ch *chat.Chunk
		if ch, err = a.next(); err == nil && want == firstOutput {
			if a.call.passed == nil && tells(ch) && len(a.early) < maxEarly {
				a.early = append(a.early, *ch)
			}
			// One JSON value is judged as a whole: it is all there, or nothing is.
			if ch == passedOn || ch.Output() && !a.answer.json {
				return nil, ruling{}
			}
		}
	}
	if err == io.EOF {
		a.settle(nil, breaker.Success)
		return nil, ruling{}
	}
	return a.fail(err)
}

// maxEarly bounds the chunks that are kept until the first output, for a
// server that sends others for ever.
const maxEarly = 256

// tells reports whether there is anything in a chunk for the consumer.
func tells(ch *chat.Chunk) bool {
	return speaks(ch) || len(ch.Extra)+len(ch.ChoiceExtra)+len(ch.DeltaExtra) > 0
}

// speaks reports whether a chunk is a piece of an answer.
func speaks(ch *chat.Chunk) bool {
	return ch.Output() || ch.Role != "" || ch.FinishReason != "" || ch.Usage != nil || len(ch.ToolCalls) > 0
}

// open sends the request and reads the head of the answer. An error status is
// an error, and its body has been read.
func (a *attempt) open() error {
	req, err := a.request()
	if err != nil {
		return err
	}
	if a.call.client.ep.doubt.Swap(false) {
		a.call.client.wire.renew()
	}
	resp, err := a.call.client.wire.do(req)
	// A second dead connection is no accident any more.
	a.out.reused = a.reused.Load() && !a.call.renewed && !a.call.client.ep.multiplexed.Load()
	a.out.firstByte = a.firstByte.Load()
	a.out.connected = a.connected.Load()
	if err != nil {
		return err
	}
	a.head, a.body = resp, resp.Body
	a.out.status, a.out.header, a.out.firstByte = resp.StatusCode, resp.Header, true
	a.call.client.ep.evidence.saw(time.Now())
	if resp.ProtoMajor == 2 {
		a.call.client.ep.multiplexed.Store(true)
	}
	if resp.StatusCode == http.StatusOK || a.call.passed != nil && resp.StatusCode < 300 {
		a.watch.tell((*meter).answered)
		a.answer = answer{a: a, body: bufio.NewReaderSize(&tally{a: a, limit: a.call.client.cfg.Limits.AnswerBytes}, 512)}
		return nil
	}
	a.watch.tell((*meter).refused)
	// What the endpoint says is worth a moment, and no more: the clock End
	// cuts a body that does not end.
	text, _ := io.ReadAll(io.LimitReader(&tally{a: a, limit: noLimit}, errorBytes))
	a.tape.buf = text
	a.out.server = chat.ParseError(text)
	if a.out.server == nil {
		a.out.server = &chat.ServerError{Message: a.snippet(text)}
	}
	return errStatus
}

var errStatus = errors.New("error status")

// errorBytes bounds what is read of an error's body.
const errorBytes = 64 << 10

// next returns the next piece of the answer, or io.EOF when it is whole.
func (a *attempt) next() (*chat.Chunk, error) {
	ch, err := a.answer.next()
	if ch == passedOn {
		a.watch.tell((*meter).output)
		return ch, err
	}
	if err == nil {
		a.asm.Add(ch)
		a.see(ch)
		if a.runaway(ch) {
			return nil, errRunaway
		}
		return ch, nil
	}
	if in := (*insideError)(nil); a.answer.finished && err != io.EOF && !errors.As(err, &in) {
		// The model had said that it was done, and had said nothing since.
		// What broke off after that was at most the usage.
		err = io.EOF
	}
	switch {
	case err != io.EOF:
	case a.answer.messages != nil:
		err = a.answer.messages.whole()
	case !a.answer.opaque:
		err = a.whole()
	}
	return nil, err
}

var errRunaway = errors.New("the model says the same over and over")

// see tells the clocks, the breaker and the endpoint's memory of a chunk.
func (a *attempt) see(ch *chat.Chunk) {
	if ch.Output() {
		a.answer.finished = false
		a.watch.tell((*meter).output)
		if a.pass.Trial() {
			// The model works again. Everybody else is waiting to hear that,
			// and the answer may take minutes.
			a.pass.Done(breaker.Success)
		}
	}
	if ch.Reasoning != "" && !a.answer.reasoned {
		a.answer.reasoned = true
		a.watch.tell(func(m *meter, _ time.Time) { m.reasons() })
		a.call.client.ep.sawReasoning(a.call.model)
	}
	if ch.FinishReason != "" && !a.answer.finished {
		a.answer.finished = true
		a.call.client.ep.finishes()
		a.watch.tell((*meter).finish)
	}
}

// whole checks that what has ended is an answer. It returns io.EOF if so.
func (a *attempt) whole() error {
	a.resp = a.asm.Response()
	r, end := a.resp, a.resp.FinishReason
	said := !r.Empty() || r.Message.Reasoning != ""
	switch {
	case end.Failed():
		return &badAnswer{kind: ErrAborted, text: fmt.Sprintf("the server gave up on the answer (finish reason %q)", bounded(string(end), 60))}
	case len(r.Message.ToolCalls) > 0 && cutCalls(r):
		return &badAnswer{kind: ErrTruncated, text: fmt.Sprintf("the answer was cut inside its tool calls (finish reason %q); if a token limit did it, raise MaxTokens", bounded(string(end), 60))}
	case end != "":
		return io.EOF
	case !said && a.answer.odd != nil:
		return &insideError{a.answer.odd}
	case !said && a.answer.noise != "":
		return &badAnswer{kind: ErrMalformed, text: "what came is no answer: " + a.kindOfBody() + a.answer.noise}
	case !said:
		return &badAnswer{kind: ErrEmpty, text: "the answer was empty: " + a.kindOfBody() + "no finish reason and no output"}
	case a.answer.json:
		return io.EOF // the JSON is whole, and some servers leave the reason out
	case a.answer.done && !a.call.client.ep.speaks().ends:
		return io.EOF // an endpoint that has never sent a reason, and said [DONE]
	case a.answer.done:
		return &badAnswer{kind: ErrIncomplete, text: "the answer ended without a finish reason, which this endpoint otherwise sends"}
	}
	return &badAnswer{kind: ErrIncomplete, text: "the answer broke off: the stream ended without a finish reason"}
}

// cutCalls reports whether the tool calls of an answer are not what the model
// meant to write: a limit or a filter ended it, or arguments do not end though
// the reason does not say that they should.
func cutCalls(r *chat.Response) bool {
	end := r.FinishReason
	switch {
	case end.Limited(), end.Filtered():
		return true
	case end == chat.FinishStop, end == chat.FinishToolCalls, end == chat.FinishFunctionCall, end == "":
		return false // broken arguments are the model's, and the agent's to answer
	}
	return slices.ContainsFunc(r.Message.ToolCalls, func(c chat.ToolCall) bool { return c.Cut() })
}

// leave settles an attempt that nobody reads on, if the model had finished: who
// leaves then has missed the usage at most. Otherwise it reports false.
func (a *attempt) leave() bool {
	if !a.answer.finished || a.whole() != io.EOF {
		return false
	}
	a.settle(nil, breaker.Success)
	return true
}

// kindOfBody describes the answer's body for messages.
func (a *attempt) kindOfBody() string {
	kind := a.out.header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	return fmt.Sprintf("status %d, %s: ", a.out.status, bounded(kind, 60))
}

// fail rules on a failed attempt and settles it.
func (a *attempt) fail(err error) (*Error, ruling) {
	cl := a.call
	m, out := a.watch.look()
	if cl.ctx.Err() != nil {
		e := cl.ended()
		v := breaker.Ignored
		switch {
		case e.Kind == ErrDeadline && m.suspect >= 0:
			// Deadlines that callers set are how many a stall is noticed.
			v = breaker.Failure
		case m.outputs > 0 && m.suspect < 0:
			v = breaker.Success // the caller left an endpoint that works
		}
		if p := a.partial(m); p != nil {
			e.Partial = p
		}
		if a.out.status >= 400 {
			e.Status = a.out.status
			e.causes = append(e.causes, classify(a.out, time.Now()).kind)
		}
		a.settle(e, v)
		return e, ruling{kind: e.Kind}
	}
	e := &Error{Phase: m.phase, Endpoint: cl.client.ep.name, Model: cl.model, Status: a.out.status, Partial: a.partial(m)}
	var r ruling
	var bad *badAnswer
	if out != nil && !(out.clock == ClockEnd && (a.out.server != nil || errors.As(err, &bad))) {
		r = ruling{kind: ErrTimeout, retry: true, fault: theirs}
		if out.orphan || out.clock == ClockCall && m.suspect < 0 {
			r.fault = nobodys // others are served, or the bound was ours and nothing looked wrong
		}
		e.Clock, e.Bound, e.Phase, e.Evidence = out.clock, out.bound, out.phase, out.evidence
		if out.clock == ClockCall {
			e.Bound = cl.client.cfg.Clocks.bounds(cl.load)[iCall].limit
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
		r = classify(a.out, time.Now())
		if a.out.err == nil && cl.passed == nil {
			a.adapt(&r)
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
	}
	e.Kind, e.retryable, e.retryAfter = r.kind, r.retry, r.after
	a.describe(e, m)
	if r.throttle && (r.hasAfter || r.kind == ErrThrottled) {
		a.coolDown(e, r)
	}
	v := breaker.Ignored
	switch r.fault {
	case theirs:
		v = breaker.Failure
	case ours:
		v = breaker.Success // it answers
	}
	a.settle(e, v)
	if e.Clock != "" && a.reused.Load() && m.bytes == 0 {
		// The connection may have been dead, and others with it. They are given
		// up before the next request: only then is this one off it.
		cl.client.ep.doubt.Store(true)
	}
	return e, r
}

// adapt sees whether the endpoint refused the dialect rather than the request.
// Then it is asked again in another, which is remembered if that helps.
func (a *attempt) adapt(r *ruling) {
	d, text := adapted(a.speaks, a.out.status, a.out.server)
	if text == "" {
		return
	}
	a.call.speaks = d
	*r = ruling{kind: r.kind, adapted: true}
	if a.call.client.ep.news(d) {
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
	if err != nil || to.Host != from.Host || to.Scheme != from.Scheme || a.call.hops >= maxHops {
		return
	}
	a.call.moved = to
	a.call.hops++
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
	a.call.client.ep.pacer.CoolDown(d)
	ev := a.call.event(EventCoolDown)
	ev.Wait, ev.Err = d, e
	a.call.client.notify(ev)
}

// partial returns what has come of the answer, or nil.
func (a *attempt) partial(m meter) *chat.Response {
	if m.outputs == 0 && !a.answer.finished {
		return nil
	}
	return a.asm.Response()
}

// settle ends the attempt, once: the connection, the clocks, the pass, the
// permit, the record.
func (a *attempt) settle(e *Error, v breaker.Verdict) {
	if !a.settled.CompareAndSwap(false, true) {
		return
	}
	cl := a.call
	m := a.watch.stop()
	now := time.Now()
	a.cancel(nil)
	if a.body != nil {
		_ = a.body.Close()
	}
	if a.answer.events != nil {
		a.answer.events.Close()
	}
	a.pass.Done(v)
	a.permit.Release()

	rec := Attempt{
		Started: a.started, Duration: now.Sub(a.started), Phase: m.phase,
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
	cl.spent += m.spent(now)
	if e == nil {
		cl.client.ep.succeeded(a.speaks)
	}
	if !m.firstOutput.IsZero() {
		a.first = max(1, m.firstOutput.Sub(a.started))
	}
	if e == nil && a.first > 0 {
		cl.client.ep.budget.give(now, max(gainOfSuccess, cl.retry.paid))
		cl.client.ep.evidence.pace.add(cl.kind(), a.started, a.first, m.longestGap)
	}
	cl.client.tel.endAttempt(a, e)
	if e != nil {
		ev := cl.event(EventFailed)
		ev.Phase, ev.Clock, ev.After, ev.Err = e.Phase, e.Clock, rec.Duration, e
		cl.client.notify(ev)
	}
}
