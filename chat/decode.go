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
// A null is a chunk with nothing in it. An event that is neither a piece of an
// answer nor says that it is an error, {"status":"queued"} say, is no failure:
// its fields are in [Chunk.Extra].
func ParseChunk(data []byte) (*Chunk, error) {
	ch := &Chunk{}
	if err := ch.decode(data, false); err != nil {
		return nil, failure("chunk", err)
	}
	return ch, nil
}

// UnmarshalJSON sets the chunk to the data of one event, as [ParseChunk] does.
// Decoding a stream into one variable costs less than a new chunk each time:
// strings that all chunks have in common are shared with the one before. After
// an error the chunk is empty.
func (ch *Chunk) UnmarshalJSON(data []byte) error {
	*ch = Chunk{ID: ch.ID, Model: ch.Model, SystemFingerprint: ch.SystemFingerprint}
	if err := ch.decode(data, false); err != nil {
		*ch = Chunk{}
		return failure("chunk", err)
	}
	return nil
}

// ParseResponse decodes a plain answer, or the error that came in its place:
// then the response is nil and the error is the server's. The last result is
// about the JSON, as with [ParseChunk].
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

// UnmarshalJSON decodes a message in any of the forms that servers send and
// accept. Parts of an assistant's message are joined into its text and
// reasoning; those of other roles are kept. As ever, null changes nothing.
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

// failure says what could not be decoded.
func failure(what string, err error) error {
	if err == ErrTooManyCalls {
		return err
	}
	return fmt.Errorf("chat: %s: %w", what, err)
}

// decode reads a chunk or a plain answer. They differ in one name, delta or
// message, and some servers send the one where the other is due. Of what ch
// holds already, only strings that come again are used. body tells an answer
// from an event: what is no answer is an error then, if it has any words.
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

// choices reads the first choice: a call has one answer. The others are
// stepped over.
func (ch *Chunk) choices(c *cursor, aside **Usage) error {
	var message *Chunk
	first := func(key []byte) error { return ch.choice(c, key, aside, &message) }
	k, err := c.kind()
	if err != nil || k != '[' {
		err = c.object(first)
	} else {
		err = c.elements(func(i int) error {
			if i > 0 {
				return c.skip()
			}
			return c.object(first)
		})
	}
	if err == nil && message != nil {
		ch.settle(message)
	}
	return err
}

func (ch *Chunk) choice(c *cursor, key []byte, aside **Usage, message **Chunk) (err error) {
	switch string(key) {
	case "index":
		err = c.skip()
	case "delta":
		if ch.Whole {
			return c.skip()
		}
		d := delta{ch: ch}
		err = c.object(func(key []byte) error { return d.member(c, key) })
	case "message":
		all := &Chunk{}
		d := delta{ch: all, whole: true}
		err = c.object(func(key []byte) error { return d.member(c, key) })
		*message = all
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
}

// settle puts a whole message in the place of the pieces, unless it says
// nothing, as the one that some servers have beside each delta, or only repeats
// what came so far: Perplexity has, beside each delta, all until then.
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
// message itself, so that nothing of it is lost to who reads the pieces.
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
