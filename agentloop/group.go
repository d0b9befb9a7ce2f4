package agentloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// GroupConfig sets up a [Group]. Agents is required; the zero value of
// everything else is the default.
type GroupConfig struct {
	// Agents are what the group runs. Their names differ.
	Agents []*Agent

	// Parallel is how many run at the same time; they start in order. Zero or
	// a negative value means all at once.
	Parallel int

	// Deadline bounds the whole run. When it comes all agents are stopped and
	// end as Exhausted, or Abandoned if they cannot. Zero means 2 hours, a
	// negative value none.
	Deadline time.Duration

	// Restarts is how many passing faults of the model in a row an agent
	// survives; a completed round ends the row. Zero means 3, a negative value
	// none.
	Restarts int

	// Backoff is the pause before the first restart of a row; it doubles up to
	// a minute, is never shorter than the model's RetryAfter, and is lengthened
	// by up to half at random so that agents do not return as one. A pause that
	// does not fit is not begun: the agent ends as Exhausted if the deadline is
	// one of this package, as Failed if it is the caller's. Zero means 1 second,
	// a negative value no pause but RetryAfter.
	Backoff time.Duration

	// StallAfter is how long an agent may show no life before the watchdog
	// announces it: an event, a log line, a count in the report. Life is
	// whatever the agent does, calls of [Alive], and agents that live in its
	// tools. Tools within a deadline and pauses are no stall; model calls get
	// twice the time of the slowest answered one if that is more. Nothing is
	// cut. Zero means 5 minutes, a negative value no watchdog.
	StallAfter time.Duration

	// Grace is how long tools and model calls may take to return after their
	// context has ended, before they are abandoned. Zero means 50 ms, a
	// negative value none.
	Grace time.Duration

	// DraftDeadline bounds each Draft hook. Zero means 1 second; there is no
	// way to wait for ever.
	DraftDeadline time.Duration

	// OnEvent, if not nil, hears what happens to all agents, one event at a
	// time and in order, on a goroutine of its own. It never blocks an agent:
	// 65,536 events wait for it, further ones are dropped and counted, except
	// ends of agents. Run waits up to one second at its end until all is heard.
	// If it panics only that event is lost to it.
	OnEvent func(Event)

	// Logger, if not nil, gets a line for each event, named "agentloop: " and
	// the kind. Nothing that models or tools said is in it, except in errors.
	Logger *slog.Logger

	// Rand returns random numbers in [0,1) for the pauses, from several
	// goroutines. Others are taken for the nearest; if it panics, for 0. Nil
	// means math/rand/v2.
	Rand func() float64
}

// The defaults of GroupConfig.
const (
	defaultDeadline      = 2 * time.Hour
	defaultRestarts      = 3
	defaultBackoff       = time.Second
	defaultStallAfter    = 5 * time.Minute
	defaultGrace         = 50 * time.Millisecond
	defaultDraftDeadline = time.Second

	maxBackoff = time.Minute
)

