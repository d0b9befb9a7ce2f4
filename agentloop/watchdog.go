package agentloop

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A pulse tells what an agent does, and when it last showed life: each change
// of what it does is life, and so is a call of Alive.
type pulse struct {
	mu      sync.Mutex
	doing   string
	since   time.Time
	before  string // what it did until then
	took    time.Duration
	life    time.Time
	bounded bool // what it does ends by itself in time: no stall
	told    bool // the watchdog has spoken since the last life
}

// does notes what the agent does from now on. bounded says that it has a bound
// of its own, like a tool with a deadline.
func (p *pulse) does(doing string, bounded bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing != "" {
		p.before, p.took = p.doing, now.Sub(p.since)
	}
	p.doing, p.since, p.life, p.bounded, p.told = doing, now, now, bounded, false
}

func (p *pulse) beat() {
	now := time.Now()
	p.mu.Lock()
	p.life, p.told = now, false
	p.mu.Unlock()
}

// stalled reports whether the agent has shown no life for the window and that
// was not told yet; if neither, when that may come to be.
func (p *pulse) stalled(now time.Time, window time.Duration) (state string, silent time.Duration, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing == "" || p.bounded || p.told {
		return "", 0, now.Add(window)
	}
	if due := p.life.Add(window); now.Before(due) {
		return "", 0, due
	}
	p.told = true
	return p.stateLocked(now), now.Sub(p.life), now.Add(window)
}

// state says in words what the agent does, since when, and what it did before.
func (p *pulse) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked(time.Now())
}

func (p *pulse) stateLocked(now time.Time) string {
	if p.doing == "" {
		return ""
	}
	s := fmt.Sprintf("%s for %v", p.doing, now.Sub(p.since))
	if p.before != "" {
		s += fmt.Sprintf("; before that %s for %v", p.before, p.took)
	}
	return s
}

// watch speaks once for each agent that shows no life for the window, and
// again only if it lived in between. It announces and does nothing else.
//
// A model call is given twice as long as the slowest that any agent of the
// group has had answered, if that is longer: a slow model is not a dead one.
func (g *groupRun) watch(ctx context.Context) {
	if g.cfg.StallAfter < 0 {
		return
	}
	timer := time.NewTimer(g.cfg.StallAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		window := max(g.cfg.StallAfter, 2*time.Duration(g.slowest.Load()))
		now := time.Now()
		next := now.Add(window)
		for _, r := range g.started() {
			state, silent, due := r.pulse.stalled(now, window)
			if state != "" {
				g.stalls.Add(1)
				r.emit(Event{Kind: EventStalled, Text: state, After: silent})
			}
			if due.Before(next) {
				next = due
			}
		}
		// Thousands of agents are not looked at for each of them alone.
		timer.Reset(max(next.Sub(now), window/100))
	}
}
