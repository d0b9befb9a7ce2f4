package agentloop

import (
	"context"
	"fmt"
	"math"
	"time"
)

// inRand names the code of GroupConfig.Rand.
const inRand = "rand"

// pause waits before the agent goes on after a passing fault, or ends it if
// there were too many in a row or the wait does not fit.
func (r *run) pause(ctx context.Context, ans *reply) *ending {
	g := r.group.cfg
	r.faults++
	if r.faults == 1 {
		r.first = ans.err
	}
	if r.faults > g.Restarts {
		return r.failed(ctx, ans, fmt.Sprintf(" (%d passing faults in a row, %d restarts allowed)", r.faults, max(0, g.Restarts)))
	}
	d := restartPause(g.Backoff, r.faults, ans.after, r.random(ctx))
	if ctx.Err() != nil { // Rand took its time
		return r.stopped(ctx, nil)
	}
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= d {
		left := time.Until(at)
		fault := r.fault(ctx, ans)
		if ours, _ := pending(ctx); ours != nil {
			return &ending{outcome: Exhausted, err: spent(ours, left, fmt.Sprintf("a restart would take %v", brief(d)), fault)}
		}
		return &ending{outcome: Failed, err: fmt.Errorf("%w (a restart in %v would come after the deadline in %v)", fault, brief(d), brief(left))}
	}
	r.res.Restarts++
	r.emit(Event{Kind: EventRestart, Err: ans.err, After: d})
	r.does("pausing after a fault of the model", ends)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return r.stopped(ctx, nil)
	}
}

// failed ends the run for a fault of the model that no restart mends. If it
// says that it had too little time, and the time is indeed short because of a
// limit of ours, that limit is the cause. A model with a clock of its own says
// the same in the midst of plenty; that is a failure like any other.
func (r *run) failed(ctx context.Context, ans *reply, note string) *ending {
	fault := r.fault(ctx, ans)
	ours, left := pending(ctx)
	if ours != nil && ans.late && left <= max(maxBackoff, time.Since(r.asked)) {
		return &ending{outcome: Exhausted, err: spent(ours, left, "too little for the model", fault)}
	}
	return &ending{outcome: Failed, err: fmt.Errorf("%w%s", fault, note)}
}

// fault is the error of the last try, with the first of the row if that says
// something else: a breaker that is open does not tell what opened it.
func (r *run) fault(ctx context.Context, ans *reply) error {
	last := hush(ctx, ans.err)
	if r.first == nil || r.first.Error() == last.Error() {
		return last
	}
	return fmt.Errorf("%w (the first fault was: %w)", last, hush(ctx, r.first))
}

func spent(ours *DeadlineError, left time.Duration, need string, fault error) error {
	text := fmt.Sprintf("the deadline of %s (%v) leaves %v, %s: %v", ours.Of, ours.Limit, brief(left), need, fault)
	return &spentError{limit: ours, text: text, fault: fault}
}

// random asks Rand, which may answer anything, or nothing.
func (r *run) random(ctx context.Context) float64 {
	began := time.Now()
	x, lost := guarded(ctx, r.name(), inRand, r.grace(), func(context.Context) float64 { return r.group.cfg.Rand() })
	if lost != nil {
		r.lose(inRand, "", began, lost)
		return 0
	}
	if !(x > 0) { // also NaN
		return 0
	}
	return min(x, 1)
}

// restartPause is the pause before restart number n of a row, from 1. random
// is from 0 to 1.
func restartPause(base time.Duration, n int, after time.Duration, random float64) time.Duration {
	d := max(0, base)
	for ; n > 1 && d < maxBackoff; n-- {
		d *= 2
	}
	d = min(d, max(base, maxBackoff))
	// Only ever longer: a server that names a time means it.
	longer := min(d/2, time.Duration(random*float64(d/2)))
	d = max(d, after)
	return d + min(longer, math.MaxInt64-d) // not beyond what a Duration holds
}
