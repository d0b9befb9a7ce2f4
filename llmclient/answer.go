package llmclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// An answer reads the body of a 200: an event stream, one JSON value, or something
// else. The first byte decides which, since servers and gateways often send a wrong
// content type.
type answer struct {
	a      *attempt
	body   *bufio.Reader
	events *sse.Reader // set if it is a stream

	asm      chat.Assembler
	runaways runawayDetector

	chunk chat.Chunk // the present one: its parts outlive the next, the struct does not

	begun    bool
	opaque   bool              // it is handed on undecoded
	messages *messages         // it is in Anthropic's form
	json     bool              // it is one JSON value
	values   *json.Decoder     // that reads it
	lines    bool              // or several, each of them a piece
	finished bool              // a finish reason has come
	done     bool              // [DONE] has come
	reasoned bool              // reasoning has come
	blank    bool              // the last output was white space
	said     bool              // the model has written text or a tool call, not only reasoning
	noise    string            // a line that is not in the format of event streams
	strange  bool              // such a line looked like a part of an answer or of an error
	odd      *chat.ServerError // words of an event that is no piece of an answer
	torn     bool              // it broke off after its finish reason: its last bytes are no whole event
	restSeen bool              // an event without its end has been looked at

	last   int64 // where the last event ended
	pinged bool  // it was a ping
}

// An insideError is an error that the server sent inside an answer.
type insideError struct{ said *chat.ServerError }

func (e *insideError) Error() string { return "an error inside the answer" }

// drainFor and drainBytes bound how long and how far a whole answer is read to its
// end, so that the connection can be used again.
const (
	drainFor   = 20 * time.Millisecond
	drainBytes = 4 << 10
)

// next returns the next chunk, or io.EOF at the end of the answer, whole or
// not.
func (n *answer) next() (*chat.Chunk, error) {
	if !n.begun {
		n.begun = true
		if err := n.begin(); err != nil {
			return nil, err
		}
	}
	switch {
	case n.done:
		return nil, io.EOF
	case n.json && n.messages != nil:
		return n.message()
	case n.json:
		return n.value()
	case n.opaque && n.events == nil:
		return n.pass()
	}
	for {
		ev, err := n.events.Next()
		if err != nil {
			if err != io.ErrUnexpectedEOF || n.a.ctx.Err() != nil {
				return nil, err
			}
			return n.rest()
		}
		n.leavePings(ev)
		ch, err := n.event(ev)
		if ch != nil || err != nil {
			return ch, err
		}
	}
}

// leavePings removes pings, and the empty line after each, from the bytes for the
// SDK. Some SDKs give up on an answer after a number of lines without data.
func (n *answer) leavePings(ev sse.Event) {
	if n.a.call.passed == nil || n.opaque || ev.Within {
		return // a comment within an event does no harm, and its lines belong together
	}
	to := n.events.Offset()
	ping := pings(ev)
	switch {
	case ping:
		n.a.tape.leaveOut(n.last, to)
	case n.pinged:
		n.a.tape.trim(n.last)
	}
	n.last, n.pinged = to, ping
}

// rest looks at an unfinished event at the end of the stream. The standard discards
// it. But if it holds a whole finish reason or [DONE], only an empty line is missing.
func (n *answer) rest() (*chat.Chunk, error) {
	data := bytes.TrimSpace(n.events.Rest())
	if n.restSeen || len(data) == 0 {
		return nil, io.EOF
	}
	n.restSeen = true
	if !bytes.HasPrefix(data, []byte("[DONE]")) && !json.Valid(data) {
		n.torn = true
		if n.noise == "" {
			n.noise = n.a.snippet(data)
		}
		return nil, io.EOF
	}
	ch, err := n.event(sse.Event{Kind: sse.Message, Data: data})
	if n.a.call.passed != nil && (err == io.EOF || ch != nil && ch.FinishReason != "") {
		n.a.tape.buf = append(n.a.tape.buf, "\n\n"...) // or the SDK would discard it
	}
	if err == nil && (ch == nil || ch.FinishReason == "") {
		return nil, io.EOF // nothing, or a piece of text that may have been cut anywhere
	}
	return ch, err
}

// passedOn stands for output that is not decoded.
var passedOn = &chat.Chunk{}

// pass reads the next piece of a body that is not decoded.
func (n *answer) pass() (*chat.Chunk, error) {
	buf := make([]byte, 32<<10)
	k, err := n.body.Read(buf)
	n.a.tape.buf = append(n.a.tape.buf, buf[:k]...)
	if k > 0 {
		return passedOn, nil
	}
	return nil, n.ended(err)
}

// consumed returns how far the answer has been checked, as an offset for the
// tape; -1 means all that there is.
func (n *answer) consumed() int64 {
	switch {
	case n.events == nil:
		return -1
	case n.torn:
		return n.last
	case n.done:
		return -1
	}
	return n.events.Offset()
}

