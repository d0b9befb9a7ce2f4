package chat

import (
	"encoding/json"
	"time"
)

// A Response is a model's answer.
type Response struct {
	ID      string
	Model   string    // as the server names it
	Created time.Time // zero if the server did not say

	// SystemFingerprint changes when the server's configuration changes in a way that
	// may change answers; ServiceTier is the class in which it served the request.
	SystemFingerprint string
	ServiceTier       string

	// Endpoint is the client's name of the endpoint that gave the answer. It is no
	// part of the answer itself.
	Endpoint string

	// Message is the answer as the model gave it, to be appended to the conversation.
	// Servers with a strict schema refuse two kinds of it in later requests: leave out
	// an empty message (or one with only reasoning), and give ids to tool calls that
	// have none.
	Message Message

	// FinishReason is empty only from servers that never send one.
	FinishReason FinishReason

	// Usage is nil if the server did not count.
	Usage *Usage

	// Extra and ChoiceExtra hold the fields of the answer and of its choice
	// that have no place above, as JSON. Of a field that came in several
	// chunks the last value is kept; logprobs are joined.
	Extra       map[string]json.RawMessage
	ChoiceExtra map[string]json.RawMessage
}

// Empty reports whether the answer has neither text nor tool calls. Reasoning alone
// is no answer.
func (r *Response) Empty() bool {
	m := &r.Message
	return m.Content == "" && m.Refusal == "" && len(m.ToolCalls) == 0
}

// Usage holds the tokens that the server counted.
type Usage struct {
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64
	CachedTokens     int64 // the part of PromptTokens read from a cache
	ReasoningTokens  int64 // the part of CompletionTokens spent on reasoning

	// Raw is the usage object as the server wrote it.
	Raw json.RawMessage
}

// A Chunk is one piece of a streamed answer.
type Chunk struct {
	ID      string
	Model   string
	Created time.Time
	Role    Role

	SystemFingerprint string // as in [Response]
	ServiceTier       string

	// Content, Reasoning and Refusal are pieces of text to append. Half a
	// character at either end is U+FFFD, unless a [Joiner] has seen the chunk.
	Content   string
	Reasoning string
	Refusal   string

	// ReasoningKey is the name under which Reasoning came.
	ReasoningKey string

	// ToolCalls are pieces of tool calls.
	ToolCalls []ToolCallDelta

	// Whole is set if the chunk is a whole message, which replaces all pieces before
	// it. MiniMax ends its streams with one: a program that shows text as it arrives
	// must not show it again. In an answer of one JSON value it tells a whole answer
	// from a piece. A message that only repeats the pieces so far is left out.
	Whole bool

	// FinishReason is empty until the end.
	FinishReason FinishReason

	// Usage is set in the chunk that carries it, mostly the last.
	Usage *Usage

	// Error is set if the server reported a failure in place of a piece.
	Error *ServerError

	// Extra, ChoiceExtra and DeltaExtra hold the fields of the chunk, its choice and
	// its delta that have no place above, as JSON. Null fields are left out. The whole
	// content is in DeltaExtra if it has parts that are neither text nor reasoning,
	// such as images.
	Extra       map[string]json.RawMessage
	ChoiceExtra map[string]json.RawMessage
	DeltaExtra  map[string]json.RawMessage

	cut *[cutTexts]string // the loose forms of the texts; nil if none has one
}

// A ToolCallDelta is a piece of a tool call.
type ToolCallDelta struct {
	// Index says which call of the message the piece belongs to; -1 if the
	// server did not say.
	Index int

	ID        string
	Type      string
	Name      string
	Arguments string // a fragment; JSON only when all are joined

	// Old is set if it came as function_call, the form before tool_calls. Some servers
	// send both for one call: an [Assembler] then leaves the old one out.
	Old bool

	Extra map[string]json.RawMessage

	cut string // the loose form of Arguments, if it has one
}
