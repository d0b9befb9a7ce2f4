package agentloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// Config sets up an [Agent]. Name, Model and Task (or Messages) are required;
// the zero value of everything else is the default.
type Config struct {
	// Name identifies the agent in events, results and to the Model. It is
	// unique in a group.
	Name string

	Model Model

	// Request is the template of every request: model name, MaxTokens, Temperature,
	// Priority and the like. The loop sets Messages, Tools, ToolChoice and Caller, which
	// must be empty. OnOutput, OnBytes and OnWait are called after the loop's own. The
	// loop sets Finishing when at most one step of the Progression is missing, so that a
	// client can prefer agents that are about to be done.
	Request chat.Request

	// System instructs the model. It replaces a system message at the head of
	// Messages.
	System string

	// Messages is a conversation to go on with, such as Result.Messages of an earlier
	// run. The agent mends in its own copy what a strict server would refuse: calls
	// without results, say, or a system message in its middle, which goes to the head.
	Messages []chat.Message

	// Task is what the agent is to do: a user message after Messages.
	Task string

	// Tools are what the model may call. See [NewTool].
	Tools []Tool

	// Progression is the steps that make the work complete. Without one the
	// agent is done when the model answers with text instead of a call.
	Progression Progression

	// ReadOnly makes the agent one that only looks. It offers only tools whose Effect is
	// EffectNone, and drops the steps that only other tools take. The agent is done when
	// it has taken the remaining steps and answers with text. So one configuration
	// serves writers and reviewers.
	ReadOnly bool

	// MaxRounds bounds the answers asked of the model. Zero means 100, a
	// negative value no bound.
	MaxRounds int

	// MaxTotalTokens bounds the tokens of all requests and answers; where the server
	// does not count, they are estimated. MaxToolCalls bounds the calls that run.
	// MaxCost bounds the sum of what Price returns for each answer, in the unit of
	// Price. Agents that run in the agent's tools (see [Agent.Run]) count as well. The
	// budgets are checked before each request; calls beyond MaxToolCalls are not run.
	// Then the agent ends as Exhausted, with a [BudgetError]. Zero and negative values
	// mean no bound.
	MaxTotalTokens int64
	MaxToolCalls   int
	MaxCost        float64
	Price          func(*chat.Usage) float64

	// Window is the model's context window in tokens. The answer's share of it is
	// Request.MaxTokens, or an eighth of Window if that is not set, at most 4096. A
	// conversation that would not fit is shrunk before the request is sent: old results
	// of tools are left out first; then, with Summarize, the model sums up all but the
	// last rounds; then the newest results are cut. If it still does not fit, the agent
	// ends as Exhausted, with a [ContextError]. Zero means unknown: then the
	// conversation is shrunk when the model says that it is too long, see [Model].
	Window    int
	Summarize bool

	// Nudges is how many useless answers in a row are met with advice: empty, reasoning
	// only, cut off, a stop with steps missing, or no call that could run. Zero means 2,
	// a negative value none. Progress ends the row.
	Nudges int

	// NarrowedTries is how many requests then offer only the tools of the step that is
	// due. Zero means 1, a negative value none.
	NarrowedTries int

	// ForcedTries is how many requests then demand the step with tool_choice. If a
	// server refuses tool_choice, all agents of the group ask it without from then on.
	// Zero means 2, a negative value none. Then the agent ends as Stalled, with the last
	// cause. Without a progression there is nothing to narrow or force.
	ForcedTries int

	// Repeats is how many rounds in a row may bring nothing new: calls that give for
	// the same arguments what they gave before, or fail again. It is three times as
	// many where only arguments or numbers are new, and nine times where the arguments
	// are long enough to be work (128 bytes). From half of it on the model is warned,
	// from three quarters on such calls are not run, and then the agent ends as
	// Stalled, with a [RepeatError]; docs/repeats.md of this module has the table. Zero
	// means 10, a negative value no bound.
	Repeats int

	// RepeatWindow is how many calls are remembered, and so how long a cycle of calls
	// can be and still be seen. Zero means 256.
	RepeatWindow int

	// ToolTimeout bounds each call of a tool that has no Timeout of its own.
	// Zero means one minute, a negative value none.
	ToolTimeout time.Duration

	// MaxParallelTools is how many calls of one message run at the same time. Zero means 8,
	// a negative value means all of them.
	MaxParallelTools int

	// MaxResult is how many bytes of a tool's result the model gets; the rest
	// is cut with a note. Zero means 64 KiB, a negative value no bound.
	MaxResult int

	// Timeout bounds the agent's run from its start. Zero or a negative value means that
	// only the group's Timeout bounds it.
	Timeout time.Duration

	// Draft, if not nil, saves the work of an agent that did not end as Done, and
	// returns where. It is called once, after the agent has ended, with the complete
	// result except Draft and DraftErr; not if the agent never started. It may panic or
	// fail. Its context lives one second (GroupConfig.DraftTimeout) longer than the
	// agent's; then it is left behind.
	//
	// If the outcome is Abandoned, or Result.Abandoned is not empty, a tool may still be
	// at work. Data that Draft shares with tools needs a lock that the tools do not hold
	// while they wait.
	Draft func(ctx context.Context, r *Result) (where string, err error)

	// OnEvent, if not nil, hears what happens to this agent, in order. See
	// [GroupConfig.OnEvent].
	OnEvent func(Event)
}

