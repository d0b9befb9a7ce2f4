package llmclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// messagesPath is where Anthropic's Messages are asked for.
const messagesPath = "/messages"

// messages decodes an answer of Anthropic's Messages as far as needed to know whether
// it is whole. Its bytes go to the SDK.
type messages struct {
	begun   bool
	output  bool
	tool    bool // it calls a tool
	open    bool // and that call has not ended
	stop    string
	stopped bool // message_stop has come
}

// messagesEvent holds the needed members of an event, or of a plain answer.
type messagesEvent struct {
	Type  string
	Delta json.RawMessage
	Block lenient[struct {
		Type string
	}] `json:"content_block"`
	StopReason string `json:"stop_reason"`
	Content    lenient[[]struct {
		Type string
	}]
}

// lenient is empty if the value is of another type: unknown events may have fields
// of the same names.
type lenient[T any] struct{ is T }

func (l *lenient[T]) UnmarshalJSON(text []byte) error {
	var is T
	if json.Unmarshal(text, &is) == nil {
		l.is = is
	}
	return nil
}

// event takes an event of a stream.
func (m *messages) event(n *answer, ev sse.Event) (*chat.Chunk, error) {
	if bytes.HasPrefix(ev.Data, []byte("[DONE]")) {
		return m.end(n)
	}
	var e messagesEvent
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return nil, &badAnswer{kind: ErrMalformed, text: "a piece of the answer cannot be read: " + err.Error(), err: plainError(err)}
	}
	if e.Type == "" {
		e.Type = ev.Type
	}
	if said := chat.ParseError(ev.Data); said != nil && (e.Type == "" || e.Type == "message" || e.Type == "error") {
		return nil, &insideError{said}
	}
	switch e.Type {
	case "ping":
		n.a.watch.tell((*meter).ping)
		return nil, nil
	case "message_start":
		m.begun = true
	case "content_block_start":
		m.open = e.Block.is.Type == "tool_use"
		m.tool = m.tool || m.open
	case "content_block_stop":
		m.open = false
	case "content_block_delta":
		if !filled(e.Delta) {
			return nil, nil // some proxies keep a connection alive with these
		}
		m.output = true
		return passedOn, nil
	case "message_delta":
		var d struct {
			StopReason string `json:"stop_reason"`
		}
		if _ = json.Unmarshal(e.Delta, &d); d.StopReason != "" {
			m.stop = d.StopReason
			n.a.watch.tell((*meter).finish)
		}
		if err := m.cut(); err != nil {
			return nil, err
		}
	case "message_stop":
		m.stopped = true
		return m.end(n)
	}
	return nil, nil
}

// end takes the last event.
func (m *messages) end(n *answer) (*chat.Chunk, error) {
	n.done = true
	n.a.watch.tell((*meter).over)
	n.drain()
	return nil, io.EOF // whole checks the answer
}

// plain takes an answer that is one value.
func (m *messages) plain(text []byte) error {
	var e messagesEvent
	if err := json.Unmarshal(text, &e); err != nil {
		return &badAnswer{kind: ErrMalformed, text: "the answer cannot be read: " + err.Error(), err: plainError(err)}
	}
	if said := chat.ParseError(text); said != nil && e.Type != "message" {
		return &insideError{said}
	}
	m.stopped, m.stop = true, e.StopReason
	for _, c := range e.Content.is {
		m.output = true
		m.tool = m.tool || c.Type == "tool_use"
	}
	return m.cut()
}

// cut reports tool calls that a limit has cut.
func (m *messages) cut() error {
	if m.tool && chat.FinishReason(m.stop).Limited() {
		return &badAnswer{kind: ErrTruncated, text: fmt.Sprintf("the answer was cut inside its tool calls (stop reason %q); raise max_tokens", m.stop)}
	}
	return nil
}

// whole returns io.EOF if the answer is whole, or why it is not.
func (m *messages) whole() error {
	switch {
	case m.stop != "", m.stopped && m.output && !m.open:
		return io.EOF
	case m.stopped && m.open:
		return &badAnswer{kind: ErrIncomplete, text: "the answer broke off within a tool call, and gave no reason"}
	case m.stopped:
		return &badAnswer{kind: ErrEmpty, text: "the answer was empty: it ended with neither content nor a reason"}
	case !m.begun && !m.output:
		return &badAnswer{kind: ErrEmpty, text: "the answer was empty: it did not even begin"}
	}
	return &badAnswer{kind: ErrIncomplete, text: "the answer broke off: the stream ended without message_stop"}
}

// isMessages reports whether a request is for Messages.
func isMessages(method, path string) bool {
	return method == http.MethodPost && strings.HasSuffix(path, messagesPath)
}
