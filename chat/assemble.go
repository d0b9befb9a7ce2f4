package chat

import (
	"encoding/json"
	"maps"
)

// An Assembler joins the chunks of a streamed answer. The zero value is ready
// for use. It must not be copied after its first use, and is not safe for
// concurrent use.
//
// All chunks together cost time and memory in proportion to their size, in
// however many pieces they come.
type Assembler struct {
	resp      Response
	content   growing
	reasoning growing
	refusal   growing
	calls     calls
	details   details
	blocks    details
	logprobs  logprobs
}

// Add appends a chunk, or puts it in the place of what came before if it is a
// [Chunk.Whole] message. It neither changes nor keeps the chunk, but may share
// its strings and raw JSON.
func (a *Assembler) Add(ch *Chunk) {
	r := &a.resp
	r.ID = firstOf(r.ID, ch.ID)
	r.Model = firstOf(r.Model, ch.Model)
	r.SystemFingerprint = firstOf(ch.SystemFingerprint, r.SystemFingerprint)
	r.ServiceTier = firstOf(ch.ServiceTier, r.ServiceTier)
	if r.Created.IsZero() {
		r.Created = ch.Created
	}
	if ch.FinishReason != "" {
		r.FinishReason = ch.FinishReason
	}
	if ch.Usage != nil {
		u := *ch.Usage
		r.Usage = &u // the last one counts all; they are never summed
	}

	// The name goes with the first thought, not with an empty announcement.
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
			set(&r.Message.Extra, name, raw)
		}
	}
}

// sentBack tells which unknown fields of a delta belong to the message, and
// thereby into the conversation that is sent next time. An empty list says
// nothing, Groq's channel belongs to the piece, and LiteLLM's field repeats
// what others have; a server with a closed schema refuses all three. A content
// with images is one that no server takes from an assistant.
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
	if a.calls.tooMany {
		return ErrTooManyCalls
	}
	return nil
}

// Response returns what the chunks so far amount to. Later chunks do not
// change it.
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
	if raw := a.details.json(); raw != nil {
		set(&m.Extra, detailsKey, raw)
	}
	if raw := a.blocks.json(); raw != nil {
		set(&m.Extra, blocksKey, raw)
	}
	return m
}

// merge puts the members of from into to; of a name that both have the last
// value is kept.
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
