package agentloop

import (
	"context"
	"time"
)

// A stalled act is one that shows no life for too long.
type stalled struct {
	*act
	tool, id string
	patience patience // that was exhausted
	err      *StallError
}

// A glimpse is what the watchdog sees of an act.
type glimpse struct {
	act      *act
	until    time.Time // when it will have been silent for as long as it may
	children []*run    // that run in it
	told     bool
}

// glimpses looks at all that the agent does at the moment.
func (r *run) glimpses(now time.Time, list []glimpse) []glimpse {
	p := &r.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	acts := p.tools
	if len(acts) == 0 {
		var one [1]*act
		acts = append(one[:0], &p.main)
	}
	for _, a := range acts {
		s := glimpse{act: a, until: a.bears(r.group.window(a.patience)), told: a.told}
		if p.main.doing == "" || a.patience == ends {
			s.until = now.Add(r.group.window(usual))
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

// well returns until when an act is, if it shows no life from now on. Children
// speak for it: one that waits for its slow model, or runs a long tool within its
// deadline, shows no life and is well.
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

// stalled returns what the agent does that has been silent for too long and was
// not told yet, and when to look again. What waits for an agent of the same group
// is not told of: that agent is.
func (r *run) stalled(now time.Time) (list []stalled, next time.Time) {
	var few [4]glimpse
	window := r.group.window(usual)
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

// accuse marks an act as told of, unless it came to life just now.
func (r *run) accuse(a *act, now time.Time) (stalled, bool) {
	p := &r.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.told || a.over || p.main.doing == "" || a.patience == ends || a.bears(r.group.window(a.patience)).After(now) {
		return stalled{}, false
	}
	a.told = true
	x := stalled{act: a, patience: a.patience, err: &StallError{Silent: now.Sub(a.life), State: p.stateLocked(a, now)}}
	if a.call != nil {
		x.tool, x.id = a.call.Name, a.call.ID
	}
	return x, true
}

// window is how long an agent of the group may show no life.
//
// A model call is given twice as long as the slowest that any agent of the
// group has had answered, if that is longer: a slow model is not a dead one.
// Tools have nothing to do with the model's pace.
func (g *groupRun) window(p patience) time.Duration {
	w := g.cfg.StallAfter
	if w < 0 {
		w = defaultStallAfter // asked by the watchdog of a parent
	}
	if p == model {
		w = max(w, 2*time.Duration(g.slowest.Load()))
	}
	return w
}

// shortestWatch is how long the watchdog sleeps at least.
const shortestWatch = time.Millisecond

// watch speaks once for each thing that shows no life for the window, and
// again only if it lived in between. First it speaks, then it acts.
func (g *groupRun) watch(ctx context.Context) {
	if g.cfg.StallAfter < 0 {
		return
	}
	window := g.window(usual)
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
			why := g.explain(ctx)
			for i := range all {
				all[i].err.Explanation = why
				g.tell(of[i], &all[i], now)
			}
			for i := range all {
				g.actOn(of[i], &all[i])
			}
		}
		// Thousands of agents are not looked at for each of them alone, and nobody is
		// looked at without end.
		timer.Reset(max(time.Until(next), window/100, shortestWatch))
	}
}

// tell announces a stall.
func (g *groupRun) tell(r *run, s *stalled, now time.Time) {
	g.stalls.Add(1)
	r.emit(Event{
		Kind: EventStalled, Tool: s.tool, CallID: s.id, Text: explained(s.err.State, s.err.Explanation), After: s.err.Silent, Err: s.err,
	})
	if s.patience == model {
		g.troubles.silent(r, now.Add(-s.err.Silent))
	}
}

// actOn does what the policy says about a stall.
func (g *groupRun) actOn(r *run, s *stalled) {
	if g.cfg.OnStall == StallReport {
		return
	}
	stop, still := r.pulse.condemn(s.act, s.err)
	switch {
	case !still:
	case g.cfg.OnStall == StallEnd:
		r.cut(s.err)
	case stop != nil:
		stop(s.err)
	}
}

// condemn notes the stall for which an act is to be ended, and returns what ends
// it alone, if anything does. It reports false if it has lived since it was told.
func (p *pulse) condemn(a *act, stall *StallError) (stop context.CancelCauseFunc, still bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.told || a.over {
		return nil, false
	}
	a.stall = stall
	return a.stop, true
}
