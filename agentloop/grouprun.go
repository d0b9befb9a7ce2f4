package agentloop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run runs all agents and returns when each has a result: at the latest 100 ms
// after the group's deadline, whatever tools, models and hooks do. After the end
// of ctx it takes Grace for calls to return, plus DraftDeadline and Grace for
// Draft hooks, plus up to one second for OnEvent. Agents that had no turn by then
// are in the report as well.
func (g *Group) Run(ctx context.Context) *Report {
	began := time.Now()
	if ctx == nil {
		return g.notStarted(began)
	}
	run := newGroupRun(&g.cfg)
	if d := g.cfg.Deadline; d > 0 {
		run.deadline = began.Add(d)
		var stop context.CancelFunc
		ctx, stop, _ = withLimit(ctx, "group", d, g.cfg.WindDown)
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run.ctx, run.cancel, run.cause = ctx, cancel, causeOf(ctx)

	var watchdog sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	watchdog.Go(func() { run.watch(watching) })

	run.openJournal()
	results := run.all()

	rep := &Report{Started: began, Results: results, Counts: make(map[Outcome]int)}
	if ctx.Err() != nil {
		rep.Err = run.cause()
	}
	unwatch()
	watchdog.Wait()
	for i := range results {
		rep.Counts[results[i].Outcome]++
	}
	run.fill(rep)
	run.closeJournal(rep)
	run.bus.emit(Event{Kind: EventGroupEnded, Text: rep.summary(), After: time.Since(began), Err: rep.Err})
	rep.DroppedEvents = run.bus.close(run.left(flushTime))
	rep.Duration = time.Since(began)
	return rep
}

// A groupRun is what the agents of one run share.
type groupRun struct {
	cfg      *GroupConfig
	ctx      context.Context
	deadline time.Time // zero if there is none
	cancel   context.CancelCauseFunc
	cause    func() error // why the group's context has ended
	bus      *bus
	turns    *slots // of Parallel
	flights  *slots // of InFlight
	troubles *troubles
	stacks   stacks
	journal  *run         // stands for the group where its own log is written
	slowest  atomic.Int64 // nanoseconds of the slowest answered model call
	stalls   atomic.Int64
	calls    atomic.Int64 // of user code

	mu       sync.Mutex
	over     bool             // all results are counted
	runs     []*run           // those that have started, ended ones included
	doomed   map[string]error // agents that were cancelled, by name
	children []Result
}

func newGroupRun(cfg *GroupConfig) *groupRun {
	g := &groupRun{cfg: cfg, bus: newBus(cfg), turns: newSlots(cfg.Parallel), flights: newSlots(cfg.InFlight)}
	g.troubles = &troubles{
		cfg: cfg.Systemic, emit: g.bus.emit, stop: func(err error) { g.cancel(err) },
		draws: (*run).random, at: make(map[string]*trouble),
	}
	return g
}

// left returns d, or what is left of it until the group has to be back.
func (g *groupRun) left(d time.Duration) time.Duration {
	if g.deadline.IsZero() {
		return d
	}
	return max(0, min(d, time.Until(g.deadline.Add(slack-reserve))))
}

func (g *groupRun) started() []*run {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[:len(g.runs):len(g.runs)]
}

// A numbered result is that of the agent with the number. It is a pointer, and
// the stacks of ten thousand agents that wait are half as large.
type numbered struct {
	i   int
	res *Result
}

// all starts the agents, as many at a time as may be at work, and collects
// results until it has one of each, or until it must be back. It counts results
// and waits for nobody's code.
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
			bound := 2*max(0, g.cfg.Grace) + g.cfg.DraftDeadline + slack
			timer := time.NewTimer(g.left(bound))
			defer timer.Stop()
			late = timer.C
		case <-late:
			for i := range results {
				if !have[i] {
					results[i] = *runs[i].leftBehind()
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
		if !g.turns.take(g.ctx, false) || g.ctx.Err() != nil || g.doom(r.name()) != nil {
			back <- numbered{i, r.neverStarted()}
			continue
		}
		g.join(r)
		go func() {
			res := r.run(g.ctx)
			g.note(g.ctx, &entry{Kind: entryEnded, Agent: res.Name, Outcome: res.Outcome, Steps: res.Steps, Draft: res.Draft, Error: textOfErr(res.Err)})
			if !r.turnless {
				g.turns.give()
			}
			back <- numbered{i, res}
		}()
	}
}

func (g *groupRun) newRun(a *Agent) *run {
	c := &a.cfg
	r := &run{agent: a, group: g}
	r.startOver()
	r.repeats = newRepeats(c.Repeats, c.RepeatWindow)
	return r
}

// join makes the run one of the group's.
func (g *groupRun) join(r *run) {
	g.mu.Lock()
	g.runs = append(g.runs, r)
	g.mu.Unlock()
}

// child runs an agent in a tool of another one of the group.
func (g *groupRun) child(ctx context.Context, a *Agent) Result {
	r := g.newRun(a)
	g.join(r)
	res := r.run(ctx)
	g.mu.Lock()
	if !g.over {
		g.children = append(g.children, *res)
	}
	g.mu.Unlock()
	return *res
}

// doom returns why the agent of the name was cancelled, or nil.
func (g *groupRun) doom(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doomed[name]
}

// cancelAgents ends the agents of the given names, those that have not started
// yet included, and returns how many of them had not ended.
func (g *groupRun) cancelAgents(cause error, names []string) (n int) {
	g.mu.Lock()
	if g.doomed == nil {
		g.doomed = make(map[string]error)
	}
	var hit []*run
	started := make(map[string]bool)
	for _, r := range g.runs {
		started[r.name()] = true
		if slices.Contains(names, r.name()) && g.doomed[r.name()] == nil {
			hit = append(hit, r)
		}
	}
	for _, a := range g.cfg.Agents {
		if name := a.cfg.Name; slices.Contains(names, name) && !started[name] && g.doomed[name] == nil {
			n++
		}
	}
	for _, name := range names {
		if g.doomed[name] == nil {
			g.doomed[name] = cause
		}
	}
	g.mu.Unlock()
	for _, r := range hit {
		if r.cut(cause) {
			n++
		}
	}
	return n
}

// neverStarted is the result of an agent that had no turn.
func (r *run) neverStarted() *Result {
	g, a := r.group, r.agent
	res := &Result{Name: a.cfg.Name, Missing: r.prog.missing(), Messages: slices.Clone(a.start)}
	cause := g.doom(a.cfg.Name)
	res.Outcome = Cancelled
	if cause == nil {
		cause = g.cause()
		res.Outcome = outcomeOf(g.ctx)
	}
	res.Err = fmt.Errorf("agentloop: agent %q %s: %w: %w", a.cfg.Name, res.Outcome, ErrNeverStarted, cause)
	g.bus.emit(Event{Agent: a.cfg.Name, Kind: EventEnded, Outcome: res.Outcome, Err: res.Err})
	return res
}

// leftBehind is the result of an agent whose own has not come in time.
func (r *run) leftBehind() *Result {
	o := r.outline.Load()
	if o == nil {
		return r.neverStarted()
	}
	res := &Result{
		Name: r.name(), Outcome: outcomeOf(r.group.ctx), Steps: o.steps, Missing: o.missing, Rounds: o.rounds,
		Messages: slices.Clone(o.messages), Started: o.started, Duration: time.Since(o.started), Stuck: r.pulse.state(),
	}
	why := r.group.cause()
	if r.foreign.Load() > 0 { // not for want of a processor
		res.Outcome, why = Abandoned, fmt.Errorf("its code %w, after %w", ErrAbandoned, why)
	}
	res.Err = fmt.Errorf("agentloop: agent %q %s: %w", res.Name, res.Outcome, why)
	if !r.ended.Swap(true) {
		r.emit(Event{Kind: EventEnded, Outcome: res.Outcome, Err: res.Err, After: res.Duration})
	}
	return res
}

// fill puts into the report what is about the group.
func (g *groupRun) fill(rep *Report) {
	g.mu.Lock()
	g.over = true
	rep.Children = g.children
	g.mu.Unlock()
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
			Err: fmt.Errorf("agentloop: agent %q %s: %w: %w", a.cfg.Name, Failed, ErrNeverStarted, errNilContext),
		})
	}
	return rep
}

// causeOf returns a function that tells why ctx has ended. All its callers get
// the same error, whose methods do no harm.
func causeOf(ctx context.Context) func() error {
	var once sync.Once
	var cause error
	known := make(chan struct{})
	return func() error {
		// The text of a cause is user code: not while the Once has its lock.
		once.Do(func() {
			go func() {
				cause = contained(context.Cause(ctx))
				close(known)
			}()
		})
		<-known
		return cause
	}
}

// answeredIn notes how long an answered model call took.
func (g *groupRun) answeredIn(d time.Duration) {
	for {
		old := g.slowest.Load()
		if int64(d) <= old || g.slowest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}
