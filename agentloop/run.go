package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
// except those that say so.
type run struct {
	agent *Agent
	group *groupRun
	// parent is the run whose tool this one runs in, or nil.
	parent *run

	pulse   pulse                   // any goroutine
	round   atomic.Int32            // the one under way, from 1; any goroutine
	outline atomic.Pointer[outline] // any goroutine
	ended   atomic.Bool             // its end was told; any goroutine
	spent   expenses                // any goroutine
	reins   reins                   // any goroutine
	foreign atomic.Int32            // user code that has not returned; any goroutine
	quiet   atomic.Bool             // it plays its journal; any goroutine
	tape    *tape                   // nil without a journal

	hist    *history
	prog    progress
	repeats repeats
	ladder  ladder
	gauge   gauge
	res     Result

	shrinks   int  // of the request under way
	summed    bool // a summary was just made
	noChoice  bool // the server refuses tool_choice
	restarted bool // the next request repeats one that failed
	turnless  bool // it was parked, and has got no turn again

	faults  int         // passing faults in a row
	first   error       // of those
	passing timesWithin // restarts after passing faults
	policed map[Outcome]*timesWithin
	asked   time.Time // when the round under way began
}

// An outline is what others may know of a run while it goes on.
type outline struct {
	started        time.Time
	steps, missing []string
	rounds         int
	messages       []chat.Message
}

// reins are what others can stop a run with.
type reins struct {
	mu   sync.Mutex
	stop context.CancelCauseFunc // the run; nil if it has ended or not begun
	by   error                   // the cause that it was stopped with
	call context.CancelCauseFunc // what it waits for, if that can be stopped alone

	stuckDisk []Abandonment // writes to the journal that were left behind
}

// An ending is how a run ends. A nil *ending means that it goes on.
type ending struct {
	outcome Outcome
	err     error
	stuck   string // what it waited for, if its context ended it
}

// startOver puts the run at its beginning.
func (r *run) startOver() {
	c := &r.agent.cfg
	r.prog = newProgress(c.Progression, c.ReadOnly)
	r.ladder = newLadder(c)
	r.gauge = gauge{}
}

// run runs the agent to its end. The result is the run's own.
func (r *run) run(ctx context.Context) *Result {
	r.res = Result{Name: r.agent.cfg.Name, Started: time.Now()}
	r.hist = newHistory(r.agent.start)
	r.publish()
	if r.parent = self(ctx); r.parent != nil {
		r.parent.pulse.adopt(r)
		defer r.parent.pulse.release(r)
	}
	ctx = context.WithValue(ctx, runKey{}, r)
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.hold(stop)
	if d := r.agent.cfg.Deadline; d > 0 {
		var stop context.CancelFunc
		ctx, stop, _ = withLimit(ctx, "agent", d, 0)
		defer stop()
	}
	r.emit(Event{Kind: EventStarted})
	r.group.troubles.begin(r)
	end := r.openTape(ctx)
	if end == nil {
		end = r.rounds(ctx)
	}
	for r.again(ctx, &end) {
		end = r.rounds(ctx)
	}
	r.hold(nil)
	r.group.troubles.end(r)
	r.wake()
	r.finish(outer, end)
	r.closeTape(outer)
	r.reins.mu.Lock()
	r.res.Abandoned = append(r.res.Abandoned, r.reins.stuckDisk...)
	r.reins.mu.Unlock()
	if !r.ended.Swap(true) {
		r.emit(Event{Kind: EventEnded, Outcome: r.res.Outcome, Err: r.res.Err, After: r.res.Duration})
	}
	return &r.res
}

// hold says how the run can be stopped from now on.
func (r *run) hold(stop context.CancelCauseFunc) {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	r.reins.stop = stop
}

// cut stops the run, and reports whether it had not ended.
func (r *run) cut(cause error) bool {
	r.reins.mu.Lock()
	stop := r.reins.stop
	if stop != nil && r.reins.by == nil {
		r.reins.by = cause
	}
	r.reins.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	return stop != nil
}

// cutBy returns the cause that the run was stopped with by cut, or nil.
func (r *run) cutBy() error {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	return r.reins.by
}

// publish lets others know how far the run is.
func (r *run) publish() {
	r.outline.Store(&outline{r.res.Started, r.prog.taken, r.prog.missing(), r.res.Rounds, r.hist.view()})
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
		r.publish()
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
	end := &ending{outcomeOf(ctx), r.whyStopped(ctx), r.pulse.state()}
	if lost != nil && lost.abandoned {
		end.outcome, end.err = Abandoned, fmt.Errorf("%w, after %w", lost.err, end.err)
	}
	return end
}

// whyStopped returns the cause of the end of ctx, in a form that does no harm.
func (r *run) whyStopped(ctx context.Context) error {
	if ours := expired(ctx); ours != nil {
		return ours // the agent's own, perhaps: then the group's has not ended
	}
	cause := context.Cause(ctx)
	if by := r.cutBy(); by != nil && same(by, cause) {
		return by
	}
	if r.group.ctx.Err() != nil {
		return r.group.cause()
	}
	return contained(cause) // of the tool in which it runs
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
	limit := min(r.group.cfg.DraftDeadline, r.group.left(time.Hour)-r.grace())
	ctx, stop, _ := withLimit(context.WithoutCancel(ctx), inDraft, max(limit, time.Millisecond), 0)
	defer stop()
	began := time.Now()
	seen := r.res // the hook may outlive the call
	type saved struct {
		where string
		err   error
	}
	s, lost := guarded(ctx, r, inDraft, func(ctx context.Context) saved {
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
		r.res.Abandoned = append(r.res.Abandoned, r.abandonment(in, callID, began, lost))
	}
}

// abandonment tells of user code that was left behind.
func (r *run) abandonment(in, callID string, began time.Time, lost *loss) Abandonment {
	return Abandonment{
		Agent: r.name(), In: in, CallID: callID, Started: began, Waited: time.Since(began),
		Stack: r.group.stacks.of(lost.labels, time.Now().Add(-r.grace())),
	}
}

func (r *run) name() string { return r.agent.cfg.Name }

func (r *run) grace() time.Duration { return max(0, r.group.cfg.Grace) }

// emit sends an event of this agent. Any goroutine may.
func (r *run) emit(e Event) {
	if r.quiet.Load() && e.Kind != EventStarted {
		return // it was told then
	}
	e.Agent, e.Round = r.name(), int(r.round.Load())
	r.group.bus.emit(e)
}
