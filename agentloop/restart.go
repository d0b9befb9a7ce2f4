package agentloop

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// inRand names the code of GroupConfig.Rand.
const inRand = "rand"

// pause waits before the agent goes on after a passing fault, or ends it if
// there were too many or the wait does not fit.
func (r *run) pause(ctx context.Context, ans *reply) *ending {
	g := r.group.cfg
	if ans.ofAll { // the group holds it back, as long as the model said at least
		r.res.Restarts++
		r.emit(Event{Kind: EventRestart, Err: ans.err, After: ans.after})
		r.does("pausing after a fault of the model", ends)
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

// again reports whether the run goes on though it came to an end, by the
// group's policy, or since that is a recorded end. If it cannot, end may become
// another one.
func (r *run) again(ctx context.Context, end **ending) bool {
	was := *end
	if e := r.tape.again(); e != nil && e.Outcome == was.outcome {
		fresh, anew := e.Fresh, e.version < 2 // then call ids began anew as well
		r.tape.take()
		r.res.Restarts++
		r.revive(was.outcome, fresh, anew)
		return true
	}
	if r.quiet.Load() && r.tape.stops() && (was.outcome == Stalled || was.outcome == Failed) && !r.unplayable {
		// It ended so before, and whoever runs it anew may have mended what it was
		// for. Its patience begins anew.
		r.tape.take()
		r.revive(was.outcome, false, false)
		return true
	}
	policy, some := r.group.cfg.Restart[was.outcome]
	_, unsaved := was.err.(*unsaved)
	if !some || ctx.Err() != nil || r.prog.complete() || !r.tape.live() || unsaved {
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
	if r.tape != nil {
		e := &entry{Kind: entryAgain, Outcome: was.outcome, Error: was.err.Error(), Fresh: policy.Fresh}
		if err := r.put(ctx, e, false); err != nil {
			*end = &ending{outcome: Failed, err: unsavedError(err)}
			return false
		}
	}
	r.revive(was.outcome, policy.Fresh, false)
	return true
}

// revive makes a run that came to an end ready to go on. The ids of calls go on
// as well, unless anew: tools were told that each is of one call.
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

// parkAfter is from which RetryAfter on the agent gives its turn to another
// one meanwhile.
const parkAfter = maxBackoff

// rest is the pause before restart number n of a row, of at least the given
// time, or the end if that does not fit. fault tells in full what it is for.
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
	r.does("pausing after a fault of the model", ends)
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
	x, lost := guarded(ctx, r, inRand, func(context.Context) float64 { return r.group.cfg.Rand() })
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
