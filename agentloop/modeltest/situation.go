package modeltest

import (
	"errors"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A Situation is what the model's other side does with each request.
type Situation string

// The situations.
const (
	// Answers: it answers with [Text].
	Answers Situation = "answers"
	// Calls: it answers with [ToolCalls].
	Calls Situation = "calls tools"
	// Cut: the first of ToolCalls comes whole, the second breaks off, and the
	// finish reason says that a token limit did it.
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

// Text is what it says where it answers.
const Text = "The tests pass."

// ToolCalls returns what it calls where it calls: of the tool read.
func ToolCalls() []chat.ToolCall {
	return []chat.ToolCall{
		{ID: "call_a", Name: "read", Arguments: `{"page":1}`},
		{ID: "call_b", Name: "read", Arguments: `{"page":2}`},
	}
}

// A Setup returns a model in a situation, fresh and without retries that take
// long, and what closes it and its other side. It returns ErrSkip for a situation
// that there cannot be.
type Setup func(Situation) (m agentloop.Model, closes func(), err error)

// ErrSkip is what a Setup returns for a situation that there cannot be.
var ErrSkip = errors.New("modeltest: there is no such situation")
