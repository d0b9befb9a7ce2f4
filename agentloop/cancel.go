package agentloop

import (
	"context"
	"slices"
	"sync"
	"time"
)

// control is how others stop a run, and what they find out about its user code.
type control struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // the run; nil if it has ended or not begun
	over   bool                    // it has ended
	cause  error                   // the cause that it was stopped with

	running []running     // user code that has not returned
	left    []Abandonment // user code that was left behind
}

// running is user code under way.
type running struct {
	labels callLabels
	in     string
	began  time.Time
}

// enters notes user code that begins. leaves must be called when it returns, however
// late.
func (r *run) enters(x running) {
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	r.control.running = append(r.control.running, x)
}

func (r *run) leaves(x running) {
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	if i := slices.Index(r.control.running, x); i >= 0 {
		r.control.running = slices.Delete(r.control.running, i, i+1)
	}
}

// abandoned returns what was left behind so far.
func (r *run) abandoned() []Abandonment {
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	return slices.Clone(r.control.left)
}

// onCancel sets how the run is stopped from now on; nil means that it has ended. A
// run that was stopped before it began is stopped now.
func (r *run) onCancel(stop context.CancelCauseFunc) {
	r.control.mu.Lock()
	r.control.cancel, r.control.over = stop, stop == nil
	by := r.control.cause
	r.control.mu.Unlock()
	if stop != nil && by != nil {
		stop(by)
	}
}

// cancel stops the run, and reports whether it was still running.
func (r *run) cancel(cause error) bool {
	r.control.mu.Lock()
	stop, over := r.control.cancel, r.control.over
	if !over && r.control.cause == nil {
		r.control.cause = cause
	}
	r.control.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	return !over
}

// cancelledBy returns the cause that cancel was called with, or nil.
func (r *run) cancelledBy() error {
	r.control.mu.Lock()
	defer r.control.mu.Unlock()
	return r.control.cause
}
