package llmclient

import (
	"fmt"
	"time"
)

// A Phase is where a call is.
type Phase uint8

// The phases of a call, in the order in which it goes through them. An
// attempt begins with PhaseConnect.
const (
	PhaseStart       Phase = iota
	PhaseBackoff           // waiting to try again
	PhaseBreaker           // waiting for the circuit breaker
	PhaseQueue             // waiting for the pacer
	PhaseConnect           // waiting for a connection
	PhaseSend              // writing the request
	PhaseFirstOutput       // waiting for the model's first output
	PhaseOutput            // the answer is coming
	PhaseEnd               // the model has finished; usage and end may follow
)

var phaseNames = [...]string{"start", "backoff", "breaker", "queue", "connect", "send", "first output", "output", "end"}

// String returns the phase's name.
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// A ClockName is the name of a field of [Clocks].
type ClockName string

// The clocks by name.
const (
	ClockQueue       ClockName = "Queue"
	ClockConnect     ClockName = "Connect"
	ClockSend        ClockName = "Send"
	ClockFirstOutput ClockName = "FirstOutput"
	ClockGap         ClockName = "Gap"
	ClockSilence     ClockName = "Silence"
	ClockAttempt     ClockName = "Attempt"
	ClockEnd         ClockName = "End"
	ClockCall        ClockName = "Call"
)

// A Clock has two bounds for one wait. At Suspect nothing is cut: the wait is
// announced ([EventSuspect]) and shown by [Client.InFlight]. At Limit it ends.
//
// Zero means the default of that clock, negative means never. A Limit set at or
// below the default Suspect moves the Suspect to half of the Limit. A Suspect set
// above the default Limit moves the Limit up to it.
type Clock struct {
	Suspect time.Duration
	Limit   time.Duration
}

// Clocks bound every wait of a call. The zero value bounds them all.
//
// Output is text, reasoning or arguments of a tool. Comments, pings, roles and
// empty pieces are bytes, but no output.
type Clocks struct {
	// Queue runs while the call waits for our own pacer. Limit 2 h.
	Queue Clock

	// Connect runs from the start of a dial until the connection stands: name,
	// TCP and TLS. Limit 10 s.
	Connect Clock

	// Send runs while the request is written. It begins anew with every write that
	// makes progress. Limit 30 s.
	Send Clock

	// FirstOutput is the time to first token: from the written request to the
	// model's first output. Suspect 30 s, limit 10 min. Unless they are set, they
	// grow by 2.5 ms and 10 ms for each token of the prompt beyond about 8,000.
	FirstOutput Clock

	// Gap runs from one output to the next (inter-token latency). Suspect 20 s,
	// limit 10 min, since servers keep tool calls back until they are whole and
	// models reason unseen. Limit 2 min for requests without tools to models that
	// were neither asked to reason nor seen doing it.
	Gap Clock

	// Silence runs from one byte to the next. If it is set, it runs from the first
	// byte of the answer on. Otherwise it begins after three pings (comments, empty
	// events) in the same phase; its bounds are 2 and 4 times the longest interval
	// between them, and the limit is at least 60 s.
	Silence Clock

	// Attempt runs over an attempt whose answer is not streamed, from start to end.
	// Suspect 30 s, limit 10 min. Unless it is set, the limit grows by 50 ms for
	// each token beyond 4,096 that the request allows the answer.
	Attempt Clock

	// End runs from the finish reason to the end of the answer, and while the body
	// of an error is read. Limit 5 s; a minute if the reason came before the last
	// output or together with it, since some servers send one with every piece. When
	// it runs out the call has succeeded, without the rest of the stream (mostly the
	// usage).
	End Clock

	// Call runs over the whole call: waits between attempts, waits for the breaker,
	// and attempts as long as they bring no output. It stands still in the pacer's
	// queue and while output comes. Limit 20 min; unless it is set, it grows with
	// FirstOutput and Attempt.
	Call Clock
}

// The clocks in the order in which due and check look at them.
const (
	iQueue = iota
	iConnect
	iSend
	iFirstOutput
	iGap
	iSilence
	iAttempt
	iEnd
	iCall
	clockCount
)

var clockNames = [clockCount]ClockName{
	ClockQueue, ClockConnect, ClockSend, ClockFirstOutput, ClockGap, ClockSilence, ClockAttempt, ClockEnd, ClockCall,
}

var clockDefaults = [clockCount]Clock{
	iQueue:       {Limit: 2 * time.Hour},
	iConnect:     {Limit: 10 * time.Second},
	iSend:        {Limit: 30 * time.Second},
	iFirstOutput: {Suspect: 30 * time.Second, Limit: 10 * time.Minute},
	iGap:         {Suspect: 20 * time.Second, Limit: 10 * time.Minute},
	iSilence:     {}, // from the interval of the pings
	iAttempt:     {Suspect: 30 * time.Second, Limit: 10 * time.Minute},
	iEnd:         {Limit: 5 * time.Second},
	iCall:        {Limit: 20 * time.Minute},
}

