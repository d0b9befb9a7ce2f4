package agentloop

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// GroupConfig sets up a [Group]. Agents is required; the zero value of
// everything else is the default.
type GroupConfig struct {
	// Agents are the agents that the group runs. Their names differ.
	Agents []*Agent

	// MaxParallel is how many agents are at work at the same time; they start in order.
	// A parked agent (see Backoff) is not at work, and agents that run in tools are not
	// counted. Zero or a negative value means all at once.
	MaxParallel int

	// MaxInFlight is how many model calls are in flight at the same time, including
	// those of agents and groups that run in tools. An agent gives its place back while
	// it runs tools, waits for other agents (even inside its Model) or pauses, so agents
	// cannot deadlock. A silent call loses its place once the endpoint has answered
	// later calls. A probe (see Systemic) needs no place. Zero or a negative value means
	// no bound: the client may have one.
	MaxInFlight int

	// MaxDepth is how deep agents may run in tools of agents: 1 allows a tool of the
	// group's agents to run agents, but not their tools. A deeper agent ends as Failed
	// with [ErrTooDeep] before it asks its model. A group that runs in a tool is within
	// the bounds of the groups around it. Zero means 4, a negative value no bound.
	MaxDepth int

	// Timeout bounds the whole run: Run returns at most 100 ms after it. Agents that are
	// still at work end as Exhausted, or as Abandoned if their code does not return.
	// Zero means 2 hours, a negative value none.
	Timeout time.Duration

	// WindDown is how long before Timeout agents are stopped, so that tools can return
	// and Draft hooks can save. Zero means the sum of Grace and, with Draft hooks,
	// DraftTimeout and another Grace, less 50 ms, at most a tenth of Timeout: with the
	// defaults 1.05 seconds if an agent has a Draft hook, else nothing. Groups of more
	// than a thousand agents take a little more. A negative value means none: then only
	// the 100 ms after Timeout are left.
	WindDown time.Duration

	// Restarts is how many passing faults of the model an agent survives: in a row,
	// which a completed round ends; or, if RestartsPer is set, within any period of that
	// length. Zero means 3, a negative value none.
	Restarts    int
	RestartsPer time.Duration

	// Restart says which agents are started again after they ended, by outcome: Failed
	// and Stalled. Nil means none. They pause before as with other restarts.
	Restart map[Outcome]RestartPolicy

	// Backoff is the pause before the first restart of a row. It doubles up to a minute,
	// is never shorter than the model's RetryAfter, and gets up to half of itself as
	// jitter. A RetryAfter of more than a minute parks the agent: another agent may have
	// its turn meanwhile. If the pause would not end before the deadline, the agent ends
	// at once: as Exhausted if that is a deadline of this package, as Failed if it is
	// the caller's. Zero means 1 second, a negative value no pause but RetryAfter.
	Backoff time.Duration

	// Systemic says when most agents fail at one endpoint, and what is done then. It is
	// announced once, and acted on once.
	Systemic SystemicConfig

	// StallAfter is how long an agent may show no sign of life before the watchdog
	// announces a stall: by an event, a log line ("agentloop: stalled"), and a count in
	// the report and in the journal's log of the run. Each stall is announced once.
	//
	// Signs of life are: a new action of the agent, output of the model, bytes of its
	// answer, calls of [Heartbeat], lines in the journal, and signs of life of agents in
	// its tools. Each of several tool calls that run beside each other is judged alone,
	// and so is each model call: output of one that was given up does not count for the
	// next.
	//
	// Tools with a timeout, pauses, and waits that the client has announced
	// (chat.Request.OnWait) are no stalls. Model calls get twice the time of the slowest
	// answered call if that is more. Zero means 5 minutes, a negative value no watchdog.
	StallAfter time.Duration

	// OnStall is what is done after a stall was announced. Zero means nothing.
	OnStall StallAction

	// Explain, if not nil, says in a line what may be the matter with an endpoint, such
	// as what its server is busy with. endpoint is what the agent's Model calls itself,
	// empty if it has no Endpoint method. Explain is asked before a stall or systemic
	// trouble is announced, one call at a time; the line is in the error, the event and
	// the report. An answer that takes longer than 100 ms is not waited for; if it
	// panics there is no line.
	Explain func(endpoint string) string

	// Grace is how long tools and model calls may take to return after their context has
	// ended, before they are abandoned. At the group's deadline, with a Draft hook, it
	// is at most half of the remaining time. Zero means 50 ms, a negative value none.
	Grace time.Duration

	// DraftTimeout bounds each Draft hook. Zero means 1 second; it cannot be unbounded.
	DraftTimeout time.Duration

	// Journal, if not nil, records what agents do, so that a run that was killed can go
	// on: a Run with the same journal takes up each agent where its log ends. Agents
	// that were done are not run again. Recorded answers and results are not asked for
	// again. A tool call that was interrupted is treated as the tool's Effect says. A
	// call that changes something does not begin before it is recorded and on the disk.
	// An agent whose log cannot be written ends as Failed. Budgets count what was
	// recorded; deadlines begin anew. Agents that run in tools are not recorded, but the
	// tool's call is. The caller opens the journal and closes it.
	Journal *journal.Journal

	// OnEvent, if not nil, gets the events of all agents, one at a time and in order, on
	// a goroutine of its own. It never blocks an agent: up to 65,536 events wait for it.
	// Further ones are dropped and counted, except ends, stalls and others that are told
	// only once. At its end Run waits up to one second until all events are delivered,
	// but not beyond its deadline. If OnEvent panics it loses only that event.
	OnEvent func(Event)

	// Logger, if not nil, gets a line for each event, named "agentloop: " and the kind.
	// Output of models and tools is not in it, except in errors.
	Logger *slog.Logger

	// Rand returns random numbers in [0,1) for the jitter of pauses, from several
	// goroutines. Numbers outside are clamped; a panic counts as 0. Nil means
	// math/rand/v2.
	Rand func() float64
}

