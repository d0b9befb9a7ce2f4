package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An ending is how a run ends. A nil *ending means that it goes on.
type ending struct {
	outcome Outcome
	err     error
	stuck   string // what it waited for, if its context ended it
}

// stopped returns the ending of a run whose context has ended. lost is not nil if
// user code did not return by then.
func (r *run) stopped(ctx context.Context, lost *loss) *ending {
	end := &ending{outcome: r.outcome(ctx), err: r.whyStopped(ctx), stuck: r.liveness.state()}
	if lost != nil && lost.abandoned {
		end.outcome, end.err = Abandoned, fmt.Errorf("%w, after %w", lost.err, end.err)
	}
	return end
}

// whyStopped returns the cause of the end of ctx, as an error whose methods are safe.
func (r *run) whyStopped(ctx context.Context) error {
	if ours := expired(ctx); ours != nil {
		return ours // the agent's own, perhaps: then the group's has not ended
	}
	cause := context.Cause(ctx)
	if by := r.cancelledBy(); by != nil && same(by, cause) {
		return by
	}
	if r.group.ctx.Err() != nil {
		return r.group.cause()
	}
	return contained(cause) // of the tool in which it runs
}

// finish completes the result. ctx is the one without the agent's own timeout.
func (r *run) finish(ctx context.Context, end *ending) {
	res := &r.res
	if r.prog.complete() && !r.prog.byText {
		end = &ending{outcome: Done} // what came after the work is no part of it
	}
	res.Outcome = end.outcome
	res.Steps = r.prog.taken
	res.Missing = r.prog.missing()
	res.Stuck = end.stuck
	res.Duration = time.Since(res.Started)
	res.Messages, res.Abandoned = r.hist.msgs, r.abandoned()
	if slices.ContainsFunc(res.Abandoned, func(a Abandonment) bool { return a.In == inModel }) {
		res.Messages = slices.Clone(res.Messages) // it may still read its request
	}
	if end.outcome == Done {
		res.Missing = nil // even if another configuration was done, before its journal was closed
	} else {
		missing := ""
		if len(res.Missing) > 0 {
			missing = "; missing " + strings.Join(res.Missing, ", ")
		}
		res.Err = fmt.Errorf("agentloop: agent %q %s: %w%s", res.Name, end.outcome, &bareError{end.err}, missing)
		r.draft(ctx)
		res.Duration = time.Since(res.Started)
	}
	r.does("", endsItself)
}

// draft lets the agent's hook save what there is.
func (r *run) draft(ctx context.Context) {
	hook := r.agent.cfg.Draft
	if hook == nil {
		return
	}
	r.does("saving a draft", endsItself)
	limit := min(r.group.cfg.DraftTimeout, r.group.left(time.Hour)-r.grace())
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
		return saved{where, muted(asUserError(err))}
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
	r.leaveBehind(in, callID, began, lost)
}

// leaveBehind keeps the record of user code that was abandoned. It may be called on
// any goroutine.
func (r *run) leaveBehind(in, callID string, began time.Time, lost *loss) {
	if !lost.abandoned {
		return
	}
	a := r.abandonment(in, callID, began, lost.labels)
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	r.control.left = append(r.control.left, a)
}

// abandonment describes user code that is left behind.
func (r *run) abandonment(in, callID string, began time.Time, labels callLabels) Abandonment {
	return Abandonment{
		Agent: r.name(), In: in, CallID: callID, Started: began, Waited: time.Since(began),
		Stack: r.group.stacks.of(labels, time.Now().Add(-r.grace())),
	}
}
