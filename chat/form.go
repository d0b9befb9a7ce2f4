package chat

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// A Form is what a server wants of the messages that it is sent: one refuses
// what another demands. The zero value is the form of a request without tools,
// to a server that takes back what it gave. The same message in the same form
// gives the same bytes. It is safe for concurrent use as long as nobody writes
// to it.
type Form struct {
	// Tools says that the request offers tools. Then every message of the
	// assistant has its reasoning with it, not only those that call tools:
	// DeepSeek refuses the conversation otherwise.
	Tools bool

	// ReasoningKey, if not empty, is the name under which every message of the
	// assistant has its reasoning, empty where there is none, whatever Tools,
	// Omit, Bare and the message's own ReasoningKey say. It is for a server that
	// demands the field in messages that another model or nobody thought about.
	ReasoningKey string

	// Omit names members that the server refuses. They are left out of messages,
	// of their calls and of their parts, also where Extra has them, but for those
	// without which there is no message: role, content, tool_calls and
	// tool_call_id; id, type and function of a call; type and text of a part; and
	// in both the member that has the name of the type. A refusal that is left out
	// is the content if there is no other.
	Omit []string

	// Bare leaves out everything but those and the name of who speaks. It is for
	// a server that does not say what it refuses, and for what another gave.
	Bare bool

	// ShortIDs sends each call's id as nine letters and digits, as Mistral
	// demands. Those that are so stay as they are, others are hashed, in calls
	// and results alike.
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

// What an object is a part of, for the members that no form leaves out.
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

// reasoning gives reasoning back under the name under which it came. The key
// alone is enough: DeepSeek wants the field also where it is empty.
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
