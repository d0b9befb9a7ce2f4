package agentloop

import (
	"context"
	"time"
)

type limitKey struct{}

// A limit is one of our timeouts in a context, with those around it. Which timeout
// ended a context, and whether it was one of ours, is told by comparing these
// pointers, not by errors.As: a caller's cause may wrap a TimeoutError of another
// run.
type limit struct {
	err *TimeoutError
	at  time.Time
	up  *limit
}

// withLimit bounds ctx by d, less early. The returned error is the cause of the
// context if this bound ends it.
func withLimit(ctx context.Context, of string, d, early time.Duration) (context.Context, context.CancelFunc, *TimeoutError) {
	up, _ := ctx.Value(limitKey{}).(*limit)
	l := &limit{err: &TimeoutError{Of: of, Limit: d, Early: early}, at: time.Now().Add(d - early), up: up}
	ctx = context.WithValue(ctx, limitKey{}, l)
	ctx, stop := context.WithDeadlineCause(ctx, l.at, l.err)
	return ctx, stop, l.err
}

// expired returns our limit that ended ctx, or nil.
func expired(ctx context.Context) *TimeoutError {
	cause, ok := context.Cause(ctx).(*TimeoutError)
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

// pending returns our limit that will end ctx first, and the time until then; nil if
// there is none, or if the caller's deadline comes first.
func pending(ctx context.Context) (*TimeoutError, time.Duration) {
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

// outcome is the outcome of an agent that had not begun when its context ended. As
// for a run, limits are compared by identity: a caller's cause may be, or wrap,
// anything.
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

// outcome is the outcome of an agent whose context has ended.
func (r *run) outcome(ctx context.Context) Outcome {
	if stall, _ := r.cancelledBy().(*StallError); stall != nil && same(stall, context.Cause(ctx)) {
		return Stalled
	}
	return r.group.outcome(ctx)
}

// hush makes err no longer match the errors of contexts, unless the caller's own
// context has ended, or its deadline comes first.
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

// A spentError says that a limit of ours leaves too little time to go on after a
// fault. The limit comes first: it is the cause.
type spentError struct {
	limit *TimeoutError
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
