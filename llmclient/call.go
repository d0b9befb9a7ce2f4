package llmclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// A commitment says how much of an answer must have come before an attempt is
// the one that counts. Until then failures are retried unseen. It is all that
// Chat and Stream differ in.
type commitment uint8

const (
	wholeAnswer commitment = iota
	firstOutput
)

// A call is what the caller asked for: one answer, over as many attempts as it
// takes. It is used by one goroutine; what others look at is under mu.
type call struct {
	client *Client
	id     uint64
	req    *chat.Request
	model  string
	caller string

	ctx    context.Context // ends with the caller's, or by cancel
	cancel context.CancelCauseFunc
	span   trace.Span

	speaks  dialect // in which body is encoded
	body    []byte
	load    load
	started time.Time

	retry   retrier
	spent   time.Duration // of the Call clock
	renewed bool          // a dead pooled connection has been forgiven

	mu       sync.Mutex
	phase    Phase // while there is no attempt
	since    time.Time
	current  *attempt
	attempts []Attempt
	n        int // attempts begun
	over     bool
}

func newCall(c *Client, ctx context.Context, req *chat.Request) *call {
	cl := &call{
		client: c, id: c.lastID.Add(1), req: req, model: req.Model, caller: req.Caller,
		started: time.Now(), retry: newRetrier(c.cfg.Retry),
	}
	cl.since = cl.started
	if cl.model == "" {
		cl.model = c.cfg.Model
	}
	cl.ctx, cl.cancel = context.WithCancelCause(ctx)
	return cl
}

// encode writes the request's body in the dialect that the endpoint speaks.
func (cl *call) encode() error {
	req := *cl.req
	req.Model = cl.model
	switch n := string(req.Extra["n"]); {
	case len(req.Messages) == 0 && req.Extra["messages"] == nil:
		return errors.New("it has no messages")
	case req.Model == "" && req.Extra["model"] == nil:
		return errors.New("it names no model, and Config.Model is empty")
	case n != "" && n != "1":
		return fmt.Errorf("its Extra asks for n = %s answers, and a call returns one; make several calls", bounded(n, 20))
	}
	cl.speaks = cl.client.ep.speaks()
	body, err := req.AppendJSON(nil, !cl.speaks.plain, !cl.speaks.plain && !cl.speaks.noUsage)
	if err != nil {
		return err
	}
	cl.body = body
	effort := req.ReasoningEffort
	_, thinks := req.Extra["thinking"]
	_, reasons := req.Extra["reasoning"]
	cl.load = load{
		promptBytes: len(body),
		maxTokens:   max(req.MaxTokens, req.MaxCompletionTokens),
		tools:       len(req.Tools) > 0 || req.Extra["tools"] != nil,
		reasoning:   effort != "" && effort != "none" || thinks || reasons || cl.client.ep.reasoning(cl.model),
	}
	return nil
}

// run is the journey of a call. The order is the policy:
//
//	retry → wait for the breaker → pacer permit → breaker pass → attempt → classify → settle
//
// It returns the attempt that committed. Every other has been settled, and so
// has the call if the error is not nil.
func (cl *call) run(want commitment) (*attempt, error) {
	for {
		permit, pass, failed := cl.admission()
		if failed != nil {
			return nil, cl.fail(failed)
		}
		a := cl.attempt(permit, pass)
		failed, r := a.commit(want)
		if failed == nil {
			return a, nil
		}
		if failed = cl.again(failed, r); failed != nil {
			return nil, cl.fail(failed)
		}
	}
}

// admission waits until the next attempt may be sent.
func (cl *call) admission() (*pacer.Permit, *breaker.Pass, *Error) {
	for {
		if failed := cl.awaitBreaker(); failed != nil {
			return nil, nil, failed
		}
		permit, failed := cl.awaitPermit()
		if failed != nil {
			return nil, nil, failed
		}
		pass, err := cl.client.ep.breaker.Acquire()
		if err == nil {
			return permit, pass, nil
		}
		permit.Return() // nothing was sent: place and tokens go back
		if cl.client.cfg.FailFast {
			return nil, nil, cl.open(err)
		}
	}
}

func (cl *call) awaitBreaker() *Error {
	b := cl.client.ep.breaker
	if s := b.Stats(); s.State == breaker.Closed && s.Waiting == 0 && cl.ctx.Err() == nil {
		return nil // nobody waits who would be overtaken
	}
	if cl.client.cfg.FailFast {
		if s := b.Stats(); s.State == breaker.Open && time.Now().Before(s.Retry) {
			return cl.open(&breaker.OpenError{
				Name: cl.client.ep.name, State: s.State, Since: s.Since, Open: time.Since(s.Since),
				Retry: s.Retry, Within: time.Until(s.Retry),
			})
		}
		return nil
	}
	cl.enter(PhaseBreaker)
	ctx, cancel := cl.withinCall()
	defer cancel()
	start := time.Now()
	err := b.Wait(ctx)
	cl.spent += time.Since(start)
	switch {
	case err == nil:
		return nil
	case cl.ctx.Err() != nil:
		return cl.ended()
	case ctx.Err() != nil:
		return cl.exhausted(err)
	}
	return cl.open(err) // the next trial comes too late
}