func (c GroupConfig) filled() GroupConfig {
	fill(&c.Deadline, defaultDeadline)
	fill(&c.Restarts, defaultRestarts)
	fill(&c.Backoff, defaultBackoff)
	fill(&c.StallAfter, defaultStallAfter)
	fill(&c.Grace, defaultGrace)
	fill(&c.DraftDeadline, defaultDraftDeadline)
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// A Group runs agents. It holds no state of a run and may run more than once.
type Group struct{ cfg GroupConfig }

// NewGroup returns a group, or an error that names the bad field.
func NewGroup(cfg GroupConfig) (*Group, error) {
	if len(cfg.Agents) == 0 {
		return nil, errors.New("agentloop: Agents is empty")
	}
	cfg.Agents = slices.Clone(cfg.Agents)
	at := make(map[string]int, len(cfg.Agents))
	for i, a := range cfg.Agents {
		if a == nil {
			return nil, fmt.Errorf("agentloop: Agents[%d] is nil", i)
		}
		if first, twice := at[a.cfg.Name]; twice {
			return nil, fmt.Errorf("agentloop: Agents[%d] has the name %q, as has Agents[%d]", i, a.cfg.Name, first)
		}
		at[a.cfg.Name] = i
	}
	if cfg.DraftDeadline < 0 {
		return nil, fmt.Errorf("agentloop: DraftDeadline is %v, want 0 (for %v) or more", cfg.DraftDeadline, defaultDraftDeadline)
	}
	return &Group{cfg: cfg.filled()}, nil
}

// Run runs all agents and returns when each has a result: at the latest Grace
// after the deadline or the end of ctx, plus what Draft hooks take, up to
// DraftDeadline and Grace once more, plus what OnEvent takes, up to one second.
// Agents that had no turn by then are in the report as well.
func (g *Group) Run(ctx context.Context) *Report {
	began := time.Now()
	if ctx == nil {
		return g.notStarted(began)
	}
	if d := g.cfg.Deadline; d > 0 {
		var stop context.CancelFunc
		ctx, stop, _ = withLimit(ctx, "group", d)
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	run := &groupRun{cfg: &g.cfg, cancel: cancel, cause: causeOf(ctx), bus: newBus(&g.cfg)}
	var watchdog sync.WaitGroup
	watching, unwatch := context.WithCancel(ctx)
	watchdog.Go(func() { run.watch(watching) })

	results := run.all(ctx)

	rep := &Report{Started: began, Results: results, Counts: make(map[Outcome]int)}
	if ctx.Err() != nil {
		rep.Err = run.cause()
	}
	unwatch()
	watchdog.Wait()
	for i := range results {
		rep.Counts[results[i].Outcome]++
	}
	rep.Stalls = int(run.stalls.Load())
	rep.DroppedEvents = run.bus.close()
	rep.Duration = time.Since(began)
	return rep
}

// A groupRun is what the agents of one run share.
type groupRun struct {
	cfg     *GroupConfig
	cancel  context.CancelCauseFunc
	cause   func() error // why the group's context has ended
	bus     *bus
	slowest atomic.Int64 // nanoseconds of the slowest answered model call
	stalls  atomic.Int64

	mu   sync.Mutex
	runs []*run // those that have started, ended ones included
}

func (g *groupRun) started() []*run {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs[:len(g.runs):len(g.runs)]
}

// all starts the agents, as many at a time as may run, and collects results
// until it has one of each. It counts results; no agent can hold it up, since
// none runs user code on the goroutine that sends the result.
func (g *groupRun) all(ctx context.Context) []Result {
	type numbered struct {
		i int
		Result
	}
	n := len(g.cfg.Agents)
	width := n
	if g.cfg.Parallel > 0 {
		width = min(n, g.cfg.Parallel)
	}
	results := make([]Result, n)
	back := make(chan numbered, n)
	next, running := 0, 0
	for next < n || running > 0 {
		for next < n && running < width && ctx.Err() == nil {
			i, r := next, g.newRun(g.cfg.Agents[next])
			go func() { back <- numbered{i, r.run(ctx)} }()
			next++
			running++
		}
		if ctx.Err() != nil {
			for ; next < n; next++ {
				results[next] = g.neverStarted(ctx, g.cfg.Agents[next])
			}
		}
		if running == 0 {
			break
		}
		r := <-back
		results[r.i] = r.Result
		running--
	}
	return results
}

func (g *groupRun) newRun(a *Agent) *run {
	c := &a.cfg
	r := &run{
		agent: a, group: g, prog: newProgress(c.Progression, c.ReadOnly),
		repeats: newRepeats(c.Repeats, c.RepeatWindow), ladder: newLadder(c),
	}
	g.mu.Lock()
	g.runs = append(g.runs, r)
	g.mu.Unlock()
	return r
}

func (g *groupRun) neverStarted(ctx context.Context, a *Agent) Result {
	prog := newProgress(a.cfg.Progression, false)
	res := Result{Name: a.cfg.Name, Missing: prog.missing(), Messages: slices.Clone(a.start)}
	res.Outcome = outcomeOf(ctx)
	res.Err = fmt.Errorf("agentloop: agent %q %s: %w: %w", a.cfg.Name, res.Outcome, ErrNeverStarted, g.cause())
	g.bus.emit(Event{Agent: a.cfg.Name, Kind: EventEnded, Outcome: res.Outcome, Err: res.Err})
	return res
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
