package agentloop

import "time"

// An EventKind says what happened.
type EventKind string

// The kinds of events about an agent, with the fields of [Event] that they set
// beside Time, Agent, Kind and Round.
const (
	// EventStarted: the agent began.
	EventStarted EventKind = "started"
	// EventResumed: the agent is where its journal ends. Text says how much was
	// recorded, Step is the last one taken.
	EventResumed EventKind = "resumed"
	// EventRound: a request goes to the model.
	EventRound EventKind = "round"
	// EventAnswered: the model answered. Text, After.
	EventAnswered EventKind = "answered"
	// EventToolStarted: a call of a tool began. Tool, CallID.
	EventToolStarted EventKind = "tool_started"
	// EventToolProgress: a tool told something. Tool, CallID, Text.
	EventToolProgress EventKind = "tool_progress"
	// EventToolEnded: a call of a tool came back. Tool, CallID, After, Err.
	EventToolEnded EventKind = "tool_ended"
	// EventToolPanicked: a tool panicked. Tool, CallID, After, Err is a [PanicError].
	EventToolPanicked EventKind = "tool_panicked"
	// EventToolAbandoned: a tool ignored the end of its context and was left behind.
	// Tool, CallID, After, Err.
	EventToolAbandoned EventKind = "tool_abandoned"
	// EventToolRefused: a call was not run. Tool, CallID, Err says why.
	EventToolRefused EventKind = "tool_refused"
	// EventUncertain: a call was interrupted, now or in an earlier run, and is not to
	// be repeated. Tool, CallID.
	EventUncertain EventKind = "uncertain"
	// EventStep: a step was taken. Tool, Step.
	EventStep EventKind = "step"
	// EventNudged: the model was given advice. Err says why, Step is the one due.
	EventNudged EventKind = "nudged"
	// EventNarrowed: only the tools of the step that is due are offered. Step.
	EventNarrowed EventKind = "narrowed"
	// EventForced: the step that is due is demanded with tool_choice. Step.
	EventForced EventKind = "forced"
	// EventWarned: the model was warned that it repeats itself.
	EventWarned EventKind = "warned"
	// EventShrunk: the conversation was too long. Text says what was done.
	EventShrunk EventKind = "shrunk"
	// EventSummarized: the model was asked to sum up. Text, After, or Err if that
	// failed.
	EventSummarized EventKind = "summarized"
	// EventRestart: a passing fault, and the agent goes on after a pause. Err is the
	// fault, After the pause to come.
	EventRestart EventKind = "restart"
	// EventParked: a restart after a pause of more than a minute that the model asked
	// for. Err, After.
	EventParked EventKind = "parked"
	// EventStalled: the watchdog spoke. Text is what the agent waits for and what
	// Explain says, After since when, Tool and CallID name the call if it is one of a
	// tool, Err is a [StallError].
	EventStalled EventKind = "stalled"
	// EventEnded: the agent has ended. Outcome, Err, After is how long the run took.
	EventEnded EventKind = "ended"
)

// The kinds of events about the group; they have no Agent.
const (
	// EventSystemic: most agents are in trouble. Text is what Explain says, Err a
	// [SystemicError].
	EventSystemic EventKind = "systemic"
	// EventRecovered: the trouble is over. After is the time since it was announced.
	EventRecovered EventKind = "recovered"
	// EventGroupEnded is the last event. Text says how it went, with the number of
	// stalls. After, Err.
	EventGroupEnded EventKind = "group_ended"
)

// An Event is something that happened to an agent.
type Event struct {
	Seq     uint64 // from 1, without gaps but for events that were dropped
	Time    time.Time
	Agent   string
	Kind    EventKind
	Round   int
	Tool    string
	CallID  string
	Step    string
	Text    string
	Outcome Outcome
	After   time.Duration
	Err     error
}
