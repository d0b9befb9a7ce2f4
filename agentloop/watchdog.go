package agentloop

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A patience says how long what an agent does may take without a sign of life.
type patience int

const (
	ends  patience = iota // it ends by itself in time, like a tool with a deadline
	usual                 // StallAfter
	model                 // StallAfter, or more if the group's model is slow
)

// A pulse tells what an agent does, and when it last showed life: each change
// of what it does is life, and so is a call of Alive.
type pulse struct {
	mu       sync.Mutex
	doing    string
	since    time.Time
	before   string // what it did until then
	took     time.Duration
	life     time.Time
	patience patience
	told     bool // the watchdog has spoken since the last life

	children map[*run]struct{} // agents that run inside its tools
}

// does notes what the agent does from now on.
func (p *pulse) does(doing string, patience patience) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing != "" {
		p.before, p.took = p.doing, now.Sub(p.since)
	}
	p.doing, p.since, p.life, p.patience, p.told = doing, now, now, patience, false
}

// beat notes a sign of life, and reports whether there is any life left: code
// that was left behind may go on calling Alive for ever.
func (p *pulse) beat() bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life, p.told = now, false
	return p.doing != ""
}

func (p *pulse) adopt(child *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.children == nil {
		p.children = make(map[*run]struct{})
	}
	p.children[child] = struct{}{}
}

func (p *pulse) release(child *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.children, child)
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
	s := fmt.Sprintf("%s for %v", p.doing, brief(now.Sub(p.since)))
	if p.before != "" {
		s += fmt.Sprintf("; before that %s for %v", p.before, brief(p.took))
	}
	return s
}

// does notes what the agent does from now on.
func (r *run) does(doing string, patience patience) {
	r.pulse.does(doing, patience)
	r.parent.beat()
}

// beat is a sign of life, of the agent and of those whose tool it runs in.
func (r *run) beat() {
	for r != nil && r.pulse.beat() {
		r = r.parent
	}
}

// silentAt returns when the agent will have shown no life for as long as it
// may, if it shows none from now on. Children speak for their parents: one
// that waits for its slow model, or runs a long tool within its deadline,
// shows no life and is well.
func (r *run) silentAt(now time.Time) time.Time {
	window := r.group.window(usual)
	p := &r.pulse
	p.mu.Lock()
	at := p.life.Add(r.group.window(p.patience))
	if p.doing == "" || p.patience == ends {
		at = now.Add(window)
	}
	children := make([]*run, 0, len(p.children))
	for c := range p.children {
		children = append(children, c)
	}
	p.mu.Unlock()
	for _, c := range children {
		if when := c.silentAt(now); when.After(at) {
			at = when
		}
	}
	return at
}

// stalled returns what the agent does and how long it has been silent, if that
// is too long and was not told yet; if not, when to look again. Who waits for an
// agent of the same group is not told of: that one is.
func (r *run) stalled(now time.Time) (stall *StallError, p patience, next time.Time) {
	if at := r.silentAt(now); at.After(now) {
		return nil, 0, at
	}
	next = now.Add(r.group.window(usual))
	pulse := &r.pulse
	pulse.mu.Lock()
	defer pulse.mu.Unlock()
	if pulse.doing == "" || pulse.patience == ends || pulse.told {
		return nil, 0, next
	}
	for c := range pulse.children {
		if c.group == r.group {
			return nil, 0, next
		}
	}
	if at := pulse.life.Add(r.group.window(pulse.patience)); at.After(now) { // it came to life just now
		return nil, 0, at
	}
	pulse.told = true
	return &StallError{Silent: now.Sub(pulse.life), State: pulse.stateLocked(now)}, pulse.patience, next
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

// watch speaks once for each agent that shows no life for the window, and
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
		for _, r := range g.started() {
			stall, of, due := r.stalled(now)
			if stall != nil {
				g.stalls.Add(1)
				r.emit(Event{Kind: EventStalled, Text: stall.State, After: stall.Silent, Err: stall})
				if of == model {
					g.troubles.silent(r, now.Add(-stall.Silent))
				}
				g.actOn(r, stall)
			}
			if due.Before(next) {
				next = due
			}
		}
		// Thousands of agents are not looked at for each of them alone.
		timer.Reset(max(next.Sub(now), window/100))
	}
}

// actOn does what the policy says about a stall.
func (g *groupRun) actOn(r *run, stall *StallError) {
	switch g.cfg.OnStall {
	case StallRetry:
		r.reins.mu.Lock()
		call := r.reins.call
		r.reins.mu.Unlock()
		if call != nil {
			call(stall)
		}
	case StallEnd:
		r.cut(stall)
	}
}
