package agentloop

import (
	"fmt"

	"github.com/neverhang/neverhang/chat"
)

const (
	// tokensPerByte is what is assumed of text that no server has counted yet:
	// prose takes a quarter of a token for a byte, code and JSON a third.
	tokensPerByte = 1.0 / 3
	// messageOverhead is what a message weighs beside its text, in bytes.
	messageOverhead = 16
	// pictureBytes is what a picture weighs: its size on the wire says nothing.
	pictureBytes = 4096
	// ample is the part of the room that a conversation is shrunk to, so that
	// it is not shrunk again in the next round, which would also cost the
	// server its prefix cache each time.
	ample = 0.7
	// maxShrinks is how often one request is shrunk.
	maxShrinks = 4
)

// A ContextError says that a conversation does not fit into the model's context
// window, whatever was left out of it.
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

// messageBytes weighs a message.
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
	if len(m.ToolCalls) > 0 { // only there is it sent back
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

// A gauge estimates how many tokens a conversation takes. It learns from what
// servers count: of the part they have counted it knows the size, of what came
// since it knows the bytes.
type gauge struct {
	rate    float64 // tokens for a byte, as last counted
	tokens  int64   // counted for the first bytes of the conversation
	bytes   int
	ceiling int64 // tokens, by estimate, that a server has refused; 0 if none
}

// size estimates the tokens of a conversation of the given bytes.
func (g *gauge) size(bytes int) int64 {
	if g.tokens > 0 && bytes >= g.bytes {
		return g.tokens + int64(float64(bytes-g.bytes)*max(g.rate, tokensPerByte))
	}
	rate := g.rate
	if rate == 0 {
		rate = tokensPerByte
	}
	return int64(float64(bytes) * rate)
}

// counted notes what a server counted for a conversation of the given bytes.
func (g *gauge) counted(tokens int64, bytes int) {
	if tokens <= 0 || bytes <= 0 {
		return
	}
	g.tokens, g.bytes, g.rate = tokens, bytes, float64(tokens)/float64(bytes)
}

// refused notes that a conversation was too large for the server. If it was
// smaller than the window by our count, then our count is wrong.
func (g *gauge) refused(bytes int, window int64) {
	if size := g.size(bytes); window > 0 && size < window {
		g.rate = max(g.rate, float64(window)/float64(bytes))
	}
	g.tokens, g.bytes = 0, 0
	g.ceiling = g.size(bytes)
}

// shrunk notes that the conversation is no longer what was counted.
func (g *gauge) shrunk() { g.tokens, g.bytes = 0, 0 }
