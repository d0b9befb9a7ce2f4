package chat

import (
	"encoding/json"
	"errors"
	"io"
)

// A Role says who speaks.
type Role string

// The roles of chat completions.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one turn of a conversation.
type Message struct {
	Role Role

	// Content is the text. For a message received as a list of parts it is
	// their text joined.
	Content string

	// Parts, if not empty, are sent as the content in place of Content: text
	// with images, for example.
	Parts []Part

	// Reasoning is what the model thought before it answered, as far as the
	// server shows it. Some servers demand it back, and others refuse it: it is
	// sent in messages that call tools, and in those of the assistant in a
	// request that offers some. [Form] says more.
	Reasoning string

	// ReasoningKey is the name under which the server sent Reasoning, and
	// under which it gets it back: reasoning_content if empty. It is content
	// if reasoning came in parts, of the content or otherwise; then it is not sent
	// back.
	ReasoningKey string

	// Refusal is the text with which a model declines, where a server keeps
	// it apart from Content.
	Refusal string

	// ToolCalls are the tools an assistant message calls.
	ToolCalls []ToolCall

	// ToolCallID names the call that a message of RoleTool answers.
	ToolCallID string

	// Name tells participants of the same role apart. Mostly empty.
	Name string

	// Extra holds fields that have no place above, as JSON. They are sent as
	// they are: servers that emit such fields (reasoning_details, say) expect
	// them back. A field named there takes the place of the one above with the
	// same name on the wire, except role; an empty value leaves it out.
	Extra map[string]json.RawMessage
}

// System returns a message that instructs the model.
func System(text string) Message { return Message{Role: RoleSystem, Content: text} }

// User returns a message from the user.
func User(text string) Message { return Message{Role: RoleUser, Content: text} }

// Assistant returns a message from the model.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Content: text} }

// ToolResult returns the answer to the tool call with the given id.
func ToolResult(callID, text string) Message {
	return Message{Role: RoleTool, ToolCallID: callID, Content: text}
}

// A Part is one piece of a message's content.
type Part struct {
	// Type is the kind of piece: text, image_url and others. Empty is sent as
	// text.
	Type string

	// Text is the part's text field.
	Text string

	// Extra holds the part's other fields as JSON.
	Extra map[string]json.RawMessage
}

// TextPart returns a part that is text.
func TextPart(text string) Part { return Part{Type: "text", Text: text} }

// ImagePart returns a part that shows the image at url, which may be a data
// URL.
func ImagePart(url string) Part {
	return Part{Type: "image_url", Extra: map[string]json.RawMessage{"image_url": imageURL(url)}}
}

// A ToolCall is a model's request to run a tool.
type ToolCall struct {
	// ID pairs the call with its result. Some servers leave it empty.
	ID string

	// Type is the kind of call: function if empty.
	Type string

	// Name is the tool's name.
	Name string

	// Arguments is the JSON text of the arguments as the model wrote it. It may be
	// broken. Empty arguments are sent as {}, and those that are no JSON object as
	// {"invalid_arguments":"…"}, since one that a server cannot read makes it refuse
	// every later request.
	Arguments string

	// Extra holds the call's other fields as JSON. They are sent back.
	Extra map[string]json.RawMessage
}

// Cut reports whether Arguments break off: they begin a JSON value but do not end it,
// as when a token limit cut them without a finish reason that says so. Empty and
// otherwise broken arguments are not cut: the model can be told about them and
// correct them.
func (t *ToolCall) Cut() bool {
	if blank(t.Arguments) {
		return false
	}
	c := cursor{data: []byte(t.Arguments)}
	return errors.Is(c.skip(), io.ErrUnexpectedEOF)
}
