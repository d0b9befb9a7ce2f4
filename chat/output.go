package chat

import "encoding/json"

// Output reports whether the chunk carries something the model made: text,
// reasoning, arguments of a tool, or data of another kind, such as sound, an
// image, or reasoning that is encrypted. A chunk with only a role, a name, a
// finish reason or usage does not, nor does one that only labels what is to
// come: {"audio":{"id":"a"}}.
func (c *Chunk) Output() bool {
	if c.writes() {
		return true
	}
	for i := range c.ToolCalls {
		if generated(c.ToolCalls[i].Extra) {
			return true
		}
	}
	return generated(c.DeltaExtra)
}

// writes reports whether the chunk has text or arguments. Data of another kind
// may also be added when the model is done: sources, say.
func (c *Chunk) writes() bool {
	if c.Content != "" || c.Reasoning != "" || c.Refusal != "" {
		return true
	}
	for i := range c.ToolCalls {
		if c.ToolCalls[i].Arguments != "" {
			return true
		}
	}
	return false
}

// generated reports whether fields without a place of their own hold anything
// but labels.
func generated(extra map[string]json.RawMessage) bool {
	for name, raw := range extra {
		if !labels(name) && saysWithin(raw, isLabel) {
			return true
		}
	}
	return false
}

// labels names the members that say which piece this is, of what kind and for
// whom, or that someone is still there. On any level of a delta they are no
// work of the model. provider_specific_fields repeats, at LiteLLM, what other
// members have.
func labels(name string) bool {
	switch name {
	case "id", "item_id", "message_id", "request_id", "call_id", "tool_call_id", "index", "output_index",
		"content_index", "type", "object", "kind", "format", "mime_type", "media_type", "content_type",
		"name", "role", "author", "recipient", "channel", "model", "provider", "status", "state", "phase",
		"created", "created_at", "expires_at", "timestamp", "finish_reason", "stop_reason", "end_turn",
		"ping", "heartbeat", "keepalive", "keep_alive", "progress", "queue_position", "obfuscation",
		"metadata", "provider_specific_fields":
		return true
	}
	return false
}

func isLabel(key []byte) bool { return labels(string(key)) }
