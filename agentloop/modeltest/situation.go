package modeltest

import (
	"errors"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A Situation says what the server does with each request.
type Situation string

// The situations.
const (
	// Answers: it answers with [Text].
	Answers Situation = "answers"
	// Calls: it answers with [ToolCalls].
	Calls Situation = "calls tools"
	// Cut: the first of ToolCalls comes whole, the second breaks off, and the finish
	// reason says that the token limit was reached.
	Cut Situation = "cut"
	// Silent: it accepts the request and never answers.
	Silent Situation = "silent"
	// Busy: it has no room at the moment, as with the status 503.
	Busy Situation = "busy"
	// Refused: it does not know the key, as with the status 401.
	Refused Situation = "refused"
	// TooLong: the conversation is longer than its context window.
	TooLong Situation = "too long"
)

// Situations returns all of them.
func Situations() []Situation {
	return []Situation{Answers, Calls, Cut, Silent, Busy, Refused, TooLong}
}

// Text is the server's answer in Answers.
const Text = "The tests pass."

// ToolCalls returns the calls of the server's answer in Calls: of the tool read.
func ToolCalls() []chat.ToolCall {
	return []chat.ToolCall{
		{ID: "call_a", Name: "read", Arguments: `{"page":1}`},
		{ID: "call_b", Name: "read", Arguments: `{"page":2}`},
	}
}

// A Setup returns a new model in a situation, without long retries, and a function
// that closes the model and its server. It returns ErrSkip for a situation that is
// impossible with the model.
type Setup func(Situation) (m agentloop.Model, closes func(), err error)

// ErrSkip is what a Setup returns for an impossible situation.
var ErrSkip = errors.New("modeltest: there is no such situation")
