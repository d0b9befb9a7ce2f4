package health

import (
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// A View is what the client's side knows at a moment.
type View struct {
	Now   time.Time
	Calls []llmclient.InFlight // under way

	// Recent are attempts and calls that have ended, the oldest first.
	Recent []Ended

	// Endpoints are how the client's breakers and pacers stand.
	Endpoints []llmclient.EndpointStatus

	// Local is what the callers do beside calling, such as running tools.
	Local []Activity

	// Fault is the last verdict that something was wrong, if there was one.
	// After it, health has to be proven anew.
	Fault *Verdict
}

// An Ended is an attempt that has ended, or a call that ended in success.
type Ended struct {
	At       time.Time
	Started  time.Time // of the attempt
	Call     uint64
	Caller   string
	Endpoint string
	Model    string

	Kind   llmclient.Kind // 0 if it succeeded
	Clock  llmclient.ClockName
	Phase  llmclient.Phase
	Status int

	// Evidence reports that it was cut since the server was seen to work on
	// nothing, not since its time was up.
	Evidence bool

	PromptBytes int
	FirstOutput time.Duration // since Started; 0 if there was none
	Outputs     int64
}

// ok reports whether it brought an answer.
func (e *Ended) ok() bool { return e.Kind == 0 }

// byUs reports whether our side lost patience with it.
func (e *Ended) byUs() bool {
	switch e.Kind {
	case llmclient.ErrTimeout, llmclient.ErrDeadline, llmclient.ErrCanceled:
		return e.Phase >= llmclient.PhaseSend && !e.Evidence
	}
	return false
}

// An Activity is something that a caller does beside calling.
type Activity struct {
	Caller string
	What   string // as: tool read_message
	Since  time.Time
}

// A Uniformity says whether all calls are in the same trouble.
type Uniformity struct {
	Phase llmclient.Phase `json:"phase"` // of most calls in flight
	Calls int             `json:"calls"` // in that phase
	Of    int             `json:"of"`    // in flight

	// Systemic reports that nearly all are in that phase and that none has got
	// anywhere since Since. Otherwise it is one, or some, and the trouble is
	// likely to be theirs.
	Systemic bool      `json:"systemic"`
	Since    time.Time `json:"since,omitzero"`
}

// uniform looks at the calls in flight.
func uniform(v *View, headway time.Time) Uniformity {
	u := Uniformity{Of: len(v.Calls)}
	count := make(map[llmclient.Phase]int)
	for _, c := range v.Calls {
		count[c.Phase]++
	}
	for p, n := range count {
		if n > u.Calls || n == u.Calls && p < u.Phase {
			u.Phase, u.Calls = p, n
		}
	}
	if u.Of == 0 {
		return u
	}
	var first time.Time
	for _, c := range v.Calls {
		if c.Phase == u.Phase && (first.IsZero() || c.Since.Before(first)) {
			first = c.Since
		}
	}
	u.Since = first
	if headway.After(first) {
		u.Since = headway
	}
	// One call alone is no system, and nothing is wrong as long as it is brief.
	u.Systemic = u.Of >= 2 && u.Calls*10 >= u.Of*9 && v.Now.Sub(u.Since) >= quietAfter
	return u
}
