package agentloop

import (
	"time"

	"github.com/neverhang/neverhang/chat"
)

// An Outcome says how an agent ended.
type Outcome string

// The outcomes. Every agent has exactly one.
const (
	// Done: all required steps were taken; without a progression, the model answered
	// with a complete text.
	Done Outcome = "done"
	// Stalled: the model made no progress: it stopped early, answered nothing, or
	// repeated itself, against all advice. Or it showed no sign of life, and OnStall is
	// StallEnd.
	Stalled Outcome = "stalled"
	// Exhausted: a bound was reached: a budget, the context window, or the timeout of
	// agent or group, even if that only leaves too little time to go on after a fault.
	// Err is a [BudgetError], [ContextError] or [TimeoutError].
	Exhausted Outcome = "exhausted"
	// Failed: the model or a tool failed for good, the restarts are used up, or the
	// group stopped because its endpoint fails most agents.
	Failed Outcome = "failed"
	// Cancelled: the caller's context, CancelGroup or CancelAgents ended it, and its
	// code returned in time.
	Cancelled Outcome = "cancelled"
	// Abandoned: its context ended, for whatever reason, but the model call or tool that
	// it waited for ignored that and still runs.
	Abandoned Outcome = "abandoned"
)

// A Result is the outcome of one agent's run.
type Result struct {
	Name    string
	Outcome Outcome

	// Err is the cause; nil if and only if the outcome is Done. It matches
	// [context.DeadlineExceeded] only for the caller's deadline. Errors of models, tools
	// and callers are wrapped so that their methods do no harm; errors.Is and errors.As
	// find them.
	Err error

	// Steps are the names of the steps taken, in order; Missing the names of the
	// required ones that were not.
	Steps   []string
	Missing []string

	Rounds    int // answers of the model, whole ones
	Restarts  int // pauses after a passing fault
	ToolCalls int // calls that ran
	Nudges    int // answers met with advice
	Forced    int // requests that demanded a tool with tool_choice
	Shrinks   int // how often the conversation was shrunk to fit

	// Usage sums what the server counted. For answers without a count, EstimatedTokens
	// sums the estimates. Cost sums what Config.Price returned.
	Usage           chat.Usage
	EstimatedTokens int64
	Cost            float64

	// Text is the last text of the model, even beside calls. If the outcome is not Done
	// it is not an answer.
	Text string

	// Draft is what Config.Draft returned, DraftErr its error.
	Draft    string
	DraftErr error

	// Messages is the conversation as the model would see it next. It is valid as
	// Config.Messages of another run.
	Messages []chat.Message

	// Started is zero if the agent never started.
	Started  time.Time
	Duration time.Duration

	// Replayed is how many of Rounds came from the journal.
	Replayed int

	// Uncertain lists calls of EffectOnce tools whose effect nobody knows: they timed
	// out, were ended, panicked, or were under way when an earlier process ended. The
	// model was told so, and not asked to repeat them.
	Uncertain []Uncertainty

	// JournalErr is why the agent's end is not in the journal. Everything before is.
	JournalErr error

	// Stuck says what the agent waited for when its context ended, since when,
	// and what it did before. It is empty if the agent ended by itself.
	Stuck string

	// Panics are those of its tools, its model, its hook and Rand. Abandoned lists user
	// code that ignored its context; the agent may still have ended well.
	Panics    []*PanicError
	Abandoned []Abandonment
}

// An Abandonment is user code that was left behind because it ignored its
// context. Its goroutine carries the pprof labels agent, in and call.
type Abandonment struct {
	Agent   string
	In      string // model, draft, rand, journal, or "tool NAME"
	CallID  string // of the tool call
	Started time.Time
	Waited  time.Duration // its age when it was given up

	// Stack is the stacks of its goroutines at that time, as a goroutine profile has
	// them, or in parentheses why they are not known.
	Stack string
}

// An Uncertainty is a call of a tool that may have taken effect, or not.
type Uncertainty struct {
	Agent     string
	Tool      string
	CallID    string
	Arguments string // JSON
}

// A Report is the outcome of a group's run.
type Report struct {
	Started  time.Time
	Duration time.Duration

	// Results has one entry per agent, in the order of GroupConfig.Agents.
	Results []Result

	// Children are the results of agents that ran in tools of others, in the order in
	// which they ended. Counts does not include them.
	Children []Result

	// Abandoned is all user code that any agent left behind.
	Abandoned []Abandonment

	// Uncertain is all calls of any agent whose effect nobody knows.
	Uncertain []Uncertainty

	// Counts is how many agents had each outcome.
	Counts map[Outcome]int

	// Err is why the group ended its agents: a [TimeoutError], a [SystemicError], or the
	// cause of the cancellation. It is nil if every agent ended by itself.
	Err error

	// Stalls is the number of stalls that the watchdog announced (EventStalled).
	Stalls int

	// Explanations are the different lines that GroupConfig.Explain returned, a hundred
	// at most.
	Explanations []string

	// DroppedEvents is how many events OnEvent has missed because it was too slow.
	DroppedEvents int
}

// Done reports whether all agents are done.
func (r *Report) Done() bool { return r.Counts[Done] == len(r.Results) }
