package agentloop

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run runs all agents and returns when each has a result: at the latest 100 ms after
// the group's deadline, whatever tools, models and hooks do.
//
// When ctx ends, Run returns after at most: Grace for calls, plus DraftTimeout and
// Grace for Draft hooks, plus twice Grace for agents that tools have left running,
// plus one second for OnEvent. Agents that had no turn by then are in the report as
// well.
func (g *Group) Run(ctx context.Context) *Report {
	began := time.Now()
	if ctx == nil {
		return g.notStarted(began)
	}
	run := newGroupRun(&g.cfg, self(ctx))
	if d := g.cfg.Timeout; d > 0 {
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
	run.end()

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
	outer    *groupRun // the one in whose agent's tool it runs, or nil
	deepest  int       // how deep an agent may run
	ctx      context.Context
	deadline time.Time // zero if there is none
	cancel   context.CancelCauseFunc
	cause    func() error // why the group's context has ended
	bus      *bus
	turns    *slots // of MaxParallel
	flights  *slots // of MaxInFlight
	troubles *systemicTroubles
	stacks   stacks
	notes    chan *entry  // for the log of the run; nil without a journal
	slowest  atomic.Int64 // nanoseconds of the slowest answered model call
	stalls   atomic.Int64
	asking   atomic.Bool  // Explain, which has not answered yet
	calls    atomic.Int64 // of user code

	mu       sync.Mutex
	halted   error             // why the group has ended itself
	over     bool              // all results are counted
	told     bool              // and in the report
	runs     []*run            // those that have started, ended ones included
	alive    map[*run]struct{} // of them, children that have not ended
	idle     chan struct{}     // closed when it is over and there are none
	doomed   map[string]error  // agents that were cancelled, by name
	children []Result
	said     []string // by Explain

	choiceless map[modelKey]error // models that refuse tool_choice, with what they said
}

// newGroupRun returns a run of a group, in a tool of an agent if in is not nil.
func newGroupRun(cfg *GroupConfig, in *run) *groupRun {
	g := &groupRun{cfg: cfg, bus: newBus(cfg), turns: newSlots(cfg.MaxParallel), flights: newSlots(cfg.MaxInFlight)}
	g.alive, g.idle = make(map[*run]struct{}), make(chan struct{})
	top, deepest := 0, math.MaxInt
	if in != nil {
		g.outer = in.group
		top, deepest = in.depth+1, in.group.deepest
	}
	if cfg.MaxDepth >= 0 {
		deepest = min(deepest, top+cfg.MaxDepth)
	}
	g.deepest = deepest
	g.troubles = newTroubles(cfg)
	g.troubles.emit, g.troubles.draws = g.bus.emit, (*run).random
	g.troubles.stop = g.halt
	g.troubles.explain = func(endpoint string) string { return g.explain(g.ctx, endpoint) }
	return g
}

// halt ends the group for a reason of its own: agents end as Failed.
func (g *groupRun) halt(cause error) {
	g.mu.Lock()
	if g.halted == nil {
		g.halted = cause
	}
	cause = g.halted
	g.mu.Unlock()
	g.cancel(cause)
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

func (g *groupRun) newRun(a *Agent) *run {
	c := &a.cfg
	r := &run{agent: a, group: g}
	r.startOver()
	r.repeats = newRepeats(c.Repeats, c.RepeatWindow)
	return r
}

// join adds the run to the group's. If agents of its name were cancelled before, it
// is cancelled now; a later cancellation finds it.
func (g *groupRun) join(r *run) {
	g.mu.Lock()
	g.runs = append(g.runs, r)
	cause := g.doomed[r.name()]
	if cause == nil && g.over {
		cause = ErrGroupEnded
	}
	g.mu.Unlock()
	if cause != nil {
		r.cancel(cause)
	}
}

// child runs an agent in a tool of another one of the group.
func (g *groupRun) child(ctx context.Context, a *Agent) Result {
	r := g.newRun(a)
	g.mu.Lock()
	g.alive[r] = struct{}{}
	g.mu.Unlock()
	g.join(r)
	res := r.run(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.told {
		g.children = append(g.children, *res)
	}
	if delete(g.alive, r); g.over && len(g.alive) == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
	return *res
}

// end ends what still runs when all results are counted: agents that a tool has
// started with a context that outlives its call. They get twice Grace to end. Agents
// that join later are ended at once.
func (g *groupRun) end() {
	g.mu.Lock()
	g.over = true
	alive, idle := slices.Collect(maps.Keys(g.alive)), g.idle
	g.mu.Unlock()
	if len(alive) == 0 {
		return
	}
	for _, r := range alive {
		r.cancel(ErrGroupEnded)
	}
	moment := time.NewTimer(g.left(2 * max(0, g.cfg.Grace)))
	defer moment.Stop()
	select {
	case <-idle:
	case <-moment.C:
	}
}

// doom returns the cause for which agents of the name were cancelled, or nil.
func (g *groupRun) doom(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doomed[name]
}

// cancelAgents ends the agents of the given names, even those that have not started,
// and returns how many of them had not ended.
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
		if r.cancel(cause) {
			n++
		}
	}
	return n
}

// causeOf returns a function that tells why ctx has ended. All its callers get the
// same error, whose methods are safe.
func causeOf(ctx context.Context) func() error {
	var once sync.Once
	var cause error
	known := make(chan struct{})
	return func() error {
		// The text of a cause is user code: it must not run while the Once holds its lock.
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
