package agentloop

import "time"

// An EventKind says what happened.
type EventKind string

// The kinds of events, with the fields of [Event] that they set beside Time,
// Agent, Kind and Round.
const (
	EventStarted       EventKind = "started"        // the agent began
	EventRound         EventKind = "round"          // a request goes to the model
	EventAnswered      EventKind = "answered"       // the model answered; Text, After
	EventToolStarted   EventKind = "tool_started"   // Tool, CallID
	EventToolEnded     EventKind = "tool_ended"     // Tool, CallID, After, Err
	EventToolPanicked  EventKind = "tool_panicked"  // Tool, CallID, After, Err (a *PanicError)
	EventToolAbandoned EventKind = "tool_abandoned" // Tool, CallID, After, Err
	EventToolRefused   EventKind = "tool_refused"   // Tool, CallID, Err: the call was not run
	EventStep          EventKind = "step"           // Tool, Step
	EventNudged        EventKind = "nudged"         // Err: why; Step: the one due
	EventNarrowed      EventKind = "narrowed"       // Step: the one whose tools alone are offered
	EventForced        EventKind = "forced"         // Step: the one demanded with tool_choice
	EventWarned        EventKind = "warned"         // the model repeats itself
	EventShrunk        EventKind = "shrunk"         // the conversation was too long; Text: what was done
	EventSummarized    EventKind = "summarized"     // the model was asked to sum up; Text, After, Err: why in vain
	EventRestart       EventKind = "restart"        // Err: the fault; After: the pause to come
	EventStalled       EventKind = "stalled"        // the watchdog: Text: what it waits for; After: since when
	EventEnded         EventKind = "ended"          // Outcome, Err, After: the run
)

// An Event is something that happened to an agent.
type Event struct {
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
