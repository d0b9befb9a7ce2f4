package agentloop

import (
	"fmt"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// A turn is the meaning of a model's answer.
type turn struct {
	text string // what it says, without space around it

	// cut is why no call may run, or why the text is incomplete: nil, ErrTruncated or
	// ErrFiltered.
	cut error

	// idle is why the answer is neither a text nor a call: nil, ErrEmpty,
	// ErrReasoningOnly or ErrNoCall, with ErrTruncated or ErrFiltered if that
	// explains it.
	idle error
}

// readTurn judges an answer. Complete tool calls decide, not the finish reason:
// servers say stop, or nothing, beside calls. An exception is a reason that says that
// the message was cut: then the last call is not what the model meant, even if it
// parses.
func (r *run) readTurn(resp *chat.Response) turn {
	m := &resp.Message
	t := turn{text: strings.TrimSpace(textOf(m))}
	switch {
	case resp.FinishReason.Limited():
		t.cut = ErrTruncated
	case resp.FinishReason.Filtered():
		t.cut = ErrFiltered
	}
	if len(m.ToolCalls) > 0 {
		return t
	}
	announced := resp.FinishReason == chat.FinishToolCalls || resp.FinishReason == chat.FinishFunctionCall
	switch {
	case announced:
		t.idle = ErrNoCall
	case !wordless(t.text) && !thoughtOnly(t.text):
		if name := r.textCall(t.text); name != "" && !r.prog.complete() {
			t.idle = &textCallError{name}
		}
		return t
	case !wordless(t.text), !blank(m.Reasoning), resp.Usage != nil && resp.Usage.ReasoningTokens > 0:
		t.idle = ErrReasoningOnly
	default:
		t.idle = ErrEmpty
	}
	if t.cut != nil {
		t.idle = fmt.Errorf("%w, %w", t.idle, t.cut)
	}
	return t
}

func textOf(m *chat.Message) string {
	if m.Content != "" {
		return m.Content
	}
	var parts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			parts = append(parts, p.Text)
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, "\n")
	}
	return m.Refusal
}
