package agentloop

import (
	"context"
	"time"
)

type limitKey struct{}

// A limit is one of our deadlines in a context, with those around it. Which
// clock ended a context, and whether it was one of ours, is told by these
// pointers and not by the looks of an error: a caller's cause may well wrap a
// DeadlineError of some other run.
type limit struct {
	err *DeadlineError
	at  time.Time
	up  *limit
}

// withLimit bounds ctx, a little before the limit if early is not zero. The
// returned error is the cause if that bound ends it.
func withLimit(ctx context.Context, of string, d, early time.Duration) (context.Context, context.CancelFunc, *DeadlineError) {
	up, _ := ctx.Value(limitKey{}).(*limit)
	l := &limit{err: &DeadlineError{Of: of, Limit: d, Early: early}, at: time.Now().Add(d - early), up: up}
	ctx = context.WithValue(ctx, limitKey{}, l)
	ctx, stop := context.WithDeadlineCause(ctx, l.at, l.err)
	return ctx, stop, l.err
}

// expired returns the limit of ours that ended ctx, or nil.
func expired(ctx context.Context) *DeadlineError {
	cause, ok := context.Cause(ctx).(*DeadlineError)
	if !ok {
		return nil
	}
	for l, _ := ctx.Value(limitKey{}).(*limit); l != nil; l = l.up {
		if l.err == cause {
			return cause
		}
	}
	return nil
}

// pending returns the limit of ours that will end ctx first, and what it
// leaves; nil if there is none, or if a deadline of somebody else comes before
// it.
func pending(ctx context.Context) (*DeadlineError, time.Duration) {
	at, ok := ctx.Deadline()
	if !ok {
		return nil, 0
	}
	for l, _ := ctx.Value(limitKey{}).(*limit); l != nil; l = l.up {
		if l.at.Equal(at) {
			return l.err, time.Until(at)
		}
	}
	return nil, 0
}

// outcome names the end of an agent that had not begun when its context ended.
// Like that of a run it goes by identity, not by errors.As: a caller's cause may be,
// or wrap, what it likes.
func (g *groupRun) outcome(ctx context.Context) Outcome {
	g.mu.Lock()
	halted := g.halted
	g.mu.Unlock()
	switch {
	case expired(ctx) != nil:
		return Exhausted
	case halted != nil && same(halted, context.Cause(ctx)):
		return Failed
	}
	return Cancelled
}

// outcome names the end of an agent whose context has ended.
func (r *run) outcome(ctx context.Context) Outcome {
	if stall, _ := r.cutBy().(*StallError); stall != nil && same(stall, context.Cause(ctx)) {
		return Stalled
	}
	return r.group.outcome(ctx)
}

// hush hides from err that it matches the errors of contexts, unless it may do
// so because of the caller's own context.
func hush(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		if expired(ctx) == nil {
			return err
		}
		return muted(err)
	}
	if _, some := ctx.Deadline(); some {
		if ours, _ := pending(ctx); ours == nil {
			return err
		}
	}
	return muted(err)
}

// A spentError is a limit of ours that leaves too little time to go on after a
// fault. The limit comes first: it is the cause.
type spentError struct {
	limit *DeadlineError
	text  string
	fault error
}

func (e *spentError) Error() string   { return e.text }
func (e *spentError) Unwrap() []error { return []error{e.limit, e.fault} }

// brief rounds a duration for a text.
func brief(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
