package llmclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
	"unicode"

	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
	"github.com/neverhang/neverhang/pacer/ratelimit"
)

// An attempt is one request on the wire, from its permit to the end of its
// body. It is used by one goroutine, apart from settle.
type attempt struct {
	call   *call
	at     *route
	kind   callKind
	n      int
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  watch
	speaks dialect
	span   trace.Span // nil if the call's is not recorded

	started time.Time
	permit  *pacer.Permit
	pieces  int // of output, told to it
	pass    *breaker.Pass
	settled atomic.Bool

	written   atomic.Int64 // bytes of output
	out       outcome
	connected atomic.Bool // a connection was there
	reused    atomic.Bool // it had carried requests before
	firstByte atomic.Bool

	head   *http.Response
	body   io.ReadCloser  // of the answer; nil before
	read   bool           // to its end
	tape   tape           // of the answer to a passed request
	answer *answer        // what is made of it; likewise
	resp   *chat.Response // the whole answer
	early  []chat.Chunk   // read before the attempt committed
	first  time.Duration  // until the first output, once settled; 0 if there was none
}

// attempt begins the next attempt of the call.
func (cl *call) attempt(permit *pacer.Permit, pass *breaker.Pass) *attempt {
	a := &attempt{call: cl, at: cl.at, kind: cl.kind(), speaks: cl.at.speaks, started: time.Now(), permit: permit, pass: pass}
	a.ctx, a.cancel = cl.ctx, cl.cancel
	a.watch.onSuspect, a.watch.onAsk, a.watch.onExpire = a.suspect, cl.at.ep.evidence.ask, a.expire

	b := &a.watch.m.bounds
	cl.client.cfg.Clocks.bounds(cl.at.load, b)
	first, gap := cl.at.ep.evidence.pace.shown(cl.at.model)
	b[iFirstOutput].lengthen(first)
	b[iAttempt].lengthen(first)
	if within := cl.at.doubt.within; within > 0 {
		b[iFirstOutput].shorten(within)
	}
	b[iGap].lengthen(gap)
	if left, bounded := cl.left(); bounded {
		b[iCall].limit = max(left, 1)
	}
	cl.at.ep.tel.startAttempt(a)
	a.watch.m.refuted = cl.at.ep.refutes.Load()
	a.watch.start(a.started, a.speaks.plain, cl.at.ep.wire.trusted)
	cl.mu.Lock()
	cl.n++
	a.n = cl.n
	cl.current = a
	cl.mu.Unlock()
	if cl.client.observed() {
		cl.client.notify(cl.event(EventAttempt))
	}
	return a
}

// suspect announces a clock past its suspect bound.
func (a *attempt) suspect(x expiry) {
	ev := a.call.event(EventSuspect)
	ev.Phase, ev.Clock, ev.After = x.phase, x.clock, x.bound
	ev.Text = fmt.Sprintf("%v without %s", x.bound, missing[x.clock])
	if verdict := a.call.client.explain(a.at.ep.name); verdict != "" {
		ev.Text += "; the server: " + verdict
	}
	a.call.client.notify(ev)
}

// missing says what each clock waits for.
var missing = map[ClockName]string{
	ClockConnect: "a connection", ClockSend: "the request being read", ClockFirstOutput: "output", ClockGap: "output",
	ClockSilence: "a sign of life", ClockAttempt: "a whole answer", ClockEnd: "the end of the answer", ClockCall: "success",
}

// expire cuts the attempt: its clock has run out.
func (a *attempt) expire(x expiry) { a.cancel(errExpired) }

var (
	errExpired = errors.New("a clock ran out")
	errSettled = errors.New("the attempt is over")
)

// commit sends the request and reads until the attempt counts. On failure the
// attempt is settled.
func (a *attempt) commit(want commitment) (*Error, ruling) {
	err := a.open()
	for err == nil {
		var ch *chat.Chunk
		if ch, err = a.next(); err == nil && want == firstOutput {
			a.keepEarly(ch)
			// One JSON value is judged as a whole: it is all there, or nothing is.
			if ch == passedOn || ch.Output() && !a.answer.json {
				return nil, ruling{}
			}
		}
	}
	if err == io.EOF {
		a.settle(nil, breaker.Success, time.Now())
		return nil, ruling{}
	}
	return a.fail(err)
}

// keepEarly keeps the chunks that come before the attempt commits, for the reader
// of the stream.
func (a *attempt) keepEarly(ch *chat.Chunk) {
	if a.call.passed == nil && (ch.Output() || tells(ch) && len(a.early) < maxEarly) {
		a.early = append(a.early, *ch)
	}
}

// maxEarly bounds the chunks that are kept until the first output. A server may
// send chunks without output for ever.
const maxEarly = 256

// tells reports whether a chunk holds anything for the consumer.
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
	began := time.Now()
	if woke := a.at.ep.asleep.woke(began, began.Round(0)); a.at.ep.doubt.Swap(false) || woke {
		a.at.ep.wire.renew(a.at.ep.multiplexed.Load())
	}
	resp, err := a.at.ep.wire.do(req)
	// A second dead connection is no accident any more.
	a.out.reused = a.reused.Load() && !a.at.renewed && !a.at.ep.multiplexed.Load()
	a.out.firstByte = a.firstByte.Load()
	a.out.connected = a.connected.Load()
	if err != nil {
		return err
	}
	if resp.Request == nil { // some transports leave it out, and redirects are relative to it
		resp.Request = req
	}
	a.head, a.body = resp, resp.Body
	a.out.status, a.out.header, a.out.firstByte = resp.StatusCode, resp.Header, true
	now := time.Now()
	a.at.ep.evidence.saw(now)
	if left := ratelimit.Parse(resp.Header, now); len(left) > 0 {
		a.at.ep.pacer.Heed(a.permit, left...) // it tightens before the endpoint has to refuse
	}
	if resp.ProtoMajor == 2 {
		a.at.ep.multiplexed.Store(true)
	}
	if resp.StatusCode < 300 { // some gateways answer every POST with 201
		a.watch.tell((*meter).answered)
		a.answer = &answer{a: a, body: bufio.NewReaderSize(&answerBody{a: a, limit: a.bytesLimit()}, 512)}
		return nil
	}
	a.watch.tell((*meter).refused)
	// The clock End cuts a body that does not end.
	text, _ := io.ReadAll(io.LimitReader(&answerBody{a: a, limit: noLimit}, errorBytes))
	a.tape.buf = text
	a.out.server = chat.ParseError(text)
	if a.out.server == nil {
		a.out.server = &chat.ServerError{Message: a.snippet(text)}
	}
	return errStatus
}

