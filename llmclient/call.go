package llmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
)

// A commitment says how much of an answer must have come until an attempt
// commits. Before that, failures are retried unseen. It is the only difference
// between Chat and Stream.
type commitment uint8

const (
	wholeAnswer commitment = iota
	firstOutput
)

// A call is what the caller asked for: one answer, over as many attempts as it
// takes. One goroutine uses it; fields that others read are under mu.
type call struct {
	client *Client
	place  int32 // in its shard of the callTable
	id     uint64
	req    *chat.Request // nil if passed is set
	passed *passthrough  // the request of an SDK above
	cached *endpoint     // that has the conversation in its cache, or nil
	caller string

	parent context.Context // the caller's, with the call's span
	ctx    context.Context // of the present attempt, or of the wait for the next; ends with parent, or by cancel
	cancel context.CancelCauseFunc
	live   bool // ctx has not been ended by us
	span   trace.Span

	started time.Time

	anew   bool       // an endpoint is to be chosen even if the present one is fit
	hasty  bool       // there is no time to wait for an excluded endpoint
	onward *candidate // where the call goes on after a failure, with several endpoints

	last  *kept // the last response to a passed request, if its attempt failed
	retry retrier
	spent time.Duration // of the Call clock

	lastOne struct { // what came of the last attempt
		first   time.Duration // until its first output; 0 if there was none
		outputs int64
	}

	mu       sync.Mutex
	at       *route   // where the present attempt goes, or the next; changed by the call's goroutine
	routes   []*route // all so far; likewise
	home     route    // the first of them
	phase    Phase    // while there is no attempt
	since    time.Time
	current  *attempt
	attempts attempts
	n        int // attempts begun

	over    atomic.Bool // it has ended
	stopped atomic.Bool // it was ended by Close
}

// newCall returns a call without a request.
func newCall(c *Client, ctx context.Context) *call {
	cl := &call{client: c, id: c.lastID.Add(1), started: time.Now(), retry: newRetrier(&c.cfg.Retry, c.random)}
	cl.parent, cl.since = ctx, cl.started
	return cl
}

// renew begins the context of the next attempt and of the wait before it. They
// share one because ending contexts is costly when ten thousand calls are
// cancelled at once.
func (cl *call) renew() { cl.renewIn(cl.parent) }

// renewIn begins such a context, and makes parent the caller's.
func (cl *call) renewIn(parent context.Context) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.parent = parent
	cl.ctx, cl.cancel = context.WithCancelCause(cl.parent)
	cl.live = true
	if cl.stopped.Load() {
		cl.cancel(errClosed)
	}
}

// stop ends the call for Close, unless its caller has.
func (cl *call) stop() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.parent.Err() != nil {
		return
	}
	cl.stopped.Store(true)
	if cl.cancel != nil {
		cl.cancel(errClosed)
	}
}

// gone reports whether the caller has left, or the call was stopped.
func (cl *call) gone() bool {
	err, _ := cl.callersEnd()
	return err != nil
}

// callersEnd returns the error of the caller's context and its cause, or errClosed
// if the call was stopped. It reads them from the call's own context, which both
// end: thousands of calls that read the caller's would contend for its lock.
func (cl *call) callersEnd() (err, cause error) {
	if cl.stopped.Load() {
		return errClosed, errClosed
	}
	switch cause = context.Cause(cl.ctx); cause {
	case nil:
		return nil, nil
	case errExpired, errDrained, errClosed, errSettled:
		return cl.parent.Err(), context.Cause(cl.parent)
	}
	return cl.ctx.Err(), cause
}

// take makes the call one for the answer to req.
func (cl *call) take(req *chat.Request) {
	cl.req, cl.caller = req, req.Caller
	if len(cl.client.eps) > 1 {
		cl.cached = cl.client.prefixes.find(req)
	}
	cl.head(cl.client.choose(cl, cl.started).ep)
}