// source returns the reader of the answer. It writes to the tape if the answer is
// for an SDK.
func (n *answer) source() io.Reader {
	if n.a.call.passed != nil {
		return taping{n.body, &n.a.tape}
	}
	return n.body
}

// begin finds out which kind of body it is.
func (n *answer) begin() error {
	if p := n.a.call.passed; p != nil && (!p.chat || p.several) {
		n.opaque = true
		if p.messages {
			n.messages = &messages{}
		}
	}
	if n.a.call.passed != nil && (n.opaque && n.messages == nil || compressed(n.a.out.header)) {
		n.opaque, n.messages = true, nil
		n.a.watch.tell((*meter).streams) // what it is made of is handed on as it comes
		if kind := n.a.out.header.Get("Content-Type"); strings.HasPrefix(kind, "text/event-stream") && !compressed(n.a.out.header) {
			n.events = sse.NewReader(n.source(), n.a.call.client.cfg.Limits.EventBytes)
		}
		return nil
	}
	for {
		head, err := n.body.Peek(1)
		if err != nil {
			return n.ended(err)
		}
		switch head[0] {
		case ' ', '\t', '\r', '\n':
			// DeepSeek sends blank lines while a plain answer is being made.
			_, _ = n.body.Discard(1)
			n.a.watch.tell((*meter).ping)
			continue
		case '{', '[':
			n.json = true
			return nil
		case '<':
			// The beginning of a web page is enough: do not wait for its end.
			n.a.watch.tell((*meter).refused)
			page, _ := io.ReadAll(io.LimitReader(n.source(), 2<<10))
			return &badAnswer{kind: ErrMalformed, text: "a web page came in place of an answer: " + n.a.kindOfBody() + n.a.snippet(page) +
				"; something between here and the model, or BaseURL, is wrong"}
		}
		if head[0] == 0xEF { // a byte order mark: the event stream knows what to do with it
			if bom, err := n.body.Peek(4); err == nil && (bom[3] == '{' || bom[3] == '[') {
				_, _ = n.body.Discard(3)
				continue
			}
		}
		n.events = sse.NewReader(n.source(), n.a.call.client.cfg.Limits.EventBytes)
		n.events.Split(whole)
		n.a.watch.tell((*meter).streams)
		return nil
	}
}

// whole reports whether a line of an event is an event by itself. Some proxies
// leave out the empty lines between.
func whole(line []byte) bool { return string(line) == "[DONE]" || json.Valid(line) }

// ended returns the error for the end of a body. It tells an empty answer from one
// that broke off.
func (n *answer) ended(err error) error {
	if err == io.ErrUnexpectedEOF && n.a.ctx.Err() == nil {
		return &badAnswer{kind: ErrIncomplete, text: "the answer broke off before its announced length", err: err}
	}
	return err
}

// event turns an event into a chunk, if it holds one.
func (n *answer) event(ev sse.Event) (*chat.Chunk, error) {
	if pings(ev) {
		n.a.watch.tell((*meter).ping)
		return nil, nil
	}
	if ev.Kind == sse.Field {
		return n.line(ev)
	}
	ev.Data = bytes.TrimSpace(ev.Data)
	for twice := []byte("data:"); bytes.HasPrefix(ev.Data, twice); { // a proxy's frame in a proxy's frame
		ev.Data = bytes.TrimSpace(bytes.TrimPrefix(ev.Data, twice))
	}
	data := ev.Data
	switch {
	case ev.Type == "error":
	case n.messages != nil:
		return n.messages.event(n, ev)
	case n.opaque:
		return n.overheard(data), nil
	}
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		n.done = true
		n.a.watch.tell((*meter).over)
		n.drain()
		return nil, io.EOF
	}
	if ev.Type == "error" {
		said := chat.ParseError(data)
		if said == nil {
			said = &chat.ServerError{Message: n.a.snippet(data)}
		}
		return nil, &insideError{said}
	}
	ch := &n.chunk
	if err := ch.UnmarshalJSON(data); err != nil {
		if errors.Is(err, chat.ErrTooManyCalls) {
			return nil, errTooManyCalls
		}
		return nil, &badAnswer{kind: ErrMalformed, text: "a piece of the answer cannot be read: " + err.Error(), err: plainError(err)}
	}
	if ch.Error != nil {
		return nil, &insideError{ch.Error}
	}
	if n.odd == nil && !speaks(ch) {
		n.odd = chat.ParseError(data) // it is the reason if no answer follows
	}
	return ch, nil
}

// line looks at a line that belongs to no event. Some servers leave out the field
// name before their JSON, mostly when it is an error.
func (n *answer) line(ev sse.Event) (*chat.Chunk, error) {
	text := []byte(ev.Type)
	if len(ev.Data) > 0 {
		text = append(append(text, ':'), ev.Data...)
	}
	switch {
	case text[0] == '{' && json.Valid(text):
		return n.event(sse.Event{Kind: sse.Message, Data: text})
	case ev.Type == "error":
		if said := chat.ParseError(ev.Data); said != nil {
			return nil, &insideError{said}
		}
	}
	if n.noise == "" {
		n.noise = n.a.snippet(text)
	}
	n.strange = n.strange || strings.ContainsRune(`{}[]"<`, rune(text[0]))
	return nil, nil
}