func (cl *call) awaitPermit() (*pacer.Permit, *Error) {
	p := cl.client.ep.pacer
	cl.enter(PhaseQueue)
	if left, bounded := cl.left(); bounded {
		// A pause that the endpoint asked for and that is longer than the call
		// may last is not waited for: the caller can do better than we.
		if until := p.Stats().CoolDownUntil; !until.IsZero() && time.Until(until) > left {
			e := cl.error(ErrThrottled, fmt.Sprintf("%s asked for a pause that lasts %v more, and the call may take %v (clock Call)",
				cl.client.ep.name, round(time.Until(until)), round(left)))
			e.retryable, e.retryAfter = true, time.Until(until)
			return nil, e
		}
	}
	limit := cl.client.cfg.Clocks.bounds(load{})[iQueue].limit
	ctx, cancel := within(cl.ctx, limit)
	defer cancel()
	permit, err := p.Acquire(ctx)
	if err == nil {
		return permit, nil
	}
	if cl.ctx.Err() != nil {
		return nil, cl.ended()
	}
	if ctx.Err() != nil {
		e := cl.error(ErrTimeout, fmt.Sprintf("the call waited %v for our own pacer (clock Queue)", limit))
		e.Clock, e.Bound, e.retryable = ClockQueue, limit, true
		return nil, e
	}
	e := cl.error(ErrQueue, "the pacer did not admit the call: "+err.Error())
	e.retryable = true
	var late *pacer.WaitError
	if errors.As(err, &late) {
		e.retryAfter = late.Wait
		if late.For == pacer.CoolDown {
			e.Kind = ErrThrottled
		}
		if at, ok := cl.ctx.Deadline(); !ok || limit > 0 && time.Now().Add(limit).Before(at) {
			return nil, e // it is our clock that it does not fit: not the caller's deadline
		}
	}
	e.causes = append(e.causes, err)
	return nil, e
}

// again decides what follows a failed attempt. It returns nil when it is time
// to try again, and the error of the call when it is not.
func (cl *call) again(e *Error, r ruling) *Error {
	cl.retry.last = e
	switch {
	case r.stale && !cl.renewed:
		// A pooled connection had died while nobody used it. Others of its age
		// will have too.
		cl.renewed = true
		cl.client.wire.renew()
		return nil
	case r.adapted:
		if err := cl.encode(); err != nil {
			return e
		}
		return nil
	case !e.retryable || e.Clock == ClockCall || !cl.retry.allows(e):
		return e
	}
	wait := cl.retry.wait(r)
	need := wait
	if e.Kind == ErrTimeout {
		// What has just stalled may stall again: without the time in which
		// that would show, another try only adds to the server's load.
		need += cl.client.cfg.Clocks.bounds(cl.load)[iFirstOutput].suspect
	}
	if left, bounded := cl.left(); bounded && need > left {
		e.text += fmt.Sprintf("; there is no time for another try: it would take %v or more, and the call has %v left (clock Call)",
			round(need), round(left))
		return e
	}
	if at, ok := cl.ctx.Deadline(); ok && cl.ctx.Err() == nil && need >= time.Until(at) {
		e.text += fmt.Sprintf("; there is no time for another try: it would take %v or more, and the caller's deadline leaves %v",
			round(need), round(time.Until(at)))
		e.causes = append(e.causes, context.DeadlineExceeded)
		return e
	}
	ev := cl.event(EventRetry)
	ev.Wait, ev.Err = wait, e
	cl.client.notify(ev)
	return cl.backoff(wait)
}

// backoff waits. It returns nil, or how the caller ended the call meanwhile.
func (cl *call) backoff(wait time.Duration) *Error {
	cl.enter(PhaseBackoff)
	start := time.Now()
	t := time.NewTimer(wait)
	defer t.Stop()
	defer func() { cl.spent += time.Since(start) }()
	select {
	case <-t.C:
		return nil
	case <-cl.ctx.Done():
		return cl.ended()
	}
}

// left returns what the Call clock leaves, if it is bounded.
func (cl *call) left() (time.Duration, bool) {
	limit := cl.client.cfg.Clocks.bounds(load{})[iCall].limit
	return max(0, limit-cl.spent), limit > 0
}

// withinCall returns a context that ends with the Call clock at the latest.
func (cl *call) withinCall() (context.Context, context.CancelFunc) {
	left, bounded := cl.left()
	if bounded && left == 0 {
		left = 1 // not zero, which would be no bound
	}
	return within(cl.ctx, left)
}