// bytesLimit bounds a model's answer. Other answers are handed on as they come, and
// have no bound.
func (a *attempt) bytesLimit() int64 {
	if !a.call.infers() {
		return noLimit
	}
	return a.call.client.cfg.Limits.AnswerBytes
}

var errStatus = errors.New("error status")

// errorBytes bounds what is read of an error's body.
const errorBytes = 64 << 10

// next returns the next piece of the answer, or io.EOF when it is whole.
func (a *attempt) next() (*chat.Chunk, error) {
	began := time.Now()
	ch, err := a.answer.next()
	if ch == passedOn {
		a.watch.tell((*meter).output)
		return ch, err
	}
	if err == nil {
		a.answer.asm.Add(ch)
		if a.answer.asm.Err() != nil {
			return nil, errTooManyCalls
		}
		a.see(ch)
		if err := a.runaway(ch, time.Since(began)); err != nil {
			return nil, err
		}
		return ch, nil
	}
	if in := (*insideError)(nil); a.answer.finished && err != io.EOF && !errors.As(err, &in) {
		// The model had finished, and no output came after it. At most the usage
		// has been lost.
		err = io.EOF
		a.answer.torn = true
	}
	switch {
	case err != io.EOF:
	case a.answer.messages != nil:
		err = a.answer.messages.whole()
	case !a.answer.opaque:
		err = a.whole()
	case a.ctx.Err() != nil:
		err = context.Cause(a.ctx) // an end that comes after the attempt was cut proves nothing
	}
	return nil, err
}

// trialProof is how long the output of a breaker's trial must go on until the
// endpoint counts as working. The first output is not enough: all waiting calls
// would be sent to an endpoint that breaks off all its answers.
const trialProof = 5 * time.Second

// tellBreaker tells the breaker that output comes, so that it does not judge by
// failing calls alone. A trial counts as a success after trialProof and not at its
// end, which may be minutes away, since all other calls wait for it.
func (a *attempt) tellBreaker() {
	if a.pass.Trial() && a.watch.outputFor() >= trialProof {
		a.pass.Done(breaker.Success)
		return
	}
	a.pass.Progress()
}

// paces tells the pacer of output as it comes. The time to first output of a
// model that reasons unseen says nothing about the server, and neither does the
// length of an answer that comes all at once.
func (a *attempt) paces() {
	a.at.ep.lastOutput.Store(time.Now().UnixNano())
	if a.pieces++; a.answer.json {
		return
	}
	if a.pieces == 1 && !a.kind.reasoning {
		a.permit.FirstOutput(time.Since(a.started))
	}
	a.permit.Output(a.pieces)
}

// see tells the clocks, the breaker and the endpoint about a chunk.
func (a *attempt) see(ch *chat.Chunk) {
	n := a.answer
	says := ch.Output()
	if says {
		goesOn, was := n.finished, n.blank
		if goesOn {
			a.at.ep.refutes.Store(true)
		}
		n.finished = false
		n.said = n.said || ch.Content != "" || ch.Refusal != "" || len(ch.ToolCalls) > 0
		if n.blank = blank(ch); !was || !n.blank || goesOn {
			a.progress()
		}
	}
	if ch.Reasoning != "" && !a.answer.reasoned {
		a.answer.reasoned = true
		a.watch.tell(func(m *meter, _ moment) { m.reasons() })
		a.at.ep.sawReasoning(a.at.model)
	}
	if ch.FinishReason != "" && !a.answer.finished {
		a.answer.finished = true
		a.at.ep.finishes()
		if n.said && !says || n.json || ch.Whole {
			a.watch.tell((*meter).finish)
		} else {
			a.watch.tell((*meter).finishPerhaps)
		}
	}
}

// progress tells the clocks, the pacer, the caller and the breaker of new output.
func (a *attempt) progress() {
	a.watch.tell((*meter).output)
	a.paces()
	if !a.answer.json && !a.at.ep.flows.Load() {
		a.at.ep.streamed()
	}
	if req := a.call.req; req != nil && req.OnOutput != nil {
		_, _ = contain(func() (any, error) { req.OnOutput(); return nil, nil })
	}
	a.tellBreaker()
}

// blank reports whether a piece is white space only. Some broken models write it
// for ever, and some proxies send it to keep a connection alive. One blank piece
// after another is no progress.
func blank(ch *chat.Chunk) bool {
	for i := range ch.ToolCalls {
		if c := &ch.ToolCalls[i]; c.ID != "" || c.Name != "" || c.Arguments != "{}" && !invisible(c.Arguments) {
			return false
		}
	}
	return invisible(ch.Content) && invisible(ch.Reasoning) && invisible(ch.Refusal)
}

func invisible(text string) bool {
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
		case '\u200b' <= r && r <= '\u200f', r == '\u2060', r == '\ufeff':
		default:
			return false
		}
	}
	return true
}
