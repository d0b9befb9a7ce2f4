package agentloop

import (
	"context"
	"time"
)

const (
	probePause    = time.Second
	maxProbePause = time.Minute
	// probeTime is how long the first probe may show no sign of life before another one
	// starts; each further probe gets twice as long. Only that one call may hang, and a
	// slow server must not get more and more calls. It is also how long output must
	// stream until the endpoint counts as working: a server that hangs may still send a
	// first token.
	probeTime = 30 * time.Second
	// spread is the distance between agents that go on when an endpoint answers again.
	spread    = 20 * time.Millisecond
	maxSpread = 5 * time.Second
)

// gate holds a call back while trouble is systemic. It reports false if ctx ended
// first, and whether the call is the probe.
func (t *systemicTroubles) gate(ctx context.Context, r *run) (ok, probes bool) {
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
			if why := t.explain(told.Endpoint); why != "" { // by now
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
			r.does("held back: the endpoint fails most agents", endsItself)
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

// probeLocked returns when the probe will have been silent for too long, and whether
// its output shows that the endpoint works. After that time the call goes on, but is
// no probe any more. Only output counts: pings are no answer.
func (x *trouble) probeLocked(now time.Time) (late time.Time, works bool) {
	if x.probing == nil {
		return now, false
	}
	first, last := x.probing.liveness.speech()
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

// goOn makes agents that were held back go on at different times.
func (t *systemicTroubles) goOn(ctx context.Context, r *run, others int) bool {
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
