package agentloop

import (
	"context"
	"slices"
	"sync"
	"time"
)

// reins are what others can stop a run with.
type reins struct {
	mu   sync.Mutex
	stop context.CancelCauseFunc // the run; nil if it has ended or not begun
	over bool                    // it has ended
	by   error                   // the cause that it was stopped with

	running []running     // user code that has not returned
	left    []Abandonment // user code that was left behind
}

// running is user code under way.
type running struct {
	labels callLabels
	in     string
	began  time.Time
}

// enters notes user code that begins; it is to be told by leaves when that
// returns, however late.
func (r *run) enters(x running) {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	r.reins.running = append(r.reins.running, x)
}

func (r *run) leaves(x running) {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	if i := slices.Index(r.reins.running, x); i >= 0 {
		r.reins.running = slices.Delete(r.reins.running, i, i+1)
	}
}

// abandoned returns what was left behind so far.
func (r *run) abandoned() []Abandonment {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	return slices.Clone(r.reins.left)
}

// hold says how the run can be stopped from now on; nil that it has ended. Who was
// stopped before it began is stopped now.
func (r *run) hold(stop context.CancelCauseFunc) {
	r.reins.mu.Lock()
	r.reins.stop, r.reins.over = stop, stop == nil
	by := r.reins.by
	r.reins.mu.Unlock()
	if stop != nil && by != nil {
		stop(by)
	}
}

// cut stops the run, and reports whether it had not ended.
func (r *run) cut(cause error) bool {
	r.reins.mu.Lock()
	stop, over := r.reins.stop, r.reins.over
	if !over && r.reins.by == nil {
		r.reins.by = cause
	}
	r.reins.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
	return !over
}

// cutBy returns the cause that the run was stopped with by cut, or nil.
func (r *run) cutBy() error {
	r.reins.mu.Lock()
	defer r.reins.mu.Unlock()
	return r.reins.by
}
