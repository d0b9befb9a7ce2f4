package agentloop

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// inRand labels the code of GroupConfig.Rand.
const inRand = "rand"

// pause waits before the agent goes on after a passing fault. It ends the agent if
// there were too many faults, or if the pause would not end before the deadline.
func (r *run) pause(ctx context.Context, ans *reply) *ending {
	g := r.group.cfg
	if ans.ofAll { // the group holds it back, as long as the model said at least
		r.res.Restarts++
		r.emit(Event{Kind: EventRestart, Err: ans.err, After: ans.after})
		r.does("pausing after a fault of the model", endsItself)
		return r.sleep(ctx, ans.after)
	}
	r.faults++
	if r.faults == 1 {
		r.first = ans.err
	}
	most := max(0, g.Restarts)
	switch {
	case g.RestartsPer > 0:
		if !r.passing.admits(time.Now(), most, g.RestartsPer) {
			return r.failed(ctx, ans, fmt.Sprintf(" (more than %d passing faults within %v)", most, g.RestartsPer))
		}
	case r.faults > most:
		return r.failed(ctx, ans, fmt.Sprintf(" (%d passing faults in a row, %d restarts allowed)", r.faults, most))
	}
	return r.rest(ctx, r.faults, ans.after, ans.err, func() error { return r.fault(ctx, ans) })
}

// again reports whether the run goes on although it came to an end: by the group's
// policy, or because the end is a recorded one. If it cannot, it may replace end.
func (r *run) again(ctx context.Context, end **ending) bool {
	was := *end
	if e := r.replay.again(); e != nil && e.Outcome == was.outcome {
		fresh, anew := e.Fresh, e.version < 2 // then call ids began anew as well
		r.replay.take()
		r.res.Restarts++
		r.revive(was.outcome, fresh, anew)
		return true
	}
	if r.quiet.Load() && r.replay.stops() && (was.outcome == Stalled || was.outcome == Failed) && !r.unplayable {
		// It ended so before. The cause may be mended by now, so its patience begins anew.
		r.replay.take()
		r.revive(was.outcome, false, false)
		return true
	}
	policy, some := r.group.cfg.Restart[was.outcome]
	_, unsaved := was.err.(*unsaved)
	if !some || ctx.Err() != nil || r.prog.complete() || !r.replay.live() || unsaved {
		return false
	}
	if r.policed == nil {
		r.policed = make(map[Outcome]*timesWithin)
	}
	times := r.policed[was.outcome]
	if times == nil {
		times = &timesWithin{}
		r.policed[was.outcome] = times
	}
	if !times.admits(time.Now(), policy.Max, policy.Per) {
		return false
	}
	if other := r.rest(ctx, len(times.at), 0, was.err, func() error { return was.err }); other != nil {
		*end = other
		return false
	}
	if r.replay != nil {
		e := &entry{Kind: entryAgain, Outcome: was.outcome, Error: was.err.Error(), Fresh: policy.Fresh}
		if err := r.put(ctx, e, false); err != nil {
			*end = &ending{outcome: Failed, err: unsavedError(err)}
			return false
		}
	}
	r.revive(was.outcome, policy.Fresh, false)
	return true
}

// revive makes a run that came to an end ready to go on. The ids of calls go on as
// well, unless anew is true: tools rely on an id for one call only.
func (r *run) revive(from Outcome, fresh, anew bool) {
	r.calm()
	r.faults, r.first = 0, nil
	r.restarted = from == Failed
	switch {
	case fresh:
		old := r.hist
		r.hist = newHistory(r.agent.start)
		if !anew {
			r.hist.after(old)
		}
		r.startOver()
	case r.hist.last().Role == chat.RoleAssistant:
		r.hist.user(chat.User(r.advice(ErrStoppedEarly)))
	}
}

// parkAfter is the RetryAfter from which on the agent gives its turn to another one
// meanwhile.
const parkAfter = maxBackoff

// rest makes the pause before restart number n of a row, at least after long, or
// returns the end if the pause does not fit. fault describes in full the reason of
// the pause.
func (r *run) rest(ctx context.Context, n int, after time.Duration, err error, fault func() error) *ending {
	d := restartPause(r.group.cfg.Backoff, n, after, r.random(ctx))
	if ctx.Err() != nil { // Rand took its time
		return r.stopped(ctx, nil)
	}
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= d {
		left := time.Until(at)
		if ours, _ := pending(ctx); ours != nil {
			return &ending{outcome: Exhausted, err: spent(ours, left, fmt.Sprintf("a restart would take %v", brief(d)), fault())}
		}
		return &ending{outcome: Failed, err: fmt.Errorf("%w (a restart in %v would come after the deadline in %v)", fault(), brief(d), brief(left))}
	}
	r.res.Restarts++
	parked := after > parkAfter
	kind := EventRestart
	if parked {
		kind = EventParked
	}
	r.emit(Event{Kind: kind, Err: err, After: d})
	r.does("pausing after a fault of the model", endsItself)
	if parked && !r.inside() {
		r.group.turns.give()
		defer func() { r.turnless = !r.group.turns.take(ctx, true, nil) }()
	}
	return r.sleep(ctx, d)
}

func (r *run) sleep(ctx context.Context, d time.Duration) *ending {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return r.stopped(ctx, nil)
	}
}

// failed ends the run for a fault that no restart mends. If the model says that it
// had too little time, and a limit of ours is indeed close, that limit is the cause.
// Otherwise it was a timeout of the model's own, which is a failure like any other.
func (r *run) failed(ctx context.Context, ans *reply, note string) *ending {
	fault := r.fault(ctx, ans)
	ours, left := pending(ctx)
	if ours != nil && ans.late && left <= max(maxBackoff, time.Since(r.asked)) {
		return &ending{outcome: Exhausted, err: spent(ours, left, "too little for the model", fault)}
	}
	return &ending{outcome: Failed, err: fmt.Errorf("%w%s", fault, note)}
}

// fault is the error of the last try, with the first one of the row if that differs:
// an open breaker does not say what opened it.
func (r *run) fault(ctx context.Context, ans *reply) error {
	last := hush(ctx, ans.err)
	if r.first == nil || r.first.Error() == last.Error() {
		return last
	}
	return fmt.Errorf("%w (the first fault was: %w)", last, hush(ctx, r.first))
}

func spent(ours *TimeoutError, left time.Duration, need string, fault error) error {
	text := fmt.Sprintf("the deadline of %s (%v) leaves %v, %s: %v", ours.Of, ours.Limit, brief(left), need, fault)
	return &spentError{limit: ours, text: text, fault: fault}
}

// random asks Rand, which may return any number, panic or hang.
func (r *run) random(ctx context.Context) float64 {
	began := time.Now()
	x, lost := guarded(ctx, r, inRand, func(context.Context) float64 { return r.group.cfg.Rand() })
	if lost != nil {
		r.lose(inRand, "", began, lost)
		return 0
	}
	if !(x > 0) { // true for NaN as well
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
	// Only longer: a server that names a time means it.
	longer := min(d/2, time.Duration(random*float64(d/2)))
	d = max(d, after)
	return d + min(longer, math.MaxInt64-d) // not beyond what a Duration holds
}