// The defaults of Config.
const (
	defaultMaxRounds        = 100
	defaultNudges           = 2
	defaultNarrowedTries    = 1
	defaultForcedTries      = 2
	defaultRepeats          = 10
	defaultRepeatWindow     = 256
	defaultToolTimeout      = time.Minute
	defaultMaxParallelTools = 8
	defaultMaxResult        = 64 << 10
)

// Larger values than endless and forever are replaced by these, so that sums and
// multiples of them do not overflow.
const (
	endless = math.MaxInt >> 8
	forever = time.Duration(math.MaxInt64 >> 3)
)

// An Agent is a model, tools, a task and the steps that complete it. It holds no
// state of a run, so it may run more than once, even at the same time if its tools
// allow that.
type Agent struct {
	cfg   Config
	tools map[string]*Tool
	offer []chat.Tool    // all tools, as requests carry them
	start []chat.Message // the valid history that runs begin with

	offerBytes int    // what the tools weigh in a request
	endpoint   string // what the model calls it
}

// New returns an agent, or an error that names the bad field. It copies what
// it is given.
func New(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, tools: make(map[string]*Tool, len(cfg.Tools))}
	if err := a.check(); err != nil {
		return nil, err
	}
	c := &a.cfg
	fill(&c.MaxRounds, defaultMaxRounds)
	fill(&c.Nudges, defaultNudges)
	fill(&c.NarrowedTries, defaultNarrowedTries)
	fill(&c.ForcedTries, defaultForcedTries)
	fill(&c.Repeats, defaultRepeats)
	fill(&c.RepeatWindow, defaultRepeatWindow)
	fill(&c.ToolTimeout, defaultToolTimeout)
	fill(&c.MaxParallelTools, defaultMaxParallelTools)
	fill(&c.MaxResult, defaultMaxResult)
	if c.ReadOnly {
		a.onlyLook()
	}
	for _, t := range a.offer {
		a.offerBytes += len(t.Name) + len(t.Description) + len(t.Parameters) + messageOverhead
	}
	a.endpoint = endpointOf(c.Model)
	c.Request = cloneRequest(c.Request)
	c.Request.Caller = c.Name
	return a, nil
}

