package agentloop

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// The labels of user code in panics, abandonments and profiles; that of a tool is
// "tool NAME".
const (
	inModel = "model"
	inDraft = "draft"
)

// A run is one run of an agent. Its fields belong to the goroutine of run, except
// where noted.
type run struct {
	agent *Agent
	group *groupRun
	// parent is the run whose tool this one runs in, or nil.
	parent *run
	under  *activity // what that does meanwhile; nil for the main thing
	depth  int       // how many there are above it

	liveness liveness                // any goroutine
	round    atomic.Int32            // the one under way, from 1; any goroutine
	outline  atomic.Pointer[outline] // any goroutine
	ended    atomic.Bool             // its end was told; any goroutine
	spent    expenses                // any goroutine
	control  control                 // any goroutine
	quiet    atomic.Bool             // it plays its journal; any goroutine
	placed   atomic.Int32            // places in flight that it holds, of its group and those around that; any goroutine
	replay   *replay                 // nil without a journal

	hist       *history
	prog       progress
	repeats    repeats
	escalation escalation
	tokens     tokenEstimator
	res        Result

	shrinks   int   // of the request under way
	summed    bool  // a summary was just made
	noChoice  error // what the server said that refuses tool_choice
	crashes   int   // of the server at requests with tool_choice, in a row
	trying    bool  // the next request shows whether tool_choice was the cause
	restarted bool  // the next request repeats one that failed
	turnless  bool  // it was parked, and has got no turn again

	doubtful   map[string]bool // tools with a call whose effect nobody knows
	unplayable bool            // a tool failed to replay: the run cannot go on

	faults  int         // passing faults in a row
	first   error       // of those
	passing timesWithin // restarts after passing faults
	policed map[Outcome]*timesWithin
	asked   time.Time // when the round under way began
}

// An outline is what other goroutines may know of a run while it goes on.
type outline struct {
	started        time.Time
	steps, missing []string
	rounds         int
	messages       []chat.Message
}

// startOver puts the run at its beginning.
func (r *run) startOver() {
	c := &r.agent.cfg
	r.prog = newProgress(c.Progression, c.ReadOnly)
	r.escalation = newEscalation(c)
	r.tokens = tokenEstimator{}
}

// run runs the agent to its end. The result is the run's own.
//
// The stack frames from here down to the wait for the model are kept small: each of
// ten thousand waiting agents has them.
func (r *run) run(ctx context.Context) *Result {
	if r.parent = self(ctx); r.parent != nil {
		r.depth = r.parent.depth + 1
		r.under = callOf(ctx, r.parent).within()
		r.parent.liveness.adopt(r, r.under)
		defer r.parent.liveness.release(r)
		if r.under == nil { // its model consists of agents: they make the call now
			r.parent.leavePlace()
		}
	}
	outer := context.WithValue(ctx, runKey{}, r)
	ctx, stop := r.begin(outer)
	defer stop()
	end := r.tooDeep()
	if end == nil {
		end = r.openLog(ctx)
	}
	if end == nil { // never without the journal that it is to have
		end = r.rounds(ctx)
		for r.again(ctx, &end) {
			end = r.rounds(ctx)
		}
	}
	r.conclude(outer, end)
	return &r.res
}

// tooDeep ends an agent that runs too deep in tools of agents. Agents that delegate
// to agents of their own kind would not end otherwise.
func (r *run) tooDeep() *ending {
	if r.depth <= r.group.deepest {
		return nil
	}
	return &ending{outcome: Failed, err: fmt.Errorf("%w: at most %d are allowed: do the work without a further agent", ErrTooDeep, r.group.deepest)}
}

// begin begins the run, and returns its context.
//
//go:noinline
func (r *run) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	r.res.Name, r.res.Started = r.name(), time.Now()
	r.hist = newHistory(r.agent.start)
	r.publish()
	ctx, cut := context.WithCancelCause(ctx)
	r.onCancel(cut)
	stop := func() { cut(nil) }
	if d := r.agent.cfg.Timeout; d > 0 {
		var over context.CancelFunc
		ctx, over, _ = withLimit(ctx, "agent", d, 0)
		stop = func() { over(); cut(nil) }
	}
	r.emit(Event{Kind: EventStarted})
	r.group.troubles.begin(r)
	return ctx, stop
}

