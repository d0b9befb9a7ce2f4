package agentloop

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A numbered result belongs to the agent with the number. It is a pointer, which
// halves the stacks of ten thousand waiting agents.
type numbered struct {
	i   int
	res *Result
}

// all starts the agents, as many at a time as the group allows. It returns when it
// has a result of each, or when the group must be back. It never waits for user code.
func (g *groupRun) all() []Result {
	n := len(g.cfg.Agents)
	results, have := make([]Result, n), make([]bool, n)
	runs := make([]*run, n)
	for i, a := range g.cfg.Agents {
		runs[i] = g.newRun(a)
	}
	back := make(chan numbered, n)
	go g.start(runs, back)

	ended := g.ctx.Done()
	var late <-chan time.Time
	for count := 0; count < n; {
		select {
		case r := <-back:
			results[r.i], have[r.i] = *r.res, true
			count++
		case <-ended:
			ended = nil
			bound := 2*max(0, g.cfg.Grace) + g.cfg.DraftTimeout + slack
			timer := time.NewTimer(g.left(bound))
			defer timer.Stop()
			late = timer.C
		case <-late:
			for i := range results {
				if !have[i] {
					results[i] = *runs[i].leftBehind(g.outcome(g.ctx), g.cause())
				}
			}
			return results
		}
	}
	return results
}

// start starts the agents in order, each when it is its turn.
func (g *groupRun) start(runs []*run, back chan<- numbered) {
	for i, r := range runs {
		if !g.turns.take(g.ctx, false, nil) || g.ctx.Err() != nil || g.doom(r.name()) != nil {
			back <- numbered{i, r.neverStarted()}
			continue
		}
		g.join(r)
		go func() {
			res := r.run(g.ctx)
			g.note(&entry{Kind: entryEnded, Agent: res.Name, Outcome: res.Outcome, Steps: res.Steps, Draft: res.Draft, Error: textOfErr(res.Err)})
			if !r.turnless {
				g.turns.give()
			}
			back <- numbered{i, res}
		}()
	}
}

// neverStarted is the result of an agent that had no turn.
func (r *run) neverStarted() *Result {
	g, a := r.group, r.agent
	res := &Result{Name: a.cfg.Name, Missing: r.prog.missing(), Messages: slices.Clone(a.start)}
	cause := g.doom(a.cfg.Name)
	res.Outcome = Cancelled
	if cause == nil {
		cause = g.cause()
		res.Outcome = g.outcome(g.ctx)
	}
	res.Err = fmt.Errorf("agentloop: agent %q %s: %w: %w", a.cfg.Name, res.Outcome, ErrNeverStarted, &bareError{cause})
	g.bus.emit(Event{Agent: a.cfg.Name, Kind: EventEnded, Outcome: res.Outcome, Err: res.Err})
	return res
}

// leftBehind is the result of an agent that did not return its own in time after its
// group ended in the given way.
func (r *run) leftBehind(outcome Outcome, why error) *Result {
	o := r.outline.Load()
	if o == nil {
		return r.neverStarted()
	}
	res := &Result{
		Name: r.name(), Outcome: outcome, Steps: o.steps, Missing: o.missing, Rounds: o.rounds,
		Messages: slices.Clone(o.messages), Started: o.started, Duration: time.Since(o.started), Stuck: r.liveness.state(),
	}
	r.control.mu.Lock()
	under, left := slices.Clone(r.control.running), slices.Clone(r.control.left)
	r.control.mu.Unlock()
	res.Abandoned = left
	for _, x := range under {
		if !slices.ContainsFunc(left, func(a Abandonment) bool { return a.In == x.in && a.Started.Sub(x.began).Abs() < time.Millisecond }) {
			res.Abandoned = append(res.Abandoned, r.abandonment(x.in, "", x.began, x.labels))
		}
	}
	if len(under) > 0 { // not for want of a processor
		res.Outcome, why = Abandoned, fmt.Errorf("its code %w, after %w", ErrAbandoned, &bareError{why})
	}
	res.Err = fmt.Errorf("agentloop: agent %q %s: %w", res.Name, res.Outcome, &bareError{why})
	if !r.ended.Swap(true) {
		r.emit(Event{Kind: EventEnded, Outcome: res.Outcome, Err: res.Err, After: res.Duration})
	}
	return res
}

// fill fills in the fields of the report that are about the group.
func (g *groupRun) fill(rep *Report) {
	g.mu.Lock()
	g.told = true
	rep.Children, rep.Explanations = g.children, g.said
	alive := slices.Collect(maps.Keys(g.alive))
	g.mu.Unlock()
	for _, r := range alive {
		rep.Children = append(rep.Children, *r.leftBehind(Cancelled, ErrGroupEnded))
	}
	for _, list := range [][]Result{rep.Results, rep.Children} {
		for i := range list {
			rep.Uncertain = append(rep.Uncertain, list[i].Uncertain...)
			rep.Abandoned = append(rep.Abandoned, list[i].Abandoned...)
		}
	}
	rep.Stalls = int(g.stalls.Load())
}

// summary says in a line how the group did.
func (r *Report) summary() string {
	var s string
	for _, o := range slices.Sorted(maps.Keys(r.Counts)) {
		s += fmt.Sprintf("%d %s, ", r.Counts[o], o)
	}
	return s + fmt.Sprintf("%d stalls, %d abandoned", r.Stalls, len(r.Abandoned))
}

// notStarted is the report of a run without a context.
func (g *Group) notStarted(began time.Time) *Report {
	rep := &Report{Started: began, Err: errNilContext, Counts: map[Outcome]int{Failed: len(g.cfg.Agents)}}
	for _, a := range g.cfg.Agents {
		prog := newProgress(a.cfg.Progression, false)
		rep.Results = append(rep.Results, Result{
			Name: a.cfg.Name, Outcome: Failed, Missing: prog.missing(), Messages: slices.Clone(a.start),
			Err: fmt.Errorf("agentloop: agent %q %s: %w: %w", a.cfg.Name, Failed, ErrNeverStarted, &bareError{errNilContext}),
		})
	}
	return rep
}
