package chat

import (
	"encoding/json"
	"time"
)

// A Request asks a model for the next message of a conversation. The zero
// value of a field leaves the matter to the server.
type Request struct {
	// Model is the model's name at the server. A client may have a default.
	Model string

	// Messages is the conversation so far.
	Messages []Message

	// Tools are the tools the model may call.
	Tools []Tool

	// ToolChoice steers whether and which tool is called. It and
	// ParallelToolCalls are sent only with tools: without, they are refused.
	ToolChoice ToolChoice

	// ParallelToolCalls, if not nil, allows or forbids several calls in one
	// message.
	ParallelToolCalls *bool

	// MaxTokens bounds the answer, in tokens, as max_tokens.
	MaxTokens int

	// MaxCompletionTokens does the same as max_completion_tokens, which
	// OpenAI's reasoning models want in place of max_tokens.
	MaxCompletionTokens int

	// Temperature and TopP shape sampling. A pointer, because zero is a wish.
	Temperature *float64
	TopP        *float64

	// Seed asks for reproducible sampling.
	Seed *int64

	// Stop lists texts at which the model stops.
	Stop []string

	// ReasoningEffort says how long to think: none, minimal, low, medium,
	// high, and whatever else the server knows.
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

	// OnOutput, if not nil, is called by a client for each piece of output that
	// comes, in the goroutine that reads the answer, and should be quick. It tells
	// whoever watches the caller that the model is at work. It is never sent.
	OnOutput func()

	// OnBytes is the same for whatever comes of the answer, signs that somebody is
	// there included. A server that sends nothing else is alive, and may think.
	OnBytes func()

	// OnWait, if not nil, is called by a client that begins a wait of known length
	// before it asks again, as a server's Retry-After or a backoff: silence until
	// then is no sign of trouble.
	OnWait func(d time.Duration)

	// Caller names who asks (an agent, a job), for tables and events.
	// It is never sent.
	Caller string

	// Priority puts requests of a higher number first where a client's own queue
	// holds them, and Finishing those whose work is nearly done. They are never
	// sent.
	Priority  int
	Finishing bool

	// Restart says that the request repeats one whose call has failed, as an
	// agent's restart does. It is then paid for as a retry, so that restarts add
	// no more to a struggling server's load than retries do. It is never sent.
	Restart bool
}

// A Tool is a function the model may call.
type Tool struct {
	// Name is what the model calls it by: letters, digits, _ and -, at most 64.
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

	// Name, if not empty, forces the tool of that name, whatever Mode says.
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
