package llmclient

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// An InFlight is a call under way, as it was at one moment.
type InFlight struct {
	Call     uint64 // as in [Event]
	Caller   string // [chat.Request.Caller]
	Endpoint string // where the present attempt is, or the next will be
	Model    string
	Started  time.Time
	Attempt  int // requests begun so far

	PromptBytes int // of the request

	Phase Phase
	Since time.Time // in this phase

	// What the present attempt has seen. Zero between attempts.
	Bytes       int64     // of the answer's body
	Outputs     int64     // pieces with output
	Pings       int       // in this phase
	LastByte    time.Time // zero if there was none
	LastOutput  time.Time // zero if there was none
	FirstOutput time.Time // zero if there was none
	Suspect     ClockName // the clock past its suspect bound, if one is
	Trial       bool      // the breaker lets it through to see whether the endpoint works again
	Tokens      int64     // output so far, estimated at four bytes to a token

	// WaitingFor says in words what the call waits for. Evidence says what probes
	// and the Adviser have shown about the endpoint of a call that has waited for
	// long; empty if none has been gathered.
	WaitingFor string
	Evidence   string
}

// InFlight lists the calls under way, the oldest first.
func (c *Client) InFlight() []InFlight {
	calls := c.calls.all()
	list := make([]InFlight, 0, len(calls))
	for _, cl := range calls {
		list = append(list, cl.look())
	}
	slices.SortFunc(list, func(a, b InFlight) int { return cmp.Compare(a.Call, b.Call) })
	return list
}

func (cl *call) look() InFlight {
	cl.mu.Lock()
	f := InFlight{
		Call: cl.id, Caller: cl.caller, Endpoint: cl.at.ep.name, Model: cl.at.model, Started: cl.started,
		Attempt: cl.n, Phase: cl.phase, Since: cl.since,
	}
	f.PromptBytes = cl.at.size
	a, ep := cl.current, cl.at.ep
	cl.mu.Unlock()
	if a == nil {
		f.WaitingFor = ep.holdup(f.Phase)
		return f
	}
	var m meter
	a.watch.look(&m)
	f.WaitingFor = m.awaits()
	if m.asks(m.moment(time.Now())) >= 0 {
		f.Evidence = ep.evidence.note()
	}
	f.Tokens = a.written.Load() / answerBytesPerToken
	f.Phase, f.Since = m.phase, m.time(m.phaseSince)
	f.Bytes, f.Outputs, f.Pings = m.bytes, m.outputs, m.pings
	f.LastByte, f.FirstOutput, f.LastOutput = m.time(m.lastByte), m.time(m.firstOutput), m.time(m.lastOutput)
	if m.suspect >= 0 {
		f.Suspect = clockNames[m.suspect]
	}
	f.Trial = a.pass.Trial()
	return f
}

// holdup says what a call waits for between attempts.
func (ep *endpoint) holdup(p Phase) string {
	switch p {
	case PhaseBackoff:
		if ep.evidence.isDead.Load() {
			return "a sign of life"
		}
		return "its next try"
	case PhaseBreaker:
		s := ep.breaker.Stats()
		switch s.State {
		case breaker.Open:
			return fmt.Sprintf("the circuit breaker, open since %s (%s)", s.Since.Format(time.TimeOnly), s.Last.Why)
		case breaker.HalfOpen:
			return "the circuit breaker, and the trial under way"
		}
		return "its turn after an outage"
	case PhaseQueue:
		if why := ep.pacer.Stats().WaitingFor; why != "" {
			return string(why)
		}
		return "its turn"
	}
	return ""
}

// awaits says what an attempt waits for.
func (m *meter) awaits() string {
	if m.paused != never {
		return "its reader"
	}
	if i := m.running(); i >= 0 {
		return missing[clockNames[i]]
	}
	return "a connection"
}