// pings reports whether an event is only a sign of life.
func pings(ev sse.Event) bool {
	if ev.Kind != sse.Message {
		return ev.Kind == sse.Ping
	}
	data := bytes.TrimSpace(ev.Data)
	switch ev.Type {
	case "ping":
		return true
	case "heartbeat", "keepalive", "keep-alive":
		if !json.Valid(data) {
			return true
		}
	}
	return len(data) == 0 || data[0] == ':' || idle(data) // a comment that became data, for one
}

func idle(data []byte) bool {
	switch strings.ToLower(string(data[:min(len(data), 16)])) {
	case "null", `""`, "ping", "pong", "heartbeat", "keep-alive", "keepalive", "[ping]", "[heartbeat]", "[keepalive]", "[keep-alive]":
		return true
	}
	return isTime(data)
}

// isTime reports whether data is a bare time of day, with its date or without.
func isTime(data []byte) bool {
	colons := 0
	for _, b := range data {
		switch {
		case b == ':':
			colons++
		case '0' <= b && b <= '9', b == '-', b == '.', b == '+', b == ' ', b == 'T', b == 'Z':
		default:
			return false
		}
	}
	return colons > 0 && len(data) <= len(time.RFC3339Nano)
}

// one reads the answer as one JSON value. The answer ends with it, even if the body
// stays open.
func (n *answer) one() (json.RawMessage, error) {
	var text json.RawMessage
	if n.values == nil {
		n.values = json.NewDecoder(n.source())
	}
	if err := n.values.Decode(&text); err != nil {
		var syntax *json.SyntaxError
		switch {
		case n.lines && err == io.EOF:
			return nil, io.EOF
		case errors.As(err, &syntax):
			return nil, &badAnswer{kind: ErrMalformed, text: "the answer cannot be read: " + err.Error(), err: plainError(err)}
		case cut(err) && n.a.ctx.Err() == nil:
			return nil, &badAnswer{kind: ErrIncomplete, text: "the answer broke off: its JSON is cut short", err: plainError(err)}
		}
		return nil, err
	}
	n.done = true
	return text, nil
}

// message takes an answer in Anthropic's form that is one value.
func (n *answer) message() (*chat.Chunk, error) {
	text, err := n.one()
	if err == nil {
		err = n.messages.plain(text)
	}
	if err != nil {
		return nil, err
	}
	n.a.watch.tell((*meter).over)
	n.drain()
	return nil, io.EOF
}

// value takes an answer that is one value.
func (n *answer) value() (*chat.Chunk, error) {
	text, err := n.one()
	if err != nil {
		return nil, err
	}
	ch := &n.chunk
	if err := ch.UnmarshalJSON(text); err != nil {
		if errors.Is(err, chat.ErrTooManyCalls) {
			return nil, errTooManyCalls
		}
		return nil, &badAnswer{kind: ErrMalformed, text: "the answer cannot be read: " + err.Error(), err: plainError(err)}
	}
	if !ch.Whole && ch.Error == nil && ch.FinishReason == "" && (ch.Output() || ch.Role != "" || len(ch.ToolCalls) > 0) {
		n.done, n.lines = false, true // a piece of an answer: more JSON values may follow
		n.a.watch.tell((*meter).streams)
		return ch, nil
	}
	if n.lines && ch.FinishReason == "" && ch.Error == nil {
		n.done = false
		return ch, nil // the usage, or a piece without anything
	}
	if ch.Error == nil && ch.FinishReason == "" && !ch.Output() && len(ch.ToolCalls) == 0 {
		ch.Error = chat.ParseError(text) // no answer: perhaps an error without a frame
	}
	if ch.Error != nil {
		return nil, &insideError{ch.Error}
	}
	n.a.watch.tell((*meter).over)
	n.drain()
	return ch, nil
}

// drain reads the rest after [DONE], which is mostly empty, so that the connection
// can carry the next call. It does not wait for a server that keeps the answer
// open.
func (n *answer) drain() {
	if !n.a.read { // mostly the end has come along with what was before it
		t := time.AfterFunc(drainFor, func() { n.a.cancel(errDrained) })
		defer t.Stop()
	}
	_, _ = io.CopyN(io.Discard, n.source(), drainBytes)
}

var errDrained = errors.New("the answer was whole, and its body did not end")

// compressed reports whether a body is compressed in a way that the SDK above
// asked for and will undo.
func compressed(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e != "" && e != "identity"
}

// plainError keeps a decoder's error from matching io.EOF and the like, which would
// be taken for errors of the connection.
func plainError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "chat: "))
}
