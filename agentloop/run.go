package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// The names of user code in panics, abandonments and labels; a tool is
// "tool NAME".
const (
	inModel = "model"
	inDraft = "draft"
)

// A run is one run of an agent. Its fields belong to the goroutine of run,
// except pulse and round, which others read.
type run struct {
	agent *Agent
	group *groupRun
	pulse pulse
	// parent is the run whose tool this one runs in, or nil.
	parent *run
	round  atomic.Int32 // the one under way, from 1

	spent expenses

	hist    *history
	prog    progress
	repeats repeats
	ladder  ladder
	gauge   gauge
	res     Result

	shrinks  int       // of the request under way
	summed   bool      // a summary was just made
	noChoice bool      // the server refuses tool_choice
	faults   int       // passing faults in a row
	first    error     // of those
	asked    time.Time // when the round under way began
}

// An ending is how a run ends. A nil *ending means that it goes on.
type ending struct {
	outcome Outcome
	err     error
	stuck   string // what it waited for, if its context ended it
}

func (r *run) run(ctx context.Context) Result {
	r.res = Result{Name: r.agent.cfg.Name, Started: time.Now()}
	r.hist = newHistory(r.agent.start)
	if r.parent = self(ctx); r.parent != nil {
		r.parent.pulse.adopt(r)
		defer r.parent.pulse.release(r)
	}
	ctx = context.WithValue(ctx, runKey{}, r)
	outer := ctx
	if d := r.agent.cfg.Deadline; d > 0 {
		var stop context.CancelFunc
		ctx, stop, _ = withLimit(ctx, "agent", d)
		defer stop()
	}
	r.emit(Event{Kind: EventStarted})
	end := r.rounds(ctx)
	r.finish(outer, end)
	r.emit(Event{Kind: EventEnded, Outcome: r.res.Outcome, Err: r.res.Err, After: r.res.Duration})
	return r.res
}

// rounds asks and acts until there is an end.
func (r *run) rounds(ctx context.Context) *ending {
	for {
		if ctx.Err() != nil {
			return r.stopped(ctx, nil)
		}
		if b := r.broke(); b != nil {
			return &ending{outcome: Exhausted, err: b}
		}
		resp, end := r.ask(ctx)
		if end != nil {
			return end
		}
		if end := r.act(ctx, resp); end != nil {
			return end
		}
	}
}

// act does what the answer asks for.
func (r *run) act(ctx context.Context, resp *chat.Response) *ending {
	r.res.Rounds++
	r.faults, r.first = 0, nil
	t := readTurn(resp)
	if t.text != "" {
		r.res.Text = t.text
	}
	calls := r.hist.answer(resp.Message)
	if len(calls) > 0 {
		return r.calls(ctx, calls, resp.Message.ToolCalls, t.cut)
	}
	why := t.idle
	switch {
	case why != nil:
	case t.cut != nil:
		why = t.cut
	case len(r.prog.steps) == 0 || r.prog.complete():
		return &ending{outcome: Done}
	default:
		why = ErrStoppedEarly
	}
	end := r.climb(why, t.text)
	if end == nil {
		r.hist.user(chat.User(advice(why, r.prog.next())))
	}
	return end
}

// climb goes one rung up the ladder of remedies for answers of no use.
func (r *run) climb(why error, text string) *ending {
	next := r.prog.next()
	if err := r.ladder.up(why, text, next != nil); err != nil {
		return &ending{outcome: Stalled, err: err}
	}
	r.res.Nudges++
	e := Event{Kind: EventNudged, Err: why}
	if next != nil {
		e.Step = next.Name
	}
	r.emit(e)
	return nil
}

// stopped names the end of a run whose context has ended. lost is not nil if
// user code did not come back for it.
func (r *run) stopped(ctx context.Context, lost *loss) *ending {
	var cause error
	if ours := expired(ctx); ours != nil {
		cause = ours // the agent's own, perhaps: then the group's has not ended
	} else {
		cause = r.group.cause()
	}
	end := &ending{outcomeOf(ctx), cause, r.pulse.state()}
	if lost != nil && lost.abandoned {
		end.outcome, end.err = Abandoned, fmt.Errorf("%w, after %w", lost.err, cause)
	}
	return end
}

// finish completes the result. ctx is the one without the agent's own
// deadline.
func (r *run) finish(ctx context.Context, end *ending) {
	res := &r.res
	if r.prog.complete() && !r.prog.byText && end.outcome != Abandoned {
		end = &ending{outcome: Done} // what came after the work is no part of it
	}
	res.Outcome = end.outcome
	res.Steps = r.prog.taken
	res.Missing = r.prog.missing()
	res.Stuck = end.stuck
	res.Duration = time.Since(res.Started)
	res.Messages = r.hist.msgs
	if slices.ContainsFunc(res.Abandoned, func(a Abandonment) bool { return a.In == inModel }) {
		res.Messages = slices.Clone(res.Messages) // it may still read its request
	}
	if end.outcome != Done {
		missing := ""
		if len(res.Missing) > 0 {
			missing = "; missing " + strings.Join(res.Missing, ", ")
		}
		res.Err = fmt.Errorf("agentloop: agent %q %s: %w%s", res.Name, end.outcome, end.err, missing)
		r.draft(ctx)
		res.Duration = time.Since(res.Started)
	}
	r.does("", ends)
}

// draft lets the agent's hook save what there is.
func (r *run) draft(ctx context.Context) {
	hook := r.agent.cfg.Draft
	if hook == nil {
		return
	}
	r.does("saving a draft", ends)
	ctx, stop, _ := withLimit(context.WithoutCancel(ctx), inDraft, r.group.cfg.DraftDeadline)
	defer stop()
	began := time.Now()
	seen := r.res // the hook may outlive the call
	type saved struct {
		where string
		err   error
	}
	s, lost := guarded(ctx, r.name(), inDraft, r.grace(), func(ctx context.Context) saved {
		where, err := hook(ctx, &seen)
		return saved{where, muted(foreign(err))}
	})
	if lost != nil {
		r.lose(inDraft, "", began, lost)
		s.err = lost.err
		r.res.Messages = slices.Clone(r.res.Messages) // it may still read them
	}
	r.res.Draft, r.res.DraftErr = s.where, s.err
}

// lose keeps the record of user code that did not return.
func (r *run) lose(in, callID string, began time.Time, lost *loss) {
	if lost.panicked != nil {
		r.res.Panics = append(r.res.Panics, lost.panicked)
	}
	if lost.abandoned {
		r.res.Abandoned = append(r.res.Abandoned, Abandonment{In: in, CallID: callID, Started: began, Waited: time.Since(began)})
	}
}

func (r *run) name() string { return r.agent.cfg.Name }

func (r *run) grace() time.Duration { return max(0, r.group.cfg.Grace) }

// emit sends an event of this agent. Any goroutine may.
func (r *run) emit(e Event) {
	e.Agent, e.Round = r.name(), int(r.round.Load())
	r.group.bus.emit(e)
}
