package breaker

import (
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A State of a [Breaker].
type State int

const (
	Closed   State = iota // all calls pass
	Open                  // no call passes until the cool-down is over
	HalfOpen              // only trials pass
)

func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

func stateOf(s gobreaker.State) State {
	switch s {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	}
	return Closed
}

// A Verdict is what a call showed about the endpoint. The zero value is [Ignored].
type Verdict int

const (
	// Ignored: nothing, since the call was cancelled or never sent. An ignored
	// trial makes room for the next one.
	Ignored Verdict = iota

	// Success: the endpoint works. Even an answer that refuses the request, such
	// as an HTTP 400, can be a success: the endpoint answers.
	Success

	// Failure: the endpoint does not work.
	Failure
)

func (v Verdict) String() string {
	switch v {
	case Ignored:
		return "ignored"
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// A Change is a breaker passing from one state to another.
type Change struct {
	Name     string // Config.Name
	From, To State
	At       time.Time
	Why      string    // for people: "5 failures in a row"
	Retry    time.Time // when the first trial may start, if To is Open
}