// conclude finishes the run and announces its end.
//
//go:noinline
func (r *run) conclude(ctx context.Context, end *ending) {
	r.onCancel(nil)
	r.group.troubles.end(r)
	r.wake()
	r.finish(ctx, end)
	r.closeLog(ctx)
	r.res.Abandoned = r.abandoned()
	if !r.ended.Swap(true) {
		r.emit(Event{Kind: EventEnded, Outcome: r.res.Outcome, Err: r.res.Err, After: r.res.Duration})
	}
}

// publish makes the run's progress visible to others.
func (r *run) publish() {
	r.outline.Store(&outline{r.res.Started, r.prog.taken, r.prog.missing(), r.res.Rounds, r.hist.view()})
}

// rounds asks and acts until there is an end.
func (r *run) rounds(ctx context.Context) *ending {
	for {
		if ctx.Err() != nil {
			return r.stopped(ctx, nil)
		}
		if b := r.broke(); b != nil && !r.replay.goesOn() {
			return &ending{outcome: Exhausted, err: b}
		}
		resp, end := r.ask(ctx)
		if end != nil {
			return end
		}
		if end := r.act(ctx, resp); end != nil {
			return end
		}
		r.publish()
	}
}

// act does what the answer asks for.
func (r *run) act(ctx context.Context, resp *chat.Response) *ending {
	r.res.Rounds++
	r.faults, r.first = 0, nil
	t := r.readTurn(resp)
	if !wordless(t.text) {
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
		r.hist.user(chat.User(r.advice(why)))
	}
	return end
}

// pressing returns the step that is due if the model may be pressed to take it.
// Otherwise it returns a tool of the step whose effect is in doubt: to demand a call
// that may have taken effect could make it happen twice. Then the model finds out, or
// the agent ends without the step.
func (r *run) pressing() (step *Step, doubt string) {
	step = r.prog.next()
	if step == nil {
		return nil, ""
	}
	for _, t := range step.Tools {
		if r.doubtful[t] {
			return nil, t
		}
	}
	return step, ""
}

// advice returns the text for the model after a useless answer.
func (r *run) advice(why error) string {
	step, doubt := r.pressing()
	if doubt != "" {
		return advice(why, nil) + " " + unsure(r.prog.next(), doubt)
	}
	return advice(why, step)
}

// climb takes the next remedy for useless answers, or ends the run.
func (r *run) climb(why error, text string) *ending {
	next := r.prog.next()
	pressing, doubt := r.pressing()
	if err := r.escalation.up(why, text, pressing != nil); err != nil {
		refusal := r.noChoice
		if refusal == nil {
			refusal = r.group.noChoice(r.agent)
		}
		if refusal != nil && pressing != nil {
			err = fmt.Errorf("%w; the server takes no tool_choice: %w", err, muted(refusal))
		}
		if doubt != "" {
			err = fmt.Errorf("%w; it was not pressed, for a call of %s was %w", err, doubt, ErrUncertain)
		}
		if end := r.impatient(&ending{outcome: Stalled, err: err}); end != nil {
			return end
		}
	}
	r.res.Nudges++
	e := Event{Kind: EventNudged, Err: why}
	if next != nil {
		e.Step = next.Name
	}
	r.emit(e)
	return nil
}

// inside reports whether the run is in a tool of another agent of its group.
func (r *run) inside() bool { return r.parent != nil && r.parent.group == r.group }

func (r *run) name() string { return r.agent.cfg.Name }

// grace is how long user code may take to return after its context has ended. At the
// end of the group it leaves time for the draft.
func (r *run) grace() time.Duration {
	d := max(0, r.group.cfg.Grace)
	if r.agent.cfg.Draft != nil {
		d = min(d, r.group.left(2*d)/2)
	}
	return d
}

// emit sends an event of this agent. It may be called on any goroutine.
func (r *run) emit(e Event) {
	if r.quiet.Load() && e.Kind != EventStarted {
		return // it was told then
	}
	e.Agent, e.Round = r.name(), int(r.round.Load())
	r.group.bus.emit(e)
}
