package chat

import "encoding/json"

// Output reports whether the chunk carries output of the model: text, reasoning,
// arguments of a tool, or other data such as sound, an image or encrypted reasoning.
// A role, a name, a finish reason, usage, or a label of data that is to come, as
// {"audio":{"id":"a"}}, is not output.
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

// writes reports whether the chunk has text or arguments. Other data, such as sources,
// may be added even after the model has finished.
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

// generated reports whether extra fields hold anything but labels.
func generated(extra map[string]json.RawMessage) bool {
	for name, raw := range extra {
		if !labels(name) && saysWithin(raw, isLabel) {
			return true
		}
	}
	return false
}

// labels are the members that only identify a piece or show that the server is alive.
// On no level of a delta are they output. LiteLLM's provider_specific_fields repeats
// other members.
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
