package chat

import (
	"bytes"
	"encoding/json"
	"slices"
)

// delta reads one delta or message into a chunk.
type delta struct {
	ch    *Chunk
	whole bool // a message: its tool calls are whole too

	// Members that only messages of a conversation have.
	name   string
	callID string
	parts  []Part
	keep   bool // parts
	old    bool // there is a function_call
}

// read reads a delta or message. A function_call that repeats tool_calls is left out
// here already, for callers that read piece by piece.
func (d *delta) read(c *cursor) error {
	if err := c.object(func(key []byte) error { return d.member(c, key) }); err != nil || !d.old {
		return err
	}
	all := d.ch.ToolCalls
	i := slices.IndexFunc(all, isOld)
	old := &all[i]
	if slices.ContainsFunc(all, func(t ToolCallDelta) bool {
		return !t.Old && t.Name == old.Name && t.Arguments == old.Arguments
	}) {
		d.ch.ToolCalls = slices.Delete(all, i, i+1)
	}
	return nil
}

func (d *delta) member(c *cursor, key []byte) (err error) {
	ch := d.ch
	switch string(key) {
	case "role":
		var s []byte
		if s, err = c.bytes(); string(s) == string(RoleAssistant) {
			ch.Role = RoleAssistant
		} else {
			ch.Role = Role(s)
		}
	case "content":
		err = d.content(c)
	case "refusal":
		var loose string
		ch.Refusal, loose, err = c.piece()
		ch.note(cutRefusal, loose)
	case "reasoning_content", "reasoning":
		// A null also tells the name. DeepSeek wants the field back, empty, in
		// a turn without a thought, and a server that has the field takes it.
		err = ch.thought(c, key, true)
	case "thinking", "reasoning_text": // the latter is Copilot's
		err = ch.thought(c, key, false)
	case detailsKey:
		if err = put(c, &ch.DeltaExtra, key); err == nil && ch.Reasoning == "" {
			var loose string
			ch.Reasoning, loose = tidy(detailsText(ch.DeltaExtra[detailsKey]))
			ch.note(cutReasoning, loose)
		}
	case "error":
		if d.whole { // of a conversation, perhaps
			return put(c, &ch.DeltaExtra, key)
		}
		var raw []byte
		raw, err = c.raw()
		ch.fail(raw)
	case "tool_calls":
		err = d.toolCalls(c)
	case "function_call": // the form before there were several calls
		call := ToolCallDelta{Index: -1, Old: true}
		err = c.object(func(key []byte) error { return call.function(c, key) })
		if err == nil && (call.Name != "" || call.Arguments != "") {
			d.old = true
			err = ch.call(call)
		}
	case "name":
		d.name, err = c.text()
	case "tool_call_id":
		d.callID, err = c.scalar()
	default:
		err = put(c, &ch.DeltaExtra, key)
	}
	return err
}

// thought reads reasoning. Empty reasoning only sets its name, if null does so for
// that name. Reasoning as an object or a list is shown but not sent back, since the
// stream does not tell its parts.
func (ch *Chunk) thought(c *cursor, key []byte, null bool) error {
	if k, err := c.kind(); err == nil && (k == '{' || k == '[') {
		b, err := appendWords(nil, c)
		if s, loose := tidy(string(b)); s != "" {
			ch.think(inContent, s, loose)
		}
		return err
	}
	s, loose, err := c.piece()
	if s != "" || null {
		ch.think(string(key), s, loose)
	}
	return err
}

// appendWords appends the text of a string, of an object, or of a list of them,
// in loose form. Of an object with several texts it takes the first.
func appendWords(all []byte, c *cursor) ([]byte, error) {
	k, err := c.kind()
	if err != nil {
		return all, err
	}
	switch k {
	case '[':
		err = c.elements(func(int) (err error) { all, err = appendWords(all, c); return err })
	case '{':
		before := len(all)
		err = c.members(func(key []byte) (err error) {
			switch string(key) {
			case "text", "content", "thinking", "reasoning", "summary", "value":
				if len(all) == before {
					all, err = appendWords(all, c)
					return err
				}
			}
			return c.skip()
		})
	default:
		var b []byte
		b, _, err = c.looseBytes()
		all = append(all, b...)
	}
	return all, err
}

// think takes reasoning under one of its names. Servers that change the name send both
// for a while: the first is taken, with its name.
func (ch *Chunk) think(key, s, loose string) {
	if ch.ReasoningKey == "" || ch.Reasoning == "" && s != "" {
		ch.ReasoningKey = key
	}
	if ch.Reasoning == "" {
		ch.Reasoning = s
		ch.note(cutReasoning, loose)
	}
}

// call appends a piece of a tool call.
func (ch *Chunk) call(d ToolCallDelta) error {
	if len(ch.ToolCalls) == MaxToolCalls {
		return ErrTooManyCalls
	}
	ch.ToolCalls = append(ch.ToolCalls, d)
	return nil
}