// The defaults of GroupConfig.
const (
	defaultMaxDepth     = 4
	defaultTimeout      = 2 * time.Hour
	defaultRestarts     = 3
	defaultBackoff      = time.Second
	defaultStallAfter   = 5 * time.Minute
	defaultGrace        = 50 * time.Millisecond
	defaultDraftTimeout = time.Second

	maxBackoff = time.Minute

	// slack is how much later than its deadline a group may return.
	slack = 100 * time.Millisecond
	// unwind is the processor time that the end of one agent takes, measured with much
	// to spare. Up to manyAgents agents end within slack.
	unwind     = 100 * time.Microsecond
	manyAgents = 1000
	// reserve is the part of slack that is not given to hooks: for the report,
	// and for a machine that is busy.
	reserve = 20 * time.Millisecond
)

func (c GroupConfig) filled() GroupConfig {
	fill(&c.MaxDepth, defaultMaxDepth)
	fill(&c.Timeout, defaultTimeout)
	fill(&c.Restarts, defaultRestarts)
	fill(&c.Backoff, defaultBackoff)
	fill(&c.StallAfter, defaultStallAfter)
	fill(&c.Grace, defaultGrace)
	fill(&c.DraftTimeout, defaultDraftTimeout)
	c.MaxDepth = min(c.MaxDepth, endless)
	c.Grace, c.DraftTimeout = min(c.Grace, forever), min(c.DraftTimeout, forever)
	c.Systemic = c.Systemic.filled()
	c.Restart = maps.Clone(c.Restart)
	if c.WindDown == 0 {
		need := max(0, c.Grace)
		if slices.ContainsFunc(c.Agents, func(a *Agent) bool { return a.cfg.Draft != nil }) {
			need += c.DraftTimeout + max(0, c.Grace)
		}
		need += time.Duration(max(0, len(c.Agents)-manyAgents)) * unwind
		c.WindDown = min(need-slack/2, c.Timeout/10)
	}
	c.WindDown = max(0, min(c.WindDown, c.Timeout))
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
	if cfg.DraftTimeout < 0 {
		return nil, fmt.Errorf("agentloop: DraftTimeout is %v, want 0 (for %v) or more", cfg.DraftTimeout, defaultDraftTimeout)
	}
	for of, policy := range cfg.Restart {
		if err := policy.check(of); err != nil {
			return nil, err
		}
	}
	if cfg.RestartsPer < 0 {
		return nil, fmt.Errorf("agentloop: RestartsPer is %v, want 0 (in a row) or more", cfg.RestartsPer)
	}
	if cfg.OnStall < StallReport || cfg.OnStall > StallEnd {
		return nil, fmt.Errorf("agentloop: OnStall is %d, want one of the constants", cfg.OnStall)
	}
	if err := cfg.Systemic.check(); err != nil {
		return nil, err
	}
	return &Group{cfg: cfg.filled()}, nil
}
