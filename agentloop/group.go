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
	// Agents are what the group runs. Their names differ.
	Agents []*Agent

	// Parallel is how many are at work at the same time; they start in order.
	// One that is parked (see Backoff) is not at work, and agents that run in tools
	// are not counted. Zero or a negative value means all at once.
	Parallel int

	// InFlight is how many calls of models are under way at the same time, those
	// of agents and of groups in tools included. No agent holds one of these places while it runs
	// tools, waits for other agents (also within its Model) or pauses, so none can lock others
	// out; nor does a silent call to an endpoint that has answered later ones. A call that probes
	// (Systemic) may be under way besides. Zero or a negative value means no bound:
	// the client may well have one.
	InFlight int

	// MaxDepth is how deep agents may run in tools of agents: 1 allows a tool of the
	// group's agents to run agents, but not their tools. Beyond, an agent ends as Failed
	// with [ErrTooDeep] before it asks its model. Groups that run in tools are within
	// the bounds of those around them. Zero means 4, a negative value no bound.
	MaxDepth int

	// Deadline bounds the whole run: Run returns at most 100 ms after it. Agents
	// still at work end as Exhausted, or Abandoned if they cannot. Zero means 2
	// hours, a negative value none.
	Deadline time.Duration

	// WindDown is how long before Deadline agents are stopped, so that tools can
	// return and Draft hooks can save. Zero means as long as Grace and
	// DraftDeadline may take beyond 50 ms, but at most a tenth of Deadline: 1.05
	// seconds with the defaults if an agent has a Draft hook, else nothing. Groups
	// of more than a thousand take a little more. A negative value means nothing:
	// then there is what is left of 100 ms.
	WindDown time.Duration

	// Restarts is how many passing faults of the model an agent survives: in a
	// row, which a completed round ends, or, if RestartsPer is set, within any
	// stretch of that length. Zero means 3, a negative value none.
	Restarts    int
	RestartsPer time.Duration

	// Restart says which agents are started again that ended otherwise, by their
	// outcome: Failed and Stalled. Nil means none. A pause comes before, as before
	// other restarts.
	Restart map[Outcome]RestartPolicy

	// Backoff is the pause before the first restart of a row; it doubles up to
	// a minute, is never shorter than the model's RetryAfter, and is lengthened
	// by up to half at random so that agents do not return as one. A RetryAfter of
	// more than a minute parks the agent: another one may have its turn meanwhile.
	// A pause that does not fit is not begun: the agent ends as Exhausted if the
	// deadline is one of this package, as Failed if it is the caller's. Zero means
	// 1 second, a negative value no pause but RetryAfter.
	Backoff time.Duration

	// Systemic says when trouble is no agent's own but that of an endpoint, and
	// what is done about it. It is announced once, and acted on once.
	Systemic SystemicConfig

	// StallAfter is how long an agent may show no life before the watchdog
	// announces it: an event, a log line ("agentloop: stalled"), a count in the
	// report and in the journal's log of the run. Each stall is announced once. Life
	// is whatever the agent does, output of the model and bytes of its answer, calls
	// of [Alive], lines in the journal, and agents that live in its tools. Calls of
	// tools beside each other are judged each by its own life, and so is each call of
	// the model: one that was given up is no life of the next. Tools within a deadline,
	// pauses, and waits that the client has told of (chat.Request.OnWait) are no stall;
	// model calls get twice the time of the slowest answered one if that is more.
	// Zero means 5 minutes, a negative value no watchdog.
	StallAfter time.Duration

	// OnStall is what is done about a stall after it was announced. Zero means
	// nothing.
	OnStall StallAction

	// Explain, if not nil, says in a line what may be the matter, such as what the
	// server is known to be busy with. It is asked when a stall or trouble of all is
	// about to be announced, one call at a time; the line is in the error, the event
	// and the report. What it says after 100 ms is not waited for, and if it panics
	// there is no line.
	Explain func() string

	// Grace is how long tools and model calls may take to return after their
	// context has ended, before they are abandoned. At the group's deadline it is
	// half of what is left, at most, if there is a Draft hook. Zero means 50 ms, a
	// negative value none.
	Grace time.Duration

	// DraftDeadline bounds each Draft hook. Zero means 1 second; there is no
	// way to wait for ever.
	DraftDeadline time.Duration

	// Journal, if not nil, keeps what agents do, so that a run which was killed can
	// go on: a Run with the same journal takes up each agent where its log ends.
	// Agents that were done are not run again; answers and results that are
	// recorded are not asked for again; a call of a tool that was under way is
	// treated as the tool's Effect says. Nothing that changes something is begun
	// before it is recorded and on the disk. An agent whose log cannot be written
	// ends as Failed. Budgets count what was recorded; deadlines begin anew. Agents
	// that run in tools are not recorded, their tool's call is. The caller opens
	// the journal and closes it.
	Journal *journal.Journal

	// OnEvent, if not nil, hears what happens to all agents, one event at a
	// time and in order, on a goroutine of its own. It never blocks an agent:
	// 65,536 events wait for it, further ones are dropped and counted, except ends,
	// stalls and what else is told only once. Run waits up to one second at its end
	// until all is heard, and not beyond its deadline. If it panics only that event
	// is lost to it.
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
	defaultMaxDepth      = 4
	defaultDeadline      = 2 * time.Hour
	defaultRestarts      = 3
	defaultBackoff       = time.Second
	defaultStallAfter    = 5 * time.Minute
	defaultGrace         = 50 * time.Millisecond
	defaultDraftDeadline = time.Second

	maxBackoff = time.Minute

	// slack is within what time after its deadline a group returns.
	slack = 100 * time.Millisecond
	// unwind is what an agent's end takes of a processor, as measured, with much to
	// spare; up to manyAgents of them end within slack.
	unwind     = 100 * time.Microsecond
	manyAgents = 1000
	// reserve is the part of slack that is not given to hooks: for the report,
	// and for a machine that is busy.
	reserve = 20 * time.Millisecond
)

func (c GroupConfig) filled() GroupConfig {
	fill(&c.MaxDepth, defaultMaxDepth)
	fill(&c.Deadline, defaultDeadline)
	fill(&c.Restarts, defaultRestarts)
	fill(&c.Backoff, defaultBackoff)
	fill(&c.StallAfter, defaultStallAfter)
	fill(&c.Grace, defaultGrace)
	fill(&c.DraftDeadline, defaultDraftDeadline)
	c.MaxDepth = min(c.MaxDepth, endless)
	c.Grace, c.DraftDeadline = min(c.Grace, forever), min(c.DraftDeadline, forever)
	c.Systemic = c.Systemic.filled()
	c.Restart = maps.Clone(c.Restart)
	if c.WindDown == 0 {
		need := max(0, c.Grace)
		if slices.ContainsFunc(c.Agents, func(a *Agent) bool { return a.cfg.Draft != nil }) {
			need += c.DraftDeadline + max(0, c.Grace)
		}
		need += time.Duration(max(0, len(c.Agents)-manyAgents)) * unwind
		c.WindDown = min(need-slack/2, c.Deadline/10)
	}
	c.WindDown = max(0, min(c.WindDown, c.Deadline))
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
