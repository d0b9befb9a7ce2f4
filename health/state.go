package health

// A State is the diagnosis of a service.
type State string

// The states: first trouble of the server, then trouble on our side, then those in
// which nothing is known to be wrong.
const (
	StateUnreachable     State = "unreachable"
	StateOutOfQuota      State = "out of quota"
	StateThrottled       State = "throttled"
	StatePartialRestart  State = "partial restart"
	StateWedgedTransfer  State = "wedged transfer"
	StateWedgedHandshake State = "wedged handshake" // between prefill and decode
	StateStuckPrefill    State = "prefill stuck after aborts"
	StateLongContext     State = "long contexts hang"
	StateWedgedEngine    State = "wedged engine"
	StateFrontEndAlone   State = "front end alone alive"
	StateRunaway         State = "runaway generation"
	StateLost            State = "requests lost before the engine"
	StateFailing         State = "answers with errors"
	StateOwnAborts       State = "aborts of our own"
	StateRouterFull      State = "queue full at the router"
	StateSerialised      State = "serialised decode"
	StateMemoryFull      State = "memory for keys and values exhausted"
	StatePrefillBound    State = "prefill-bound"
	StateSaturated       State = "saturated"

	StateOwnBreaker State = "our breaker is the queue"
	StateOwnQueue   State = "our pacer is the queue"
	StateStuckTool  State = "a tool of ours is stuck"
	StateOneCaller  State = "one caller only"

	StateBusy       State = "busy"
	StateRecovered  State = "recovered"
	StateHealthy    State = "healthy"
	StateIdle       State = "idle"     // nothing to tell by
	StateUnproven   State = "unproven" // idle since a fault
	StateCannotTell State = "cannot tell"
)

// Fault reports whether something is wrong in that state, on the server's side or
// on ours. A busy or saturated server is no fault.
func (s State) Fault() bool {
	switch s {
	case "", StateBusy, StateSaturated, StatePrefillBound, StateRecovered, StateHealthy, StateIdle, StateUnproven, StateCannotTell:
		return false
	}
	return true
}

// theirs reports whether the trouble is the server's.
func (s State) theirs() bool {
	switch s {
	case StateOwnBreaker, StateOwnQueue, StateStuckTool, StateOneCaller:
		return false
	}
	return s.Fault()
}

// stopped reports whether calls that wait get no answer in that state.
func (s State) stopped() bool {
	switch s {
	case StateWedgedEngine, StateFrontEndAlone, StateWedgedTransfer, StateWedgedHandshake, StatePartialRestart, StateLost:
		return true
	}
	return false
}

// advances reports whether the server makes progress in that state, even slowly.
func (s State) advances() bool {
	switch s {
	case StateBusy, StateSaturated, StatePrefillBound, StateMemoryFull, StateSerialised, StateOwnAborts, StateRecovered, StateHealthy:
		return true
	}
	return false
}

// advice is what to do in a state.
var advice = map[State][]string{
	StateUnreachable:     {"see whether the process lives and the address is right: %s", "calls wait for the breaker meanwhile; nothing needs to be restarted on our side"},
	StateOutOfQuota:      {"look at the account's balance and limits; waiting does not help"},
	StateThrottled:       {"set the pacer's limits to what the account allows, so that calls wait here instead of being refused there"},
	StatePartialRestart:  {"restart both sides together: what the other one still holds belongs to the process that is gone", "abort nothing meanwhile: each abort may hold a slot for minutes"},
	StateWedgedTransfer:  {"look at the network between prefill and decode; restart both sides together if it is well", "send no retries until transfers complete"},
	StateWedgedHandshake: {"look at the bootstrap server's address and port as the decode side sees them; restart both sides together"},
	StateStuckPrefill:    {"restart the prefill side at the next quiet moment: what is stuck keeps its memory", "raise client timeouts, so that fewer requests are aborted on the way"},
	StateLongContext:     {"compare the settings of attention, chunked prefill and context length with the last good run", "keep prompts below the size that still passes"},
	StateWedgedEngine:    {"take stacks of the scheduler's processes (py-spy dump), then restart the engine; it does not come back by itself", "send no retries to it"},
	StateFrontEndAlone:   {"look at the engine's processes behind the front end: they are gone or blocked; restart the server", "do not trust its /health"},
	StateRunaway:         {"set max_tokens; look at the stop tokens and the chat template", "Limits.OutputTokens and Limits.RepeatBytes end such answers"},
	StateLost:            {"calls may be sent again at once: the server does not work on them", "look at what stands between us and the engine: router, load balancer, a queue that overflowed"},
	StateFailing:         {"read the server's log for what it answers"},
	StateOwnAborts:       {"raise the callers' timeouts above what the server needs now, and lower how many calls are in flight", "leave it alone for as long as aborted requests hold their slots"},
	StateRouterFull:      {"raise the router's limits, or lower how many calls are in flight: the engine has room"},
	StateSerialised:      {"look for max_running_requests, a batch size of one, or a scheduler that batches no more; compare the settings with the last good run"},
	StateMemoryFull:      {"fewer calls in flight or shorter prompts: what is put off is computed again", "look at the memory fraction and the context length that was set", "if nothing runs and it stays full, what was aborted has not given it back: restart the engine"},
	StatePrefillBound:    {"wait; more calls make it slower", "prompts that begin alike would be cached"},
	StateSaturated:       {"wait; more calls or retries make it slower", "bound how many calls are in flight by the pacer"},
	StateOwnBreaker:      {"it lets a trial through by itself; a shorter Cooldown does so sooner"},
	StateOwnQueue:        {"the server has room: raise the pacer's limits"},
	StateStuckTool:       {"give the tool a timeout, or cancel its agent"},
	StateOneCaller:       {"look at what it asks; others are served"},
	StateUnproven:        {"one small call would prove it"},
}