// encode writes the request's body in the dialect that its endpoint speaks.
func (cl *call) encode() error {
	req, model := cl.req, cl.at.model
	switch n := strings.TrimSpace(string(req.Extra["n"])); {
	case len(req.Messages) == 0 && req.Extra["messages"] == nil:
		return errors.New("it has no messages")
	case model == "" && req.Extra["model"] == nil:
		return errors.New("it names no model, and Config.Model is empty")
	case n != "" && n != "1":
		return fmt.Errorf("its Extra asks for n = %s answers, and a call returns one; make several calls", bounded(n, 20))
	}
	form := cl.at.form
	form.Tools = req.Form().Tools
	body, err := cl.at.ep.encoded.payload(req, form, model, !cl.at.speaks.plain, !cl.at.speaks.plain && !cl.at.speaks.noUsage)
	if err != nil {
		return err
	}
	cl.mu.Lock()
	cl.at.body, cl.at.size = body, body.size
	cl.mu.Unlock()
	cl.at.load = load{
		promptBytes: body.size,
		maxTokens:   min(max(req.MaxTokens, req.MaxCompletionTokens, 0), manyTokens),
		tools:       len(req.Tools) > 0 || asksFor(req.Extra, toolFields...),
		reasoning: req.ReasoningEffort != "" && req.ReasoningEffort != "none" || cl.at.ep.reasoning(cl.at.model) ||
			asksFor(req.Extra, reasoningFields...),
	}
	return nil
}

// manyTokens is more than any answer has. A larger limit in a request means that
// there is none.
const manyTokens = 1_000_000_000

// The members of a request that offer tools or ask for reasoning, including those
// that only one server knows.
var (
	toolFields      = []string{"tools", "functions", "web_search_options"}
	reasoningFields = []string{"thinking", "reasoning", "reasoning_effort", "enable_thinking", "thinking_budget", "think", "chat_template_kwargs"}
)

// asksFor reports whether one of the members is present and not empty.
func asksFor(extra map[string]json.RawMessage, names ...string) bool {
	for _, name := range names {
		switch v := strings.TrimSpace(string(extra[name])); v {
		case "", "null", "false", `"none"`, "[]":
		default:
			return true
		}
	}
	return false
}

// kind returns what makes other calls like this one.
func (cl *call) kind() callKind {
	return callKind{model: cl.at.model, reasoning: cl.at.load.reasoning, size: cl.at.body.size}
}

// run takes a call through its attempts. The order is the policy:
//
//	retry → choose an endpoint → wait for the breaker → pacer permit → breaker pass → attempt → classify → settle
//
// It returns the attempt that committed. Every other has been settled, and so
// has the call if the error is not nil.
func (cl *call) run(want commitment) (*attempt, error) {
	if cl.req != nil && cl.req.Restart {
		if failed := cl.restarted(); failed != nil {
			return nil, cl.fail(failed)
		}
	}
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

// drop ends a call that has not been registered.
func (cl *call) drop() { cl.at.ep.calls.Add(-1) }

// fail ends the call with an error.
func (cl *call) fail(e *Error) error {
	if cl.client.observed() {
		e = e.clone() // what observers were shown of an attempt stays as it was
	}
	e.Attempts, e.AttemptCount, e.out = slices.Clip(cl.attempts.list), cl.attempts.count, cl.attempts.out
	switch e.Kind {
	case ErrTimeout, ErrDeadline, ErrCanceled:
		if e.Deadlines == nil {
			cl.deadlines(e, time.Now(), cl.spent)
		}
	}
	cl.end(e, nil)
	return e
}

// succeed ends the call with the answer of a.
func (cl *call) succeed(a *attempt) { cl.end(nil, a) }

// end is how every call ends, once.
func (cl *call) end(e *Error, a *attempt) {
	if cl.over.Swap(true) {
		return
	}
	if cl.live {
		cl.cancel(errSettled)
	}
	cl.at.ep.tel.endCall(cl, e, a)
	cl.at.ep.calls.Add(-1)
	cl.client.forget(cl)
	if cl.client.observed() {
		cl.tellDone(e)
	}
}

// tellDone tells that the call has ended.
func (cl *call) tellDone(e *Error) {
	ev := cl.event(EventDone)
	ev.After = time.Since(cl.started)
	if e != nil {
		ev.Err, ev.Phase = e, e.Phase
	}
	ev.FirstOutput, ev.Outputs = cl.lastOne.first, cl.lastOne.outputs
	cl.client.notify(ev)
}

// abandon ends a call that its goroutine leaves by a panic.
func (cl *call) abandon() {
	if cl.over.Load() {
		return
	}
	cl.mu.Lock()
	a := cl.current
	cl.mu.Unlock()
	if a != nil {
		a.settle(nil, breaker.Ignored, time.Now())
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
		return cl.current.watch.phase()
	}
	return cl.phase
}

func (cl *call) event(k EventKind) Event {
	cl.mu.Lock()
	n, at := cl.n, cl.at
	size := at.size
	cl.mu.Unlock()
	return Event{
		Kind: k, PromptBytes: size, Endpoint: at.ep.name, Model: at.model, Caller: cl.caller, Call: cl.id, Attempt: n, Phase: cl.where(),
	}
}