// content takes a string, a list of parts, one part, or null.
func (d *delta) content(c *cursor) error {
	k, err := c.kind()
	if err != nil {
		return err
	}
	switch k {
	case '"':
		var loose string
		d.ch.Content, loose, err = c.piece()
		d.ch.note(cutContent, loose)
		return err
	case '{', '[':
		var t texts
		start := c.pos
		if k == '{' {
			err = d.part(c, &t)
		} else {
			err = c.elements(func(int) error { return d.part(c, &t) })
		}
		var loose string
		d.ch.Content, loose = tidy(string(t.content))
		d.ch.note(cutContent, loose)
		if t.other && err == nil {
			set(&d.ch.DeltaExtra, contentKey, bytes.Clone(c.data[start:c.pos]))
		}
		if len(t.refusal) > 0 {
			d.ch.Refusal, loose = tidy(string(t.refusal))
			d.ch.note(cutRefusal, loose)
		}
		if len(t.reasoning) > 0 {
			s, loose := tidy(string(t.reasoning))
			d.ch.think(inContent, s, loose)
		}
		return err
	}
	return c.skip()
}

// contentKey is the member of DeltaExtra that holds content other than text.
const contentKey = "content"

// inContent is the ReasoningKey of reasoning that came as parts of the
// content.
const inContent = "content"

// texts are the joined texts of the parts of a content, in loose form.
type texts struct {
	content, reasoning, refusal []byte

	other bool // there is a part that is neither
}

// part reads one part of a content, an object or a mere string.
func (d *delta) part(c *cursor, t *texts) error {
	var p Part
	var loose string
	k, err := c.kind()
	switch {
	case err != nil:
		return err
	case k == '"':
		p.Type = "text"
		p.Text, loose, err = c.piece()
	case k == '{':
		err = c.members(func(key []byte) (err error) {
			switch string(key) {
			case "type":
				p.Type, err = c.text()
			case "text": // a string, or {"value":"…"} of another API
				var b []byte
				b, err = appendWords(nil, c)
				p.Text, loose = tidy(string(b))
			default:
				err = put(c, &p.Extra, key)
			}
			return err
		})
	default:
		return c.skip()
	}
	if err != nil {
		return err
	}
	text := firstOf(loose, p.Text)
	before := len(t.content) + len(t.refusal) + len(t.reasoning)
	switch p.Type {
	case "", "text", "output_text", "input_text":
		t.content = append(t.content, text...)
	case "refusal":
		t.refusal = append(t.refusal, firstOf(text, joined(p.Extra["refusal"]))...)
	case "thinking", "reasoning":
		t.reasoning = append(t.reasoning, firstOf(joined(p.Extra["thinking"]),
			joined(p.Extra["reasoning"]), joined(p.Extra["summary"]), text)...)
	}
	if len(t.content)+len(t.refusal)+len(t.reasoning) == before && (p.Text != "" || generated(p.Extra)) {
		t.other = true
	}
	if d.keep {
		d.parts = append(d.parts, p)
	}
	return nil
}

// joined returns a string, or the text of a list of strings and text parts, in
// loose form.
func joined(raw json.RawMessage) string {
	var all []byte
	c := cursor{data: raw}
	add := func() error {
		b, _, err := c.looseBytes()
		all = append(all, b...)
		return err
	}
	if k, err := c.kind(); err != nil || k != '[' {
		_ = add()
		return string(all)
	}
	_ = c.elements(func(int) error {
		if k, err := c.kind(); err != nil || k != '{' {
			return add()
		}
		return c.members(func(key []byte) error {
			if string(key) == "text" || string(key) == "summary" {
				return add()
			}
			return c.skip()
		})
	})
	return string(all)
}

// toolCalls takes a list of calls, or a single one.
func (d *delta) toolCalls(c *cursor) error {
	if k, err := c.kind(); err != nil || k != '[' {
		return d.toolCall(c, 0)
	}
	return c.elements(func(i int) error { return d.toolCall(c, i) })
}

func (d *delta) toolCall(c *cursor, i int) error {
	if k, err := c.kind(); err != nil || k != '{' {
		return c.skip()
	}
	call := ToolCallDelta{Index: -1}
	if err := c.members(func(key []byte) error { return call.member(c, key) }); err != nil {
		return err
	}
	if call.ID == "" && call.Name == "" && call.Arguments == "" && call.Extra == nil {
		return nil // no piece of a call
	}
	if d.whole {
		call.Index = i // in a whole message the place is the index
	}
	return d.ch.call(call)
}

func (t *ToolCallDelta) member(c *cursor, key []byte) (err error) {
	switch string(key) {
	case "index":
		var n int64
		var ok bool
		if n, ok, err = c.integer(); ok && n >= 0 && int64(int(n)) == n {
			t.Index = int(n)
		}
	case "id":
		t.ID, err = c.scalar()
	case "type":
		var s []byte
		if s, err = c.bytes(); string(s) == functionType {
			t.Type = functionType
		} else {
			t.Type = string(s)
		}
	case "function":
		err = c.object(func(key []byte) error { return t.function(c, key) })
	case "name", "arguments": // without the function object around them
		err = t.function(c, key)
	default:
		err = put(c, &t.Extra, key)
	}
	return err
}

// functionType is the type of all calls of functions.
const functionType = "function"

func (t *ToolCallDelta) function(c *cursor, key []byte) (err error) {
	switch string(key) {
	case "name":
		t.Name, err = c.text()
	case "arguments":
		k, bad := c.kind()
		if bad == nil && (k == '{' || k == '[') {
			var raw []byte
			raw, err = c.raw()
			t.Arguments, t.cut = string(raw), ""
		} else {
			t.Arguments, t.cut, err = c.piece()
		}
	default:
		err = c.skip()
	}
	return err
}
