package agentloop

import (
	"time"

	"github.com/neverhang/neverhang/chat"
)

// An Outcome says how an agent ended.
type Outcome string

// The outcomes. Every agent has exactly one.
const (
	// Done: all required steps were taken; without a progression, the model
	// answered with a whole text.
	Done Outcome = "done"
	// Stalled: the model made no progress: it stopped early, answered nothing,
	// or repeated itself, against all advice. Or it showed no life at all, and
	// OnStall says that this is an end.
	Stalled Outcome = "stalled"
	// Exhausted: a bound was reached: a budget, the context window, or a deadline
	// of agent or group, also if it leaves too little time to go on after a fault.
	// Err is a [BudgetError], [ContextError] or [DeadlineError].
	Exhausted Outcome = "exhausted"
	// Failed: the model or a tool failed for good, restarts are used up, or the
	// group stopped since its endpoint fails all.
	Failed Outcome = "failed"
	// Cancelled: the caller's context, CancelGroup or CancelAgents ended it, in
	// time.
	Cancelled Outcome = "cancelled"
	// Abandoned: its context was ended, for whatever reason, but the model call
	// or a tool that it waited for ignored that and is still there.
	Abandoned Outcome = "abandoned"
)

// A Result is how one agent's run ended and what it left.
type Result struct {
	Name    string
	Outcome Outcome

	// Err is the cause; nil if and only if the outcome is Done. It matches
	// [context.DeadlineExceeded] only for a deadline of the caller's. Errors of
	// models, tools and callers are wrapped so that their methods do no harm;
	// errors.Is and errors.As find them.
	Err error

	// Steps are the names of the steps taken, in order; Missing those of the
	// required ones that were not.
	Steps   []string
	Missing []string

	Rounds    int // answers of the model, whole ones
	Restarts  int // pauses after a passing fault
	ToolCalls int // calls that ran
	Nudges    int // answers met with advice
	Forced    int // requests that demanded a tool with tool_choice
	Shrinks   int // how often the conversation was shrunk to fit

	// Usage sums what the server counted; answers without a count add nothing, but
	// what they are estimated to have taken is in EstimatedTokens. Cost sums what
	// Config.Price said.
	Usage           chat.Usage
	EstimatedTokens int64
	Cost            float64

	// Text is the last text the model gave, also beside calls. If the outcome
	// is not Done it is only an attachment.
	Text string

	// Draft is what Config.Draft returned, and DraftErr why it could not.
	Draft    string
	DraftErr error

	// Messages is the conversation as the model would see it next, valid to go on
	// with in another run.
	Messages []chat.Message

	// Started is zero if the agent never started.
	Started  time.Time
	Duration time.Duration

	// Replayed is how many of Rounds were not asked for but found in the journal.
	Replayed int

	// Uncertain lists calls of EffectOnce tools whose effect nobody knows: those that
	// ran into a deadline, were ended, panicked, or were under way when an earlier
	// process ended. Nothing asked the model to repeat them; it was told.
	Uncertain []Uncertainty

	// JournalErr is why the agent's end is not in the journal. What came before is.
	JournalErr error

	// Stuck says what the agent waited for when its context ended, since when,
	// and what it did before. It is empty if the agent ended by itself.
	Stuck string

	// Panics are those of its tools, its model, its hook and Rand. Abandoned
	// lists handlers that ignored their context; the agent may still have ended well.
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

	// Stack says where its goroutines were at that time, as a goroutine profile
	// does, or in parentheses why that is not known.
	Stack string
}

// An Uncertainty is a call of a tool that may have taken effect, or not.
type Uncertainty struct {
	Agent     string
	Tool      string
	CallID    string
	Arguments string // JSON
}

// A Report is how a group ended.
type Report struct {
	Started  time.Time
	Duration time.Duration

	// Results has one entry per agent, in the order of GroupConfig.Agents.
	Results []Result

	// Children are the results of agents that ran in tools of others, in the order
	// in which they ended. Counts is without them.
	Children []Result

	// Abandoned is all that was left behind, by any agent.
	Abandoned []Abandonment

	// Uncertain is all calls of any agent whose effect nobody knows.
	Uncertain []Uncertainty

	// Counts is how many agents had each outcome.
	Counts map[Outcome]int

	// Err is why the group ended its agents: a [DeadlineError], a [SystemicError],
	// or the cause of the cancellation. Nil if each came to an end of its own.
	Err error

	// Stalls is how often the watchdog spoke: it counts what EventStalled tells.
	Stalls int

	// Explanations is what GroupConfig.Explain said, each line once, a hundred at
	// most.
	Explanations []string

	// DroppedEvents is how many events OnEvent has not heard because it was too
	// slow by far.
	DroppedEvents int
}

// Done reports whether all agents are.
func (r *Report) Done() bool { return r.Counts[Done] == len(r.Results) }
