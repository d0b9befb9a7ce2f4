package agentloop

import (
	"context"
	"time"
)

// A stalled activity has shown no sign of life for too long.
type stalled struct {
	*activity
	tool, id string
	patience patience // that was exhausted
	err      *StallError
}

// A glimpse is the watchdog's view of an activity.
type glimpse struct {
	act      *activity
	until    time.Time // when it will have been silent for as long as it may
	children []*run    // that run in it
	told     bool
}

// glimpses appends the present activities of the agent.
func (r *run) glimpses(now time.Time, list []glimpse) []glimpse {
	p := &r.liveness
	p.mu.Lock()
	defer p.mu.Unlock()
	acts := p.tools
	if len(acts) == 0 {
		var one [1]*activity
		acts = append(one[:0], &p.main)
	}
	for _, a := range acts {
		s := glimpse{act: a, until: a.silentUntil(r.group.window(a.patience)), told: a.told}
		if p.main.doing == "" || a.patience == endsItself {
			s.until = now.Add(r.group.window(stallAfter))
		}
		for c, in := range p.children {
			if in == a || in == nil && a == &p.main {
				s.children = append(s.children, c)
			}
		}
		list = append(list, s)
	}
	return list
}

// well returns until when an activity is well if it shows no further sign of life.
// Children speak for it: if a child waits for a slow model, or runs a long tool
// within its timeout, the parent is silent and well.
func (s *glimpse) well(now time.Time) time.Time {
	until := s.until
	for _, c := range s.children {
		var few [4]glimpse
		for _, x := range c.glimpses(now, few[:0]) {
			if at := x.well(now); at.After(until) {
				until = at
			}
		}
	}
	return until
}

// stalled returns the activities that have been silent for too long and were not
// announced yet, and when to look again. An activity that waits for another agent of
// the group is not announced: that agent is.
func (r *run) stalled(now time.Time) (list []stalled, next time.Time) {
	var few [4]glimpse
	window := r.group.window(stallAfter)
	next = now.Add(window)
	for _, s := range r.glimpses(now, few[:0]) {
		until := s.well(now)
		if until.After(now) {
			if until.Before(next) {
				next = until
			}
			continue
		}
		inner := false
		for _, c := range s.children {
			inner = inner || c.group == r.group
		}
		if s.told || inner {
			continue
		}
		if x, yes := r.accuse(s.act, now); yes {
			list = append(list, x)
		}
	}
	return list, next
}

// accuse marks an activity as announced, unless it has just shown a sign of life.
func (r *run) accuse(a *activity, now time.Time) (stalled, bool) {
	p := &r.liveness
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.told || a.over || p.main.doing == "" || a.patience == endsItself || a.silentUntil(r.group.window(a.patience)).After(now) {
		return stalled{}, false
	}
	a.told = true
	x := stalled{activity: a, patience: a.patience, err: &StallError{Silent: now.Sub(a.life), State: p.stateLocked(a, now)}}
	if a.call != nil {
		x.tool, x.id = a.call.Name, a.call.ID
	}
	return x, true
}

// window is how long an activity may show no sign of life.
//
// A model call gets twice the time of the slowest answered call of the group, if that
// is longer: a slow model is not a dead one. Tools do not depend on the model's pace.
func (g *groupRun) window(p patience) time.Duration {
	w := g.cfg.StallAfter
	if w < 0 {
		w = defaultStallAfter // asked by the watchdog of a parent
	}
	if p == modelPace {
		w = max(w, 2*time.Duration(g.slowest.Load()))
	}
	return w
}

// shortestWatch is the least time between two looks of the watchdog.
const shortestWatch = time.Millisecond

// watch announces each silent activity once, and again only if it showed a sign of
// life in between. It acts after all are announced.
func (g *groupRun) watch(ctx context.Context) {
	if g.cfg.StallAfter < 0 {
		return
	}
	window := g.window(stallAfter)
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		next := now.Add(window)
		var all []stalled
		var of []*run
		for _, r := range g.started() {
			list, due := r.stalled(now)
			for range list {
				of = append(of, r)
			}
			all = append(all, list...)
			if due.Before(next) {
				next = due
			}
		}
		if len(all) > 0 {
			said := make(map[string]string) // of each endpoint it is asked once
			for i := range all {
				endpoint := of[i].agent.endpoint
				why, asked := said[endpoint]
				if !asked {
					why = g.explain(ctx, endpoint)
					said[endpoint] = why
				}
				all[i].err.Explanation = why
				g.tell(of[i], &all[i], now)
			}
			for i := range all {
				g.actOn(of[i], &all[i])
			}
		}
		// At most once in a hundredth of the window: a look at thousands of agents serves
		// all that are due, and the watchdog must not spin.
		timer.Reset(max(time.Until(next), window/100, shortestWatch))
	}
}

// tell announces a stall.
func (g *groupRun) tell(r *run, s *stalled, now time.Time) {
	g.stalls.Add(1)
	r.emit(Event{
		Kind: EventStalled, Tool: s.tool, CallID: s.id, Text: explained(s.err.State, s.err.Explanation), After: s.err.Silent, Err: s.err,
	})
	if s.patience == modelPace {
		g.troubles.silent(r, now.Add(-s.err.Silent))
	}
}

// actOn applies OnStall to a stall.
func (g *groupRun) actOn(r *run, s *stalled) {
	if g.cfg.OnStall == StallReport {
		return
	}
	stop, still := r.liveness.condemn(s.activity, s.err)
	switch {
	case !still:
	case g.cfg.OnStall == StallEnd:
		r.cancel(s.err)
	case stop != nil:
		stop(s.err)
	}
}

// condemn notes the stall for which an activity is ended, and returns the function
// that ends it alone, if there is one. It reports false if the activity has shown a
// sign of life since the announcement.
func (p *liveness) condemn(a *activity, stall *StallError) (stop context.CancelCauseFunc, still bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.told || a.over {
		return nil, false
	}
	a.stall = stall
	return a.stop, true
}