// within is context.WithTimeout where zero is no limit.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// error returns an error of the call that is no attempt's.
func (cl *call) error(k Kind, text string) *Error {
	e := &Error{Kind: k, Phase: cl.where(), Endpoint: cl.client.ep.name, Model: cl.model, text: text}
	if last := cl.retry.last; last != nil {
		e.Status, e.Code, e.Message, e.RequestID = last.Status, last.Code, last.Message, last.RequestID
		e.Partial = last.Partial
		e.causes = append(e.causes, last)
		if !cl.sending() {
			e.text += "; before that, " + last.text
		}
	}
	return e
}

// ended returns the error of a call that its caller ended, or Close.
func (cl *call) ended() *Error {
	k := ctxKind(cl.ctx)
	after := round(time.Since(cl.started))
	var text string
	switch k {
	case ErrClosed:
		text = fmt.Sprintf("the client was closed %v into the call, in phase %s", after, cl.where())
	case ErrDeadline:
		text = fmt.Sprintf("the caller's deadline passed %v into the call, in phase %s", after, cl.where())
	default:
		text = fmt.Sprintf("the caller cancelled the call after %v, in phase %s", after, cl.where())
	}
	e := cl.error(k, text)
	if k != ErrClosed {
		e.causes = append([]error{cl.ctx.Err()}, e.causes...)
		if cause := context.Cause(cl.ctx); cause != nil && cause != cl.ctx.Err() {
			e.causes = append(e.causes, cause)
		}
	}
	return e
}

// exhausted returns the error of a call whose own clock ran out between
// attempts.
func (cl *call) exhausted(err error) *Error {
	limit := cl.client.cfg.Clocks.bounds(load{})[iCall].limit
	e := cl.error(ErrTimeout, fmt.Sprintf("no answer from %s within %v (clock Call), the last of it in phase %s",
		cl.client.ep.name, limit, cl.where()))
	e.Clock, e.Bound, e.retryable = ClockCall, limit, true
	if errors.Is(err, breaker.ErrOpen) || cl.where() == PhaseBreaker {
		e.causes = append(e.causes, breaker.ErrOpen)
	}
	return e
}

// open returns the error of a call that the breaker keeps from being sent.
func (cl *call) open(err error) *Error {
	e := cl.error(ErrOpen, "the circuit breaker keeps the call back: "+err.Error())
	e.retryable = true
	var refused *breaker.OpenError
	var late *breaker.WaitError
	switch at, ok := cl.ctx.Deadline(); {
	case errors.As(err, &refused):
		e.retryAfter = refused.Within
		e.causes = append(e.causes, err)
	case errors.As(err, &late):
		e.retryAfter = late.Wait
		e.causes = append(e.causes, breaker.ErrOpen)
		if ok && time.Until(at) <= late.Left {
			e.causes = append(e.causes, context.DeadlineExceeded)
		}
	}
	return e
}

// fail ends the call with an error.
func (cl *call) fail(e *Error) error {
	cl.mu.Lock()
	e.Attempts = append([]Attempt(nil), cl.attempts...)
	cl.mu.Unlock()
	cl.end(e, nil)
	return e
}

// succeed ends the call with the answer of a.
func (cl *call) succeed(a *attempt) { cl.end(nil, a) }

// end is how every call ends, once.
func (cl *call) end(e *Error, a *attempt) {
	cl.mu.Lock()
	over := cl.over
	cl.over = true
	cl.mu.Unlock()
	if over {
		return
	}
	cl.cancel(nil)
	cl.client.tel.endCall(cl, e, a)
	cl.client.forget(cl)
	ev := cl.event(EventDone)
	ev.After = time.Since(cl.started)
	if e != nil {
		ev.Err, ev.Phase = e, e.Phase
	}
	cl.client.notify(ev)
}

// abandon ends a call that its goroutine leaves by a panic.
func (cl *call) abandon() {
	cl.mu.Lock()
	a, over := cl.current, cl.over
	cl.mu.Unlock()
	if over {
		return
	}
	if a != nil {
		a.settle(nil, breaker.Ignored)
	}
	_ = cl.fail(cl.error(ErrClosed, "the call was left by a panic"))
}

// enter notes that the call is in a phase outside of attempts.
func (cl *call) enter(p Phase) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.current = nil
	cl.phase, cl.since = p, time.Now()
}

// sending reports whether an attempt is under way.
func (cl *call) sending() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.current != nil
}

// where returns the phase in which the call is.
func (cl *call) where() Phase {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.current != nil {
		m, _ := cl.current.watch.look()
		return m.phase
	}
	return cl.phase
}

func (cl *call) event(k EventKind) Event {
	cl.mu.Lock()
	n := cl.n
	cl.mu.Unlock()
	return Event{Kind: k, Model: cl.model, Caller: cl.caller, Call: cl.id, Attempt: n, Phase: cl.where()}
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}
