package agentloop

import (
	"fmt"

	"github.com/neverhang/neverhang/chat"
)

const (
	// messageOverhead is added to the bytes of a message's text.
	messageOverhead = 16
	// pictureBytes is the assumed size of a picture: its size on the wire tells nothing.
	pictureBytes = 4096
	// ample is the part of the room that a conversation is shrunk to. So it need not be
	// shrunk again in the next round, which would also cost the server's prefix cache
	// each time.
	ample = 0.7
	// maxShrinks is how often one request is shrunk.
	maxShrinks = 4
)

// A ContextError says that a conversation does not fit into the model's context
// window, even after it was shrunk.
type ContextError struct {
	Tokens int64 // what the next request would take, by estimate
	Window int64 // what there is room for, the answer's own share taken off; 0 if unknown
	Err    error // what the model said, if it refused
}

func (e *ContextError) Error() string {
	s := fmt.Sprintf("conversation of about %d tokens does not fit into the context window", e.Tokens)
	if e.Window > 0 {
		s += fmt.Sprintf(" (room for %d)", e.Window)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ContextError) Unwrap() error { return e.Err }

// messageBytes estimates the size of a message.
func messageBytes(m *chat.Message) int {
	n := messageOverhead + len(m.Content) + len(m.Name)
	if len(m.Parts) > 0 {
		n -= len(m.Content)
		for i := range m.Parts {
			if p := &m.Parts[i]; p.Type == "" || p.Type == "text" {
				n += len(p.Text)
			} else {
				n += pictureBytes
			}
		}
	}
	if m.Role == chat.RoleAssistant { // it is sent back where tools are offered
		n += len(m.Reasoning)
	}
	for i := range m.ToolCalls {
		n += messageOverhead + len(m.ToolCalls[i].Name) + len(m.ToolCalls[i].Arguments)
	}
	for k, v := range m.Extra {
		n += len(k) + len(v)
	}
	return n
}
