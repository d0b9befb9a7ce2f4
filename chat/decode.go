package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ParseChunk decodes the data of one event of a streamed answer. The error
// says where the JSON is broken; one that matches io.ErrUnexpectedEOF means
// that it was cut short. Nothing that it returns shares memory with data.
//
// A null is an empty chunk. An event that is neither a piece of an answer nor an
// error, such as {"status":"queued"}, is no failure: its fields are in [Chunk.Extra].
func ParseChunk(data []byte) (*Chunk, error) {
	ch := &Chunk{}
	if err := ch.decode(data, false); err != nil {
		return nil, failure("chunk", err)
	}
	return ch, nil
}

// UnmarshalJSON sets the chunk to the data of one event, as [ParseChunk] does.
// Decoding a stream into one variable is cheaper than a new chunk each time: strings
// that all chunks have in common are reused. After an error the chunk is empty.
func (ch *Chunk) UnmarshalJSON(data []byte) error {
	*ch = Chunk{ID: ch.ID, Model: ch.Model, SystemFingerprint: ch.SystemFingerprint}
	if err := ch.decode(data, false); err != nil {
		*ch = Chunk{}
		return failure("chunk", err)
	}
	return nil
}

// ParseResponse decodes a plain answer. If the server sent an error instead, the
// response is nil and the second result holds the error. The third result is an error
// in the JSON, as with [ParseChunk].
func ParseResponse(data []byte) (*Response, *ServerError, error) {
	var ch Chunk
	if err := ch.decode(data, true); err != nil {
		return nil, nil, failure("response", err)
	}
	if ch.Error != nil {
		return nil, ch.Error, nil
	}
	var a Assembler
	a.Add(&ch)
	return a.Response(), nil, nil
}

// UnmarshalJSON decodes a message in any of the forms that servers send and accept.
// Parts of an assistant's message are joined into its text and reasoning; those of
// other roles are kept. Null changes nothing.
func (m *Message) UnmarshalJSON(data []byte) error {
	ch := Chunk{Whole: true}
	d := delta{ch: &ch, whole: true, keep: true}
	c := cursor{data: data}
	k, err := c.kind()
	if err == nil && k == 'n' {
		err = c.literal("null")
	} else if err == nil {
		err = c.members(func(key []byte) error { return d.member(&c, key) })
	}
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return failure("message", err)
	}
	if k == 'n' {
		return nil
	}
	var a Assembler
	a.Add(&ch)
	*m = a.message()
	m.Role, m.Name, m.ToolCallID = ch.Role, d.name, d.callID
	if len(d.parts) > 0 && m.Role != RoleAssistant {
		m.Parts, m.Reasoning, m.ReasoningKey = d.parts, "", ""
	}
	return nil
}

// failure returns the error for something that could not be decoded.
func failure(what string, err error) error {
	if err == ErrTooManyCalls {
		return err
	}
	return fmt.Errorf("chat: %s: %w", what, err)
}

// decode reads a chunk or a plain answer. They differ in one name, delta or message,
// and some servers mix them up. Of the old content of ch, only strings that come
// again are reused. body is set for a plain answer: anything else with a message is
// an error then.
func (ch *Chunk) decode(data []byte, body bool) error {
	c := cursor{data: data}
	id, model, fingerprint := ch.ID, ch.Model, ch.SystemFingerprint
	ch.ID, ch.Model, ch.SystemFingerprint = "", "", ""
	if k, err := c.kind(); err != nil {
		return err
	} else if k != '{' {
		return ch.notAnObject(&c, body)
	}
	var failed, choices bool
	var aside *Usage // from a choice or from Groq's own field
	err := c.members(func(key []byte) (err error) {
		switch string(key) {
		case "id":
			ch.ID, err = c.scalarOr(id)
		case "model":
			ch.Model, err = c.textOr(model)
		case "created":
			ch.Created, err = c.time()
		case "choices":
			choices = true
			err = ch.choices(&c, &aside)
		case "usage":
			var u *Usage
			if u, err = c.usage(); u != nil {
				ch.Usage = u
			}
		case "object":
			var s []byte
			s, err = c.bytes()
			failed = failed || string(s) == "error"
		case "error":
			var raw []byte
			raw, err = c.raw()
			failed = failed || saysWithin(raw, nil)
		case "base_resp": // MiniMax
			err = put(&c, &ch.Extra, key)
			failed = failed || baseFailed(ch.Extra["base_resp"])
		case "errors", "errorMessage", "err":
			err = put(&c, &ch.Extra, key)
			failed = failed || saysWithin(ch.Extra[string(key)], nil)
		case "response": // of another API
			err = put(&c, &ch.Extra, key)
			failed = failed || saysWithin(errorWithin(ch.Extra["response"]), nil)
		case "x_groq":
			if err = put(&c, &ch.Extra, key); err == nil {
				err = ch.groq(&aside)
			}
		case "system_fingerprint":
			ch.SystemFingerprint, err = c.textOr(fingerprint)
		case "service_tier":
			ch.ServiceTier, err = c.textOr("default")
		case "obfuscation":
			err = c.skip() // padding of random length against eavesdroppers
		default:
			err = put(&c, &ch.Extra, key)
			failed = failed || isException(key) && saysWithin(ch.Extra[string(key)], nil)
		}
		return err
	})
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return err
	}
	if ch.Usage == nil {
		ch.Usage = aside
	}
	switch {
	case ch.Error != nil:
	case failed || body && !choices && ch.Usage == nil:
		ch.Error = ParseError(data)
	case !choices && ch.Usage == nil:
		if e := ParseError(data); e != nil && e.admits() {
			ch.Error = e
		}
	}
	return nil
}

