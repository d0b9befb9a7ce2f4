package chat

import (
	"encoding/json"
	"time"
)

// A Request asks a model for the next message of a conversation. For a field with its
// zero value the server's default holds.
type Request struct {
	// Model is the model's name at the server. A client may have a default.
	Model string

	// Messages is the conversation so far.
	Messages []Message

	// Tools are the tools the model may call.
	Tools []Tool

	// ToolChoice steers whether and which tool is called. It and ParallelToolCalls
	// are sent only with tools, since servers refuse them otherwise.
	ToolChoice ToolChoice

	// ParallelToolCalls, if not nil, allows or forbids several calls in one
	// message.
	ParallelToolCalls *bool

	// MaxTokens bounds the answer, in tokens, as max_tokens.
	MaxTokens int

	// MaxCompletionTokens does the same as max_completion_tokens, which
	// OpenAI's reasoning models want in place of max_tokens.
	MaxCompletionTokens int

	// Temperature and TopP shape sampling. They are pointers because zero is a valid
	// value.
	Temperature *float64
	TopP        *float64

	// Seed asks for reproducible sampling.
	Seed *int64

	// Stop lists texts at which the model stops.
	Stop []string

	// ReasoningEffort says how long to reason: none, minimal, low, medium, high, or
	// another value that the server knows.
	ReasoningEffort string

	// ResponseFormat is the JSON of response_format.
	ResponseFormat json.RawMessage

	// User identifies the end user to the server.
	User string

	// Extra holds further fields of the request as JSON. A field named there
	// takes the place of the one above with the same name on the wire; an empty
	// value leaves it out. Never sent from here are stream and stream_options,
	// which belong to the client, and n: one call has one answer.
	Extra map[string]json.RawMessage

	// OnOutput, if not nil, is called by a client for each piece of output, in the
	// goroutine that reads the answer, and should be quick. A watchdog of the caller
	// learns from it that the model is at work. It is never sent.
	OnOutput func()

	// OnBytes is the same for all bytes of the answer, even pings. A server that sends
	// only pings is alive, and its model may be reasoning.
	OnBytes func()

	// OnWait, if not nil, is called by a client that begins a wait of known length
	// before its next attempt, such as a Retry-After or a backoff. Silence until then
	// is no sign of trouble.
	OnWait func(d time.Duration)

	// Caller is the name of the caller (an agent, a job), for tables and events. It
	// is never sent.
	Caller string

	// In a client's own queue, requests of higher Priority go first. Finishing marks
	// those whose work is nearly done, which a queue may put first among equal ones.
	// They are never sent.
	Priority  int
	Finishing bool

	// Restart says that the request repeats one whose call has failed, as an
	// agent's restart does. It is then paid for as a retry, so that restarts add
	// no more to a struggling server's load than retries do. It is never sent.
	Restart bool
}

// A Tool is a function the model may call.
type Tool struct {
	// Name is the name for the model: letters, digits, _ and -, at most 64.
	Name string

	// Description tells the model what it does and when to use it.
	Description string

	// Parameters is the JSON Schema of its arguments. Empty means an object
	// without properties.
	Parameters json.RawMessage

	// Strict, if not nil, asks the server to hold the model to the schema.
	Strict *bool
}

// A ToolChoice steers the use of tools. The zero value leaves it to the
// server, which mostly means auto.
type ToolChoice struct {
	// Mode is auto, none or required.
	Mode string

	// Name, if not empty, forces the tool of that name. Mode is then ignored.
	Name string
}

// The choices that name no tool.
var (
	ToolChoiceAuto     = ToolChoice{Mode: "auto"}
	ToolChoiceNone     = ToolChoice{Mode: "none"}
	ToolChoiceRequired = ToolChoice{Mode: "required"}
)

// ForceTool returns the choice that forces the tool with the given name.
func ForceTool(name string) ToolChoice { return ToolChoice{Name: name} }
