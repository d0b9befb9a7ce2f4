package agentloop

import (
	"context"
	"time"
)

const (
	probePause    = time.Second
	maxProbePause = time.Minute
	// probeTime is how long the first probe may show no life before another one is
	// let through; for each further one it is twice as long. What hangs may be the
	// fate of that one call, and a slow server must not get more and more of them.
	// And so long is output to come until the endpoint is taken to work: what wedges
	// may well give a first word.
	probeTime = 30 * time.Second
	// spread is how far apart agents go on when an endpoint answers again.
	spread    = 20 * time.Millisecond
	maxSpread = 5 * time.Second
)

// gate holds a call back while trouble is systemic. It reports false if ctx ended
// first, and whether the call is the one that probes.
func (t *troubles) gate(ctx context.Context, r *run) (ok, probes bool) {
	if t.cfg.Action != SystemicHold || t.cfg.Share < 0 {
		return true, false
	}
	waited := false
	for {
		t.mu.Lock()
		x := t.of(r.agent)
		if x.told == nil {
			ahead := x.held
			t.mu.Unlock()
			return !waited || t.goOn(ctx, r, ahead), false
		}
		now := time.Now()
		if held := now.Sub(x.began); t.cfg.Limit > 0 && held >= t.cfg.Limit {
			told := *x.told
			told.Held, told.Err = held, x.last
			t.mu.Unlock()
			if why := t.explain(); why != "" { // by now
				told.Explanation = why
			}
			t.stop(&told)
			<-ctx.Done()
			return false, false
		}
		wait := time.Hour
		if t.cfg.Limit > 0 {
			wait = x.began.Add(t.cfg.Limit).Sub(now)
		}
		late, works := x.probeLocked(now)
		if works {
			told := x.overLocked(x.probed)
			t.mu.Unlock()
			t.recovered(told)
			continue
		}
		if x.probing == nil {
			if !now.Before(x.next) {
				x.probing, x.probed = r, now
				t.mu.Unlock()
				return true, true
			}
			wait = min(wait, x.next.Sub(now))
		} else {
			wait = min(wait, late.Sub(now))
		}
		if !waited {
			waited = true
			r.does("held back: the endpoint fails most agents", ends)
		}
		x.held++
		change := x.change
		t.mu.Unlock()

		timer := time.NewTimer(wait)
		select {
		case <-change:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		t.mu.Lock()
		x.held--
		t.mu.Unlock()
		if ctx.Err() != nil {
			return false, false
		}
	}
}

// probeLocked returns when the call that probes will have been silent for as long as
// it may, and whether its output shows that the endpoint works. If it has been silent
// for too long it goes on, but probes no more. Output counts and not life: pings are
// no answer.
func (x *trouble) probeLocked(now time.Time) (late time.Time, works bool) {
	if x.probing == nil {
		return now, false
	}
	first, last := x.probing.pulse.speech()
	if last.Before(x.probed) {
		first, last = x.probed, x.probed
	}
	if last.Sub(first) >= probeTime {
		return now, true
	}
	late = last.Add(x.bear)
	if !late.After(now) {
		x.probing, x.next = nil, now
		x.bear *= 2
	}
	return late, false
}

// goOn spreads those out who were held back.
func (t *troubles) goOn(ctx context.Context, r *run, others int) bool {
	most := min(maxSpread, time.Duration(others+1)*spread)
	timer := time.NewTimer(time.Duration(t.draws(r, ctx) * float64(most)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