const (
	// gapPlain is the limit of Gap where neither tools nor reasoning explain a pause.
	gapPlain = 2 * time.Minute

	// silenceFloor is the least limit of Silence that is not set.
	silenceFloor = 60 * time.Second

	// Prompts up to freePrompt tokens fit the defaults of FirstOutput. For longer
	// ones, a server that prefills 400 tokens a second is not suspected, and one that
	// prefills 100 is not cut.
	freePrompt    = 8000
	promptSuspect = 2500 * time.Microsecond
	promptLimit   = 10 * time.Millisecond

	// Answers up to freeAnswer tokens fit the default of Attempt; longer ones do at
	// 20 tokens a second.
	freeAnswer  = 4096
	answerLimit = 50 * time.Millisecond

	// maxClock keeps sums and multiples of clocks in the range of durations, since
	// some callers write the largest duration for never.
	maxClock = 50 * 365 * 24 * time.Hour
)

// clock returns a clock by its number.
func (c *Clocks) clock(i int) *Clock {
	switch i {
	case iQueue:
		return &c.Queue
	case iConnect:
		return &c.Connect
	case iSend:
		return &c.Send
	case iFirstOutput:
		return &c.FirstOutput
	case iGap:
		return &c.Gap
	case iSilence:
		return &c.Silence
	case iAttempt:
		return &c.Attempt
	case iEnd:
		return &c.End
	default:
		return &c.Call
	}
}

// check names the first clock that makes no sense.
func (c *Clocks) check() error {
	for i := range clockCount {
		if k := c.clock(i); k.Suspect > 0 && k.Limit > 0 && k.Suspect > k.Limit {
			return fmt.Errorf("Clocks.%s.Suspect is %v, want at most its Limit %v", clockNames[i], k.Suspect, k.Limit)
		}
	}
	return nil
}

// A bound is a clock made concrete: zero means never.
type bound struct {
	suspect, limit time.Duration
	set            bool // the user has set the limit: nothing moves it
	suspectSet     bool // likewise
}

// load describes a request as far as clocks depend on it.
type load struct {
	promptBytes int
	maxTokens   int
	tools       bool
	reasoning   bool // asked for, or seen at this endpoint with this model
}

// bytesPerToken is low for prose and right for code and JSON. A low value only
// lengthens clocks.
const bytesPerToken = 3

// bounds puts the clocks for a request into out.
func (c *Clocks) bounds(l load, out *[clockCount]bound) {
	for i := range out {
		out[i] = c.bound(i, l)
	}
}

// bound returns one clock for a request.
func (c *Clocks) bound(i int, l load) bound {
	d := clockDefaults[i]
	over := time.Duration(max(0, l.promptBytes/bytesPerToken-freePrompt))
	more := time.Duration(max(0, l.maxTokens-freeAnswer))
	switch i {
	case iFirstOutput:
		d.Suspect += over * promptSuspect
		d.Limit += over * promptLimit
	case iCall:
		// Room for what FirstOutput and Attempt may take.
		d.Limit += over*promptLimit + more*answerLimit
	case iGap:
		if !l.tools && !l.reasoning {
			d.Limit = gapPlain
		}
	case iAttempt:
		d.Limit += more * answerLimit
	}
	return c.clock(i).resolve(d)
}

// resolve applies the rules of [Clock] to the default d.
func (c Clock) resolve(d Clock) bound {
	b := bound{suspect: d.Suspect, limit: d.Limit}
	switch {
	case c.Limit < 0:
		b.limit, b.set = 0, true
	case c.Limit > 0:
		b.limit, b.set = c.Limit, true
		if b.suspect >= c.Limit {
			b.suspect = c.Limit / 2
		}
	}
	b.suspectSet = c.Suspect != 0
	switch {
	case c.Suspect < 0:
		b.suspect = 0
	case c.Suspect > 0:
		b.suspect = c.Suspect
		if !b.set && b.limit > 0 && b.limit < c.Suspect {
			b.limit = c.Suspect
		}
	}
	b.suspect, b.limit = min(b.suspect, maxClock), min(b.limit, maxClock)
	return b
}

// lengthen raises a default limit to twice the longest wait that ended well at this
// endpoint, up to three times the default. A limit that was set is exact. None is
// shortened by short waits: a prefix cache makes prefills short, and then misses.
func (b *bound) lengthen(shown time.Duration) {
	if b.set || b.limit == 0 {
		return
	}
	if !b.suspectSet {
		b.suspect = max(b.suspect, min(shown, b.limit))
	}
	b.limit = max(b.limit, min(2*shown, holdTimes*b.limit))
}

// shorten makes a default limit at most d. A limit that was set, even to never,
// stays, and so does a suspect, which the limit is not put below.
func (b *bound) shorten(d time.Duration) {
	if b.set {
		return
	}
	if b.suspectSet {
		d = max(d, b.suspect)
	}
	if b.limit == 0 || d < b.limit {
		b.limit, b.set = d, true // nothing lengthens it again
	}
	if !b.suspectSet && b.suspect >= b.limit {
		b.suspect = b.limit / 2
	}
}
