package llmclient

import (
	"cmp"
	"slices"
	"time"
)

// An InFlight is a call under way, as it was at one moment.
type InFlight struct {
	Call     uint64 // as in [Event]
	Caller   string // [chat.Request.Caller]
	Endpoint string // where the present attempt is, or the next will be
	Model    string
	Started  time.Time
	Attempt  int // requests begun so far

	Phase Phase
	Since time.Time // in this phase

	// What the present attempt has seen. Zero between attempts.
	Bytes      int64     // of the answer's body
	Outputs    int64     // pieces with output
	Pings      int       // in this phase
	LastByte   time.Time // zero if there was none
	LastOutput time.Time // zero if there was none
	Suspect    ClockName // the clock past its suspect bound, if one is
	Trial      bool      // it is to find out whether the endpoint works again
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
	a := cl.current
	cl.mu.Unlock()
	if a == nil {
		return f
	}
	var m meter
	a.watch.look(&m)
	f.Phase, f.Since = m.phase, m.phaseSince
	f.Bytes, f.Outputs, f.Pings = m.bytes, m.outputs, m.pings
	f.LastByte, f.LastOutput = m.lastByte, m.lastOutput
	if m.suspect >= 0 {
		f.Suspect = clockNames[m.suspect]
	}
	f.Trial = a.pass.Trial()
	return f
}