// notAnObject takes an error that came as a list or a string, and null for an
// event that says nothing.
func (ch *Chunk) notAnObject(c *cursor, body bool) error {
	k, _ := c.kind()
	if err := c.skip(); err != nil {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	if k == 'n' && !body {
		return nil
	}
	if ch.Error = ParseError(c.data); ch.Error == nil {
		return errors.New("the JSON is no object")
	}
	return nil
}

// groq looks into the x_groq field, where Groq has its usage, and the reason
// for which it stopped early.
func (ch *Chunk) groq(aside **Usage) error {
	raw := ch.Extra["x_groq"]
	if raw == nil {
		return nil
	}
	in := cursor{data: raw}
	return in.object(func(key []byte) (err error) {
		switch string(key) {
		case "usage":
			*aside, err = in.usage()
		case "error":
			var value []byte
			value, err = in.raw()
			ch.fail(value)
		default:
			err = in.skip()
		}
		return err
	})
}

// fail takes the value of an error member within an answer, if it says
// anything.
func (ch *Chunk) fail(raw []byte) {
	if saysWithin(raw, nil) {
		ch.Error = errorValue(raw, 0)
		ch.Error.finish(raw)
	}
}

// choices reads the first choice, since a call has one answer. Further choices are
// joined to it unless they say that they are other answers.
func (ch *Chunk) choices(c *cursor, aside **Usage) error {
	k, err := c.kind()
	if err != nil || k != '[' {
		_, err = ch.choice(c, aside)
		return err
	}
	var first []byte
	var seen sameCalls
	return c.elements(func(i int) error {
		if i == 0 {
			first, err = ch.choice(c, aside)
			return err
		}
		return ch.further(c, aside, first, &seen)
	})
}

// further reads a choice behind the first one, whose index is given.
func (ch *Chunk) further(c *cursor, aside **Usage, first []byte, seen *sameCalls) error {
	more := &Chunk{}
	var usage *Usage
	index, err := more.choice(c, &usage)
	if err != nil || index != nil && string(index) != string(first) {
		return err
	}
	if *aside == nil {
		*aside = usage
	}
	return ch.join(more, seen)
}

// choice reads one choice and returns its index as it is written, or nil.
func (ch *Chunk) choice(c *cursor, aside **Usage) (index []byte, err error) {
	var message *Chunk
	var text, loose string
	var parts bool // it has a delta or a message
	err = c.object(func(key []byte) (err error) {
		switch string(key) {
		case "index":
			if index, err = c.raw(); string(index) == "null" {
				index = nil
			}
		case "delta":
			parts = true
			d := delta{ch: ch}
			err = d.read(c)
		case "message":
			parts = true
			message = &Chunk{}
			d := delta{ch: message, whole: true}
			err = d.read(c)
		case "text": // of the API before there were messages
			text, loose, err = c.piece()
		case "finish_reason":
			var s []byte
			s, err = c.bytes()
			if r := finishReason(s); r != "" {
				ch.FinishReason = r
			}
		case "error":
			var raw []byte
			raw, err = c.raw()
			ch.fail(raw)
		case "usage": // Moonshot
			*aside, err = c.usage()
		default:
			err = put(c, &ch.ChoiceExtra, key)
		}
		return err
	})
	switch {
	case message != nil:
		ch.settle(message)
	case !parts && text != "":
		ch.Content = text
		ch.note(cutContent, loose)
	}
	return index, err
}

// join takes a further choice of the same answer. Copilot sends the text in one and
// each call in another.
func (ch *Chunk) join(more *Chunk, seen *sameCalls) error {
	if ch.Error == nil && !ch.speaks() {
		ch.Error = more.Error
	}
	ch.Whole = ch.Whole || more.Whole
	if ch.Content == "" {
		ch.Content = more.Content
		ch.note(cutContent, more.loose(cutContent))
	}
	if ch.Refusal == "" {
		ch.Refusal = more.Refusal
		ch.note(cutRefusal, more.loose(cutRefusal))
	}
	if ch.Reasoning == "" {
		ch.Reasoning, ch.ReasoningKey = more.Reasoning, firstOf(more.ReasoningKey, ch.ReasoningKey)
		ch.note(cutReasoning, more.loose(cutReasoning))
	}
	seen.add(ch.ToolCalls)
	had := len(ch.ToolCalls)
	for _, d := range more.ToolCalls {
		if seen.has(&d) {
			continue
		}
		if more.Whole {
			d.Index = len(ch.ToolCalls)
		}
		if err := ch.call(d); err != nil {
			return err
		}
	}
	if r := more.FinishReason; r != "" && !ch.FinishReason.spoils() && (r.spoils() || ch.FinishReason == "" || len(ch.ToolCalls) > had) {
		ch.FinishReason = r
	}
	for name, raw := range more.DeltaExtra {
		if _, there := ch.DeltaExtra[name]; !there {
			set(&ch.DeltaExtra, name, raw)
		}
	}
	return nil
}

// sameCalls knows the calls of the choices so far, so that a repeated one is not
// taken for another call.
type sameCalls struct {
	known map[sameCall]bool
	n     int // how many have been added
}

type sameCall struct {
	index           int // where there is no name
	name, arguments string
}

func (d *ToolCallDelta) same() sameCall {
	if d.Name != "" {
		return sameCall{0, d.Name, d.Arguments}
	}
	return sameCall{d.Index, "", d.Arguments}
}

func (s *sameCalls) add(all []ToolCallDelta) {
	if s.known == nil {
		s.known = make(map[sameCall]bool)
	}
	for ; s.n < len(all); s.n++ {
		s.known[all[s.n].same()] = true
	}
}

func (s *sameCalls) has(d *ToolCallDelta) bool { return s.known[d.same()] }

// settle replaces the pieces with a whole message, unless it is empty, as some servers
// send one beside each delta, or only repeats the pieces: Perplexity sends, beside
// each delta, all text so far.
func (ch *Chunk) settle(all *Chunk) {
	switch {
	case !all.speaks():
		ch.Role = Role(firstOf(string(ch.Role), string(all.Role)))
		ch.ReasoningKey = firstOf(ch.ReasoningKey, all.ReasoningKey)
		merge(&ch.DeltaExtra, all.DeltaExtra)
	case ch.Whole || !ch.speaks() || ch.FinishReason != "" && !ch.ends(all):
		ch.Whole = true
		ch.Role, ch.Content, ch.Refusal = all.Role, all.Content, all.Refusal
		ch.Reasoning, ch.ReasoningKey = all.Reasoning, all.ReasoningKey
		ch.ToolCalls, ch.DeltaExtra = all.ToolCalls, all.DeltaExtra
	}
}

// speaks reports whether the message or the piece has any part of an answer.
func (ch *Chunk) speaks() bool { return len(ch.ToolCalls) > 0 || ch.Output() }

// ends reports whether the piece is the end of a whole message and not the
// message itself, so that callers that read the pieces lose nothing of it.
func (ch *Chunk) ends(all *Chunk) bool {
	return ch.Content != "" && len(ch.Content) < len(all.Content) && len(all.ToolCalls) == 0 &&
		strings.HasSuffix(all.Content, ch.Content)
}

// time reads a Unix time in seconds. What is no sensible time is none.
func (c *cursor) time() (time.Time, error) {
	const year10000 = 253402300800
	n, _, err := c.integer()
	if n <= 0 || n >= year10000 {
		return time.Time{}, err
	}
	return time.Unix(n, 0), err
}

// put keeps a member that has no place of its own; null says nothing.
func put(c *cursor, to *map[string]json.RawMessage, key []byte) error {
	raw, err := c.keep()
	if err == nil && raw != nil {
		set(to, string(key), raw)
	}
	return err
}
