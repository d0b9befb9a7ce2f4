package health

// A State is what a service is in, as far as can be told.
type State string

// The states. Those that name trouble of the server come first, then ours,
// then those in which nothing is wrong.
const (
	Unreachable     State = "unreachable"
	OutOfQuota      State = "out of quota"
	Throttled       State = "throttled"
	PartialRestart  State = "partial restart"
	WedgedTransfer  State = "wedged transfer"
	WedgedHandshake State = "wedged handshake" // between prefill and decode
	StuckPrefill    State = "prefill stuck after aborts"
	LongContext     State = "long contexts hang"
	WedgedEngine    State = "wedged engine"
	FrontEndAlone   State = "front end alone alive"
	Runaway         State = "runaway generation"
	Lost            State = "requests lost before the engine"
	Failing         State = "answers with errors"
	OwnAborts       State = "aborts of our own"
	RouterFull      State = "queue full at the router"
	Serialised      State = "serialised decode"
	MemoryFull      State = "memory for keys and values exhausted"
	PrefillBound    State = "prefill-bound"
	Saturated       State = "saturated"

	OwnBreaker State = "our breaker is the queue"
	OwnQueue   State = "our pacer is the queue"
	StuckTool  State = "a tool of ours is stuck"
	OneCaller  State = "one caller only"

	Busy       State = "busy"
	Recovered  State = "recovered"
	Healthy    State = "healthy"
	Idle       State = "idle"     // nothing to tell by
	Unproven   State = "unproven" // idle since a fault
	CannotTell State = "cannot tell"
)

// Fault reports whether something is wrong in that state, be it the server's
// or ours. A server with much to do is not wrong.
func (s State) Fault() bool {
	switch s {
	case "", Busy, Saturated, PrefillBound, Recovered, Healthy, Idle, Unproven, CannotTell:
		return false
	}
	return true
}

// theirs reports whether the trouble is the server's.
func (s State) theirs() bool {
	switch s {
	case OwnBreaker, OwnQueue, StuckTool, OneCaller:
		return false
	}
	return s.Fault()
}

// stopped reports whether in that state nothing comes of the calls that wait.
func (s State) stopped() bool {
	switch s {
	case WedgedEngine, FrontEndAlone, WedgedTransfer, WedgedHandshake, PartialRestart, Lost:
		return true
	}
	return false
}

// advances reports whether in that state the server gets on, however slowly.
func (s State) advances() bool {
	switch s {
	case Busy, Saturated, PrefillBound, MemoryFull, Serialised, OwnAborts, Recovered, Healthy:
		return true
	}
	return false
}

// advice is what to do in a state.
var advice = map[State][]string{
	Unreachable:     {"see whether the process lives and the address is right: %s", "calls wait for the breaker meanwhile; nothing needs to be restarted on our side"},
	OutOfQuota:      {"look at the account's balance and limits; waiting does not help"},
	Throttled:       {"set the pacer's limits to what the account allows, so that calls wait here instead of being refused there"},
	PartialRestart:  {"restart both sides together: what the other one still holds belongs to the process that is gone", "abort nothing meanwhile: each abort may hold a slot for minutes"},
	WedgedTransfer:  {"look at the network between prefill and decode; restart both sides together if it is well", "send no retries until transfers complete"},
	WedgedHandshake: {"look at the bootstrap server's address and port as the decode side sees them; restart both sides together"},
	StuckPrefill:    {"restart the prefill side at the next quiet moment: what is stuck keeps its memory", "raise client timeouts, so that fewer requests are aborted on the way"},
	LongContext:     {"compare the settings of attention, chunked prefill and context length with the last good run", "keep prompts below the size that still passes"},
	WedgedEngine:    {"take stacks of the scheduler's processes (py-spy dump), then restart the engine; it does not come back by itself", "send no retries to it"},
	FrontEndAlone:   {"look at the engine's processes behind the front end: they are gone or blocked; restart the server", "do not trust its /health"},
	Runaway:         {"set max_tokens; look at the stop tokens and the chat template", "Limits.OutputTokens and Limits.RepeatBytes end such answers"},
	Lost:            {"calls may be sent again at once: the server does not work on them", "look at what stands between us and the engine: router, load balancer, a queue that overflowed"},
	Failing:         {"read the server's log for what it answers"},
	OwnAborts:       {"raise the callers' timeouts above what the server needs now, and lower how many calls are in flight", "leave it alone for as long as aborted requests hold their slots"},
	RouterFull:      {"raise the router's limits, or lower how many calls are in flight: the engine has room"},
	Serialised:      {"look for max_running_requests, a batch size of one, or a scheduler that batches no more; compare the settings with the last good run"},
	MemoryFull:      {"fewer calls in flight or shorter prompts: what is put off is computed again", "look at the memory fraction and the context length that was set", "if nothing runs and it stays full, what was aborted has not given it back: restart the engine"},
	PrefillBound:    {"wait; more calls make it slower", "prompts that begin alike would be cached"},
	Saturated:       {"wait; more calls or retries make it slower", "bound how many calls are in flight by the pacer"},
	OwnBreaker:      {"it lets a trial through by itself; a shorter Cooldown does so sooner"},
	OwnQueue:        {"the server has room: raise the pacer's limits"},
	StuckTool:       {"give the tool a timeout, or cancel its agent"},
	OneCaller:       {"look at what it asks; others are served"},
	Unproven:        {"one small call would prove it"},
}
