package health

import (
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// A View is what the client knows at one moment.
type View struct {
	Now   time.Time
	Calls []llmclient.InFlight

	// Recent are attempts that have ended, the oldest first.
	Recent []Ended

	// Endpoints hold the state of the client's breakers and pacers.
	Endpoints []llmclient.EndpointStatus

	// Local is what the callers are doing besides calling, such as running tools.
	// Nil means that this is not known.
	Local []Activity

	// Fault is the last verdict with a fault, or nil. After a fault the service
	// counts as healthy again only when calls were answered.
	Fault *Verdict
}

// An Ended is an attempt that has failed, or that has brought its call's answer.
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

	// Evidence reports that the attempt was cut on evidence, not by its limit.
	Evidence bool

	PromptBytes int
	FirstOutput time.Duration // since Started; 0 if there was none
	Outputs     int64
}

// ok reports whether the attempt brought an answer.
func (e *Ended) ok() bool { return e.Kind == 0 }

// byUs reports whether our side gave the attempt up.
func (e *Ended) byUs() bool {
	switch e.Kind {
	case llmclient.ErrTimeout, llmclient.ErrDeadline, llmclient.ErrCanceled:
		return e.Phase >= llmclient.PhaseSend && !e.Evidence
	}
	return false
}

// An Activity is something that a caller is doing besides calling.
type Activity struct {
	Caller string
	What   string // such as "tool read_message"
	Since  time.Time
}

// A Uniformity tells whether all calls in flight have the same trouble.
type Uniformity struct {
	Phase llmclient.Phase `json:"phase"` // of most calls in flight
	Calls int             `json:"calls"` // in that phase
	Of    int             `json:"of"`    // in flight

	// Systemic reports that 9 of 10 calls, and 2 at least, are in that phase, and
	// that no call has made progress since Since, for 8 s or more.
	Systemic bool      `json:"systemic"`
	Since    time.Time `json:"since,omitzero"`
}

// uniform compares the phases of the calls in flight.
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
	// One call alone proves nothing, and neither does a short wait.
	u.Systemic = u.Of >= 2 && u.Calls*10 >= u.Of*9 && v.Now.Sub(u.Since) >= quietAfter
	return u
}
