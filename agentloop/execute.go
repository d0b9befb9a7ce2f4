package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// doing says what a wave does.
func doing(calls []*toolCall) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		list[i] = c.Name
	}
	return "running " + some(list)
}

func (r *run) deadline(t *Tool) time.Duration {
	if t.Timeout != 0 {
		return t.Timeout
	}
	if t.RunsAgents {
		return -1
	}
	return r.agent.cfg.ToolTimeout
}

// execute runs one call to its result. It writes to c and to nothing else of the run.
// agents is the context of the agent: the result is recorded even if the watchdog or
// another call of the wave has ended ctx.
func (r *run) execute(agents, ctx context.Context, c *toolCall) {
	r.liveness.runs(c)
	defer r.liveness.ends(c.act)
	if r.recorded(ctx, c) {
		return
	}
	r.wake()
	if !r.intend(ctx, c) {
		return
	}
	r.perform(ctx, c)
	if ctx.Err() != nil {
		ctx = agents
	}
	r.saveResult(ctx, c, false)
}

// perform runs the tool.
func (r *run) perform(ctx context.Context, c *toolCall) {
	in := c.in()
	limit := r.deadline(c.tool)
	ctx, stop, own := r.bounds(ctx, c)
	defer stop()
	ctx = context.WithValue(ctx, callKey{}, c)
	r.emit(Event{Kind: EventToolStarted, Tool: c.Name, CallID: c.ID})
	c.began = time.Now()
	type returned struct {
		text, problem string
		err           error
		fatal         bool
		unsure        bool // it says itself that it does not know what came of it
	}
	args := json.RawMessage(c.Arguments)
	got, lost := guarded(ctx, r, in, func(ctx context.Context) returned {
		text, err := c.tool.Run(ctx, args)
		if err == nil {
			return returned{text: text}
		}
		_, fatal := errors.AsType[*fatalError](err)
		fatal = fatal || c.tool.Fatal
		unsure := !fatal && mayHaveTakenEffect(ctx, err)
		err = asUserError(err)
		return returned{text: text, problem: err.Error(), err: err, fatal: fatal, unsure: unsure}
	})
	c.took = time.Since(c.began)
	c.answered, c.ran, c.lost = true, true, lost
	c.err, c.fatal = got.err, got.fatal
	e := Event{Kind: EventToolEnded, Tool: c.Name, CallID: c.ID, After: c.took, Err: got.err}
	// By identity: a tool of the same name may be further out.
	late := own != nil && expired(ctx) == own
	stall := r.liveness.endedFor(c.act, ctx)
	switch {
	case lost == nil && got.err == nil:
		c.ok, c.text = true, got.text
	case lost == nil && late:
		c.text = fmt.Sprintf("error: %s was stopped after %v without a result: %s", c.Name, limit, got.problem)
	case lost == nil && stall != nil:
		c.text = fmt.Sprintf("error: %s was stopped: it showed no life for %v: %s", c.Name, brief(stall.Silent), got.problem)
	case lost == nil:
		c.text = "error: " + got.problem
	case lost.panicked != nil:
		c.text = fmt.Sprintf("error: %s crashed: %s", c.Name, lost.panicked.value())
		e.Kind, e.Err = EventToolPanicked, lost.err
	case lost.abandoned && late:
		c.text = fmt.Sprintf("error: %s gave no result within %v and does not stop; it may still take effect", c.Name, limit)
		e.Kind, e.Err = EventToolAbandoned, lost.err
	case lost.abandoned && stall != nil:
		c.text = fmt.Sprintf("error: %s showed no life for %v and does not stop; it may still take effect", c.Name, brief(stall.Silent))
		e.Kind, e.Err = EventToolAbandoned, lost.err
	case lost.abandoned:
		c.text = fmt.Sprintf("error: the agent was stopped while %s ran; it may still take effect", c.Name)
		e.Kind, e.Err = EventToolAbandoned, lost.err
	default:
		c.text = fmt.Sprintf("error: %s ended without a result", c.Name)
		e.Err = lost.err
	}
	if lost != nil && c.tool.Fatal {
		c.err, c.fatal = lost.err, true
	}
	if !c.ok && !blank(got.text) {
		c.text += "\nWhat it returned beside the error:\n" + got.text
	}
	c.text = bounded(c.text, r.agent.cfg.MaxResult)
	r.emit(e)
	if !c.ok && c.tool.Effect == EffectOnce && (lost != nil || late || stall != nil || got.unsure) {
		c.uncertain = true
		c.text += fmt.Sprintf("\n[nobody knows whether %s took effect: find out before you call it again]", c.Name)
		r.emit(Event{Kind: EventUncertain, Tool: c.Name, CallID: c.ID, Err: ErrUncertain})
	}
	r.beat(c.act)
}

// mayHaveTakenEffect reports whether a tool that returned err cannot know the outcome
// of its call: the call timed out or was ended. A tool that says in its own words
// that it failed is believed.
func mayHaveTakenEffect(ctx context.Context, err error) bool {
	return errors.Is(err, ErrUncertain) || errors.Is(err, context.DeadlineExceeded) ||
		ctx.Err() != nil && (errors.Is(err, context.Canceled) || same(err, context.Cause(ctx)))
}

// bounds returns the context of a call: with its timeout, or, if it has none, watched
// by the watchdog, which may end the call alone. own is nil if there is no timeout.
func (r *run) bounds(ctx context.Context, c *toolCall) (_ context.Context, stop func(), own *TimeoutError) {
	if limit := r.deadline(c.tool); limit > 0 {
		r.liveness.waits(c.act, endsItself, nil)
		return withLimit(ctx, c.in(), limit, 0)
	}
	ctx, end := r.stoppable(ctx, c.act, stallAfter)
	return ctx, func() { end(nil) }, nil
}

// stoppable returns a context for the next wait of an activity; nil means the main
// one. The watchdog may end that wait alone.
func (r *run) stoppable(ctx context.Context, a *activity, p patience) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	r.liveness.waits(a, p, stop)
	return ctx, stop
}
