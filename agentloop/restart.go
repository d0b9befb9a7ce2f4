package agentloop

import (
	"context"
	"fmt"
	"time"
)

// pause waits before the agent goes on after a passing fault, or ends it if
// there were too many in a row or the wait does not fit.
func (r *run) pause(ctx context.Context, ans *reply) *ending {
	g := r.group.cfg
	r.faults++
	if r.faults > g.Restarts {
		return &ending{outcome: Failed, err: fmt.Errorf("%w (%d passing faults in a row, %d restarts allowed)", ans.err, r.faults, max(0, g.Restarts))}
	}
	d := restartPause(g.Backoff, r.faults, ans.after, g.Rand())
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= d {
		return &ending{outcome: Failed, err: fmt.Errorf("%w (a restart in %v would come after the deadline in %v)", ans.err, d, time.Until(at))}
	}
	r.res.Restarts++
	r.emit(Event{Kind: EventRestart, Err: ans.err, After: d})
	r.pulse.does("pausing after a fault of the model", true)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return r.stopped(ctx, nil)
	}
}

// restartPause is the pause before restart number n of a row, from 1. random
// is in [0,1).
func restartPause(base time.Duration, n int, after time.Duration, random float64) time.Duration {
	d := max(0, base)
	for ; n > 1 && d < maxBackoff; n-- {
		d *= 2
	}
	d = min(d, max(base, maxBackoff))
	// Only ever longer: a server that names a time means it.
	return max(d, after) + time.Duration(random*float64(d)/2)
}
