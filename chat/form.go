package chat

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// A Form says which fields a server accepts in messages, since some refuse what
// others demand. The zero value is the form of a request without tools, to a server
// that accepts the messages that it has sent. The same message in the same form
// gives the same bytes. A Form is safe for concurrent use as long as nothing writes
// to it.
type Form struct {
	// Tools says that the request offers tools. Then every message of the assistant
	// is sent with its reasoning, not only those that call tools. DeepSeek refuses
	// the conversation otherwise.
	Tools bool

	// ReasoningKey, if not empty, is the field in which every message of the
	// assistant is sent with its reasoning, or with an empty string if it has none.
	// It overrides Tools, Omit, Bare and the message's own ReasoningKey. It is for a
	// server that demands the field even in messages of other models.
	ReasoningKey string

	// Omit names fields that the server refuses. They are left out of messages, of
	// their calls and of their parts, even if Extra has them. The required fields
	// stay: role, content, tool_calls and tool_call_id; id, type and function of a
	// call; type and text of a part; and in calls and parts the field that is named
	// like the type. If refusal is left out and there is no content, the refusal
	// becomes the content.
	Omit []string

	// Bare leaves out all fields but the required ones and name. It is for a server
	// that does not say which field it refuses.
	Bare bool

	// ShortIDs sends each call's id as nine letters and digits, as Mistral demands.
	// Other ids are hashed, in calls and results alike.
	ShortIDs bool
}

// Form returns the form in which [Request.AppendJSON] writes the messages:
// Tools is set if the request offers some.
func (r *Request) Form() Form { return Form{Tools: r.offersTools() || says(r.Extra["functions"])} }

// offersTools reports whether the request has a list of tools on the wire.
func (r *Request) offersTools() bool {
	if raw, there := r.Extra["tools"]; there {
		return says(raw)
	}
	return len(r.Tools) > 0
}

// AppendMessage appends the message's JSON to dst, as [Message.AppendJSON] does
// for the zero Form. It is what [Request.AppendJSONFunc] takes.
func (f *Form) AppendMessage(dst []byte, m *Message) ([]byte, error) {
	o := object{buf: append(dst, '{'), taken: m.Extra}
	if len(f.Omit) > 0 || f.Bare {
		o.form, o.of = f, ofMessage
	}
	o.message(m, f)
	if o.err != nil {
		return nil, fmt.Errorf("chat: message: %w", o.err)
	}
	return append(o.buf, '}'), nil
}

// A level says what an object is, for the required members, which no form leaves out.
type level uint8

const (
	ofRequest level = iota
	ofMessage
	ofCall
	ofPart
)

// omits reports whether the form of an object leaves a member out.
func (o *object) omits(name string) bool {
	if o.form == nil || !o.form.Bare && !slices.Contains(o.form.Omit, name) {
		return false
	}
	switch o.of {
	case ofMessage:
		switch name {
		case "role", "content", "tool_calls", "tool_call_id", o.form.ReasoningKey:
			return false
		case "name":
			return slices.Contains(o.form.Omit, name)
		}
	case ofCall:
		return name != "id" && name != "type" && name != functionType && name != o.kind
	case ofPart:
		return name != "type" && name != "text" && name != o.kind
	}
	return true
}

func (o *object) message(m *Message, f *Form) {
	o.key("role")
	o.buf = appendString(o.buf, string(m.Role))
	content, refusal := m.Content, m.Refusal
	if refusal != "" && o.omits("refusal") {
		content, refusal = firstOf(content, refusal), "" // said all the same
	}
	if o.want("content") {
		switch {
		case len(m.Parts) > 0:
			o.parts(m.Parts)
		case content != "" || len(m.ToolCalls) == 0 && refusal == "":
			o.buf = appendString(o.buf, content)
		default:
			// A message that only calls tools: null is what the API documents
			// and what templates of open models expect.
			o.buf = append(o.buf, "null"...)
		}
	}
	o.reasoning(m, f)
	if len(m.ToolCalls) > 0 && o.want("tool_calls") {
		o.toolCalls(m.ToolCalls, f)
	}
	o.str("refusal", refusal)
	o.str("tool_call_id", f.id(m.ToolCallID))
	o.str("name", m.Name)
	o.taken = nil
	o.extra(m.Extra, "role")
}

var errReasoningKey = errors.New("want a name that no other field has")

// reasoning sends reasoning back under the name under which it came. DeepSeek wants
// the field even if it is empty.
func (o *object) reasoning(m *Message, f *Form) {
	key := m.ReasoningKey
	switch {
	case m.Role == RoleAssistant && f.ReasoningKey != "":
		if key = f.ReasoningKey; key == inContent {
			o.fail(fmt.Errorf("the form's ReasoningKey is %q, %w", key, errReasoningKey))
			return
		}
	case len(m.ToolCalls) == 0 && (m.Role != RoleAssistant || !f.Tools):
		return
	}
	switch key {
	case "":
		o.str("reasoning_content", m.Reasoning)
	case inContent:
		// It came among the parts of the content, from a server whose schema
		// has no field for it (Mistral) and which does not ask for it.
	case "role", "tool_calls", "refusal", "tool_call_id", "name":
		o.fail(fmt.Errorf("ReasoningKey is %q, %w", key, errReasoningKey))
	default:
		if o.want(key) {
			o.buf = appendString(o.buf, m.Reasoning)
		}
	}
}

// shortID is how long an id of ShortIDs is.
const shortID = 9

// id returns an id as the form has it.
func (f *Form) id(id string) string {
	if !f.ShortIDs || id == "" || isShortID(id) {
		return id
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	n := h.Sum64()
	var short [shortID]byte
	for i := range short {
		short[i] = digits[n%uint64(len(digits))]
		n /= uint64(len(digits))
	}
	return string(short[:])
}

func isShortID(id string) bool {
	for i := range len(id) {
		b := id[i] | 0x20
		if (b < 'a' || b > 'z') && (id[i] < '0' || id[i] > '9') {
			return false
		}
	}
	return len(id) == shortID
}
