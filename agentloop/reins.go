package agentloop

import (
	"context"
	"sync"
)

// reins are what others can stop a run with.
type reins struct {
	mu   sync.Mutex
	stop context.CancelCauseFunc // the run; nil if it has ended or not begun
	by   error                   // the cause that it was stopped with
	call context.CancelCauseFunc // what it waits for, if that can be stopped alone

	stuckDisk []Abandonment // writes to the journal that were left behind
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

// stoppable returns a context for one call, which the watchdog can end alone
// if it may.
func (r *run) stoppable(ctx context.Context) (context.Context, func()) {
	if r.group.cfg.OnStall != StallRetry {
		return ctx, func() {}
	}
	ctx, stop := context.WithCancelCause(ctx)
	r.callWith(stop)
	return ctx, func() { r.callWith(nil); stop(nil) }
}

// callWith says how the call under way can be stopped alone.
func (r *run) callWith(stop context.CancelCauseFunc) {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	r.reins.call = stop
}

// stallOf returns the stall for which the watchdog ended ctx, or nil.
func stallOf(ctx context.Context) *StallError {
	stall, _ := context.Cause(ctx).(*StallError)
	return stall
}
