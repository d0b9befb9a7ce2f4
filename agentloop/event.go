package agentloop

import "time"

// An EventKind says what happened.
type EventKind string

// The kinds of events, with the fields of [Event] that they set beside Time,
// Agent, Kind and Round.
const (
	EventStarted       EventKind = "started"        // the agent began
	EventResumed       EventKind = "resumed"        // it is where its journal ends; Text; Step: the last one taken
	EventRound         EventKind = "round"          // a request goes to the model
	EventAnswered      EventKind = "answered"       // the model answered; Text, After
	EventToolStarted   EventKind = "tool_started"   // Tool, CallID
	EventToolProgress  EventKind = "tool_progress"  // Tool, CallID, Text: what the tool said
	EventToolEnded     EventKind = "tool_ended"     // Tool, CallID, After, Err
	EventToolPanicked  EventKind = "tool_panicked"  // Tool, CallID, After, Err (a *PanicError)
	EventToolAbandoned EventKind = "tool_abandoned" // Tool, CallID, After, Err
	EventToolRefused   EventKind = "tool_refused"   // Tool, CallID, Err: the call was not run
	EventUncertain     EventKind = "uncertain"      // Tool, CallID: interrupted, now or before, and not to be repeated
	EventStep          EventKind = "step"           // Tool, Step
	EventNudged        EventKind = "nudged"         // Err: why; Step: the one due
	EventNarrowed      EventKind = "narrowed"       // Step: the one whose tools alone are offered
	EventForced        EventKind = "forced"         // Step: the one demanded with tool_choice
	EventWarned        EventKind = "warned"         // the model repeats itself
	EventShrunk        EventKind = "shrunk"         // the conversation was too long; Text: what was done
	EventSummarized    EventKind = "summarized"     // the model was asked to sum up; Text, After, Err: why in vain
	EventRestart       EventKind = "restart"        // Err: the fault; After: the pause to come
	EventParked        EventKind = "parked"         // a restart after a long pause that the model asked for; Err, After
	EventStalled       EventKind = "stalled"        // the watchdog: Text: what it waits for, and what Explain says; After: since when; Tool, CallID: if it is one; Err: a [StallError]
	EventEnded         EventKind = "ended"          // Outcome, Err, After: the run
)

// The kinds of events that are about the group; they have no Agent.
const (
	EventSystemic   EventKind = "systemic"    // most agents are in trouble; Text: what Explain says; Err: a [SystemicError]
	EventRecovered  EventKind = "recovered"   // that is over; After: since when it was announced
	EventGroupEnded EventKind = "group_ended" // the last one; Text: how it went, with the stalls; After, Err
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
