package chat

import (
	"encoding/json"
	"maps"
)

// An Assembler joins the chunks of a streamed answer. The zero value is ready
// for use. It must not be copied after its first use, and is not safe for
// concurrent use.
//
// All chunks together cost time and memory in proportion to their size, however
// many there are.
//
// Unknown members of the message that came in pieces are left out of it, since the
// server does not expect the last piece back.
type Assembler struct {
	resp      Response
	content   growing
	reasoning growing
	refusal   growing
	calls     calls
	details   details
	blocks    details
	logprobs  logprobs
	scattered map[string]bool // unknown members that came in pieces
	refuted   FinishReason    // output came after it
}

// Add appends a chunk. A [Chunk.Whole] message replaces all chunks before it. Add
// neither changes nor keeps the chunk, but may share its strings and raw JSON.
func (a *Assembler) Add(ch *Chunk) {
	r := &a.resp
	r.ID = firstOf(r.ID, ch.ID)
	r.Model = firstOf(r.Model, ch.Model)
	r.SystemFingerprint = firstOf(ch.SystemFingerprint, r.SystemFingerprint)
	r.ServiceTier = firstOf(ch.ServiceTier, r.ServiceTier)
	if r.Created.IsZero() {
		r.Created = ch.Created
	}
	a.finish(ch)
	if ch.Usage != nil && (r.Usage == nil || ch.Usage.counts()) {
		u := *ch.Usage
		r.Usage = &u // the last one counts all; they are never summed
	}

	// The name is that of the first reasoning text, not of an empty one before it.
	if ch.ReasoningKey != "" && (r.Message.ReasoningKey == "" || ch.Reasoning != "" && a.reasoning.len() == 0) {
		r.Message.ReasoningKey = ch.ReasoningKey
	}
	a.content.add(ch.Content, ch.loose(cutContent), ch.Whole)
	a.reasoning.add(ch.Reasoning, ch.loose(cutReasoning), ch.Whole)
	a.refusal.add(ch.Refusal, ch.loose(cutRefusal), ch.Whole)
	a.calls.addAll(ch.ToolCalls, ch.Whole)

	merge(&r.Extra, ch.Extra)
	for name, raw := range ch.ChoiceExtra {
		if name == logprobsKey && a.logprobs.add(raw, ch.Whole) {
			continue
		}
		set(&r.ChoiceExtra, name, raw)
	}
	for name, raw := range ch.DeltaExtra {
		switch {
		case name == detailsKey && a.details.add(raw, ch.Whole):
		case name == blocksKey && a.blocks.add(raw, ch.Whole):
		case sentBack(name, raw):
			a.keep(name, raw, ch.Whole)
		}
	}
}

// finish takes the finish reason. A reason that the answer is not whole stays, since
// some proxies append their own, which is always stop. Only another reason of that
// kind replaces it, or any reason if output followed, since some servers send one
// with every piece.
func (a *Assembler) finish(ch *Chunk) {
	r := &a.resp
	if r.FinishReason != "" && !ch.Whole && ch.writes() {
		a.refuted = r.FinishReason
	}
	switch {
	case ch.FinishReason == "" || ch.FinishReason == r.FinishReason:
	case r.FinishReason == a.refuted, !r.FinishReason.spoils(), ch.FinishReason.spoils():
		r.FinishReason = ch.FinishReason
	}
}

// pieceLevels is how deep pieces are looked for: audio.data is on the second.
const pieceLevels = 4

// keep keeps an unknown member of the message, and notes whether it comes in pieces.
func (a *Assembler) keep(name string, raw json.RawMessage, whole bool) {
	m := &a.resp.Message
	switch old, there := m.Extra[name]; {
	case whole:
		delete(a.scattered, name)
	case there && !replaces(raw, old, pieceLevels):
		if a.scattered == nil {
			a.scattered = make(map[string]bool)
		}
		a.scattered[name] = true
	}
	set(&m.Extra, name, raw)
}

// sentBack reports whether an unknown field of a delta becomes part of the message
// and so of later requests. Left out are empty lists, Groq's channel, which belongs
// to the piece, and LiteLLM's field, which repeats others: a server with a closed
// schema refuses all three. So is content with images, which no server accepts from
// an assistant.
func sentBack(name string, raw json.RawMessage) bool {
	switch name {
	case "channel", "provider_specific_fields", contentKey:
		return false
	}
	return says(raw)
}

// Err returns [ErrTooManyCalls] if the answer has more than [MaxToolCalls]. The
// calls that go beyond it are left out, and cost nothing.
func (a *Assembler) Err() error {
	if a.calls.tooMany || a.calls.old != nil && a.calls.old.tooMany {
		return ErrTooManyCalls
	}
	return nil
}

// Response returns the answer of the chunks so far. Later chunks do not change it.
func (a *Assembler) Response() *Response {
	r := a.resp
	r.Extra, r.ChoiceExtra = maps.Clone(r.Extra), maps.Clone(r.ChoiceExtra)
	if raw := a.logprobs.json(); raw != nil {
		set(&r.ChoiceExtra, logprobsKey, raw)
	}
	if r.Usage != nil {
		u := *r.Usage
		r.Usage = &u
	}
	r.Message = a.message()
	return &r
}

func (a *Assembler) message() Message {
	m := a.resp.Message
	m.Role = RoleAssistant
	m.Content, m.Reasoning, m.Refusal = a.content.text(), a.reasoning.text(), a.refusal.text()
	m.ToolCalls = a.calls.all()
	m.Extra = maps.Clone(m.Extra)
	for name := range a.scattered {
		delete(m.Extra, name)
	}
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	if raw := a.details.json(); raw != nil {
		set(&m.Extra, detailsKey, raw)
	}
	if raw := a.blocks.json(); raw != nil {
		set(&m.Extra, blocksKey, raw)
	}
	return m
}

// merge puts the members of from into to. If both have a name, the value of from is
// kept.
func merge(to *map[string]json.RawMessage, from map[string]json.RawMessage) {
	for name, raw := range from {
		set(to, name, raw)
	}
}

func set(to *map[string]json.RawMessage, name string, raw json.RawMessage) {
	if *to == nil {
		*to = make(map[string]json.RawMessage)
	}
	(*to)[name] = raw
}