// fill puts the default in the place of zero.
func fill[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (a *Agent) check() error {
	c := &a.cfg
	switch r := &c.Request; {
	case c.Name == "":
		return errors.New("agentloop: Name is empty")
	case c.Model == nil:
		return a.bad("Model is nil")
	case len(r.Messages) > 0:
		return a.bad("Request.Messages is set, want System, Messages and Task")
	case len(r.Tools) > 0:
		return a.bad("Request.Tools is set, want Tools")
	case r.ToolChoice != chat.ToolChoice{}:
		return a.bad("Request.ToolChoice is set, but the loop chooses")
	case r.Caller != "" && r.Caller != c.Name:
		return a.bad("Request.Caller is %q, but the loop sets it to Name", r.Caller)
	}
	if err := a.checkTools(); err != nil {
		return err
	}
	if err := c.Progression.check(a.tools); err != nil {
		return fmt.Errorf("%w (agent %q)", err, c.Name)
	}
	c.Progression = c.Progression.clone()
	switch {
	case c.RepeatWindow < 0:
		return a.bad("RepeatWindow is %d, want 0 (for %d) or more", c.RepeatWindow, defaultRepeatWindow)
	case c.Window < 0:
		return a.bad("Window is %d, want 0 (for unknown) or more", c.Window)
	case c.MaxCost > 0 && c.Price == nil:
		return a.bad("MaxCost is %v, but Price is nil", c.MaxCost)
	case math.IsNaN(c.MaxCost):
		return a.bad("MaxCost is not a number")
	}
	return a.open()
}

// onlyLook removes all tools that change something.
func (a *Agent) onlyLook() {
	lacks := func(tool string) bool { return a.tools[tool].Effect != EffectNone }
	a.cfg.Progression = a.cfg.Progression.without(lacks)
	a.offer = slices.DeleteFunc(a.offer, func(t chat.Tool) bool { return lacks(t.Name) })
	maps.DeleteFunc(a.tools, func(_ string, t *Tool) bool { return t.Effect != EffectNone })
}

func (a *Agent) checkTools() error {
	c := &a.cfg
	c.Tools = slices.Clone(c.Tools)
	for i := range c.Tools {
		t := &c.Tools[i]
		if err := t.check(); err != nil {
			return fmt.Errorf("%w (agent %q)", err, c.Name)
		}
		if a.tools[t.Name] != nil {
			return a.bad("Tools has two with the name %q", t.Name)
		}
		t.Parameters = bytes.Clone(t.Parameters)
		a.tools[t.Name] = t
		a.offer = append(a.offer, chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return nil
}

// open builds the conversation that runs begin with.
func (a *Agent) open() error {
	c := &a.cfg
	var msgs []chat.Message
	rest := cloneMessages(c.Messages)
	if c.System != "" {
		msgs = append(msgs, chat.System(c.System))
		if len(rest) > 0 && (rest[0].Role == chat.RoleSystem || rest[0].Role == chat.RoleDeveloper) {
			rest = rest[1:]
		}
	}
	msgs = append(msgs, rest...)
	if c.Task != "" {
		msgs = append(msgs, chat.User(c.Task))
	}
	a.start = newHistory(msgs).msgs
	c.Messages = nil
	if len(a.start) == 0 {
		return a.bad("Task and Messages are empty")
	}
	if last := a.start[len(a.start)-1]; last.Role != chat.RoleUser && last.Role != chat.RoleTool {
		return a.bad("Task is empty and the last message is of role %q, want user or tool", last.Role)
	}
	return nil
}

func (a *Agent) bad(format string, args ...any) error {
	return fmt.Errorf("agentloop: agent %q: %s", a.cfg.Name, fmt.Sprintf(format, args...))
}

// Name returns the agent's name.
func (a *Agent) Name() string { return a.cfg.Name }

// Run runs the agent alone: as a [Group] of one, with the group's defaults.
//
// If a tool of another agent calls it with the tool's context, it runs the agent as a
// member of that agent's group: with the group's deadline, watchdog, policies and
// events. It ends with the group even if the tool does not wait for it. Its expenses
// count on the budgets of both agents, and its result is also in Report.Children. Set
// Tool.RunsAgents for such a tool; otherwise the tool's timeout, one minute, bounds
// the agent as well. GroupConfig.MaxDepth bounds how deep agents run in tools of
// agents.
func (a *Agent) Run(ctx context.Context) Result {
	if r := self(ctx); r != nil {
		return r.group.child(ctx, a)
	}
	g := &Group{cfg: GroupConfig{Agents: []*Agent{a}}.filled()}
	return g.Run(ctx).Results[0]
}

// toolNames lists the tools for the model.
func (a *Agent) toolNames() string {
	if len(a.offer) == 0 {
		return "none"
	}
	list := make([]string, len(a.offer))
	for i := range a.offer {
		list[i] = a.offer[i].Name
	}
	return strings.Join(list, ", ")
}
