package fakeserver

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/neverhang/neverhang/chat"
)

// encodeChunk returns the JSON of a streamed chunk.
func (t *turn) encodeChunk(ch *chat.Chunk) []byte {
	obj := t.envelope("chat.completion.chunk")
	obj["choices"] = []any{}
	delta := map[string]any{}
	if ch.Role != "" {
		delta["role"] = ch.Role
	}
	if ch.Content != "" || ch.Role != "" {
		delta["content"] = ch.Content
	}
	if ch.Reasoning != "" {
		delta[ch.ReasoningKey] = ch.Reasoning
	}
	if ch.Refusal != "" {
		delta["refusal"] = ch.Refusal
	}
	if len(ch.ToolCalls) > 0 {
		calls := make([]any, len(ch.ToolCalls))
		for i, c := range ch.ToolCalls {
			calls[i] = callObject(c)
		}
		delta["tool_calls"] = calls
	}
	if len(delta) > 0 || ch.FinishReason != "" {
		choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
		if ch.FinishReason != "" {
			choice["finish_reason"] = ch.FinishReason
		}
		obj["choices"] = []any{choice}
	}
	if ch.Usage != nil {
		obj["usage"] = usageObject(ch.Usage)
	}
	return encode(obj)
}

// callObject leaves out what the piece does not say, so that a script can
// play servers that leave out too much.
func callObject(c chat.ToolCallDelta) map[string]any {
	obj := map[string]any{}
	fn := map[string]any{}
	if c.Index >= 0 {
		obj["index"] = c.Index
	}
	if c.ID != "" {
		obj["id"] = c.ID
		obj["type"] = "function"
	}
	if c.Name != "" {
		fn["name"] = c.Name
	}
	if c.Arguments != "" || c.Name != "" {
		fn["arguments"] = c.Arguments
	}
	obj["function"] = fn
	return obj
}

// encodeWhole returns the JSON of a plain answer.
func (t *turn) encodeWhole() []byte {
	resp := t.whole.Response()
	m := &resp.Message
	msg := map[string]any{"role": "assistant", "content": nil}
	if m.Content != "" || len(m.ToolCalls) == 0 {
		msg["content"] = m.Content
	}
	if m.Reasoning != "" {
		msg[m.ReasoningKey] = m.Reasoning
	}
	if m.Refusal != "" {
		msg["refusal"] = m.Refusal
	}
	if len(m.ToolCalls) > 0 {
		calls := make([]any, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			calls[i] = map[string]any{
				"id": c.ID, "type": "function",
				"function": map[string]any{"name": c.Name, "arguments": c.Arguments},
			}
		}
		msg["tool_calls"] = calls
	}
	choice := map[string]any{"index": 0, "message": msg, "finish_reason": nil}
	if resp.FinishReason != "" {
		choice["finish_reason"] = resp.FinishReason
	}
	obj := t.envelope("chat.completion")
	obj["choices"] = []any{choice}
	if resp.Usage != nil {
		obj["usage"] = usageObject(resp.Usage)
	}
	return encode(obj)
}

func (t *turn) envelope(object string) map[string]any {
	model := "fake-model"
	if t.req.Chat != nil && t.req.Chat.Model != "" {
		model = t.req.Chat.Model
	}
	return map[string]any{
		"id":      "chatcmpl-" + strconv.Itoa(t.req.Ordinal),
		"object":  object,
		"created": t.req.Arrived.Unix(),
		"model":   model,
	}
}

func usageObject(u *chat.Usage) map[string]any {
	return map[string]any{
		"prompt_tokens":     u.PromptTokens,
		"completion_tokens": u.CompletionTokens,
		"total_tokens":      u.TotalTokens,
	}
}

// encode returns the JSON of a value built here, which always has one. The
// characters of HTML are left as they are, as model servers do.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// tokens estimates the tokens of a piece: four bytes each, at least one.
func tokens(ch *chat.Chunk) int64 {
	n := len(ch.Content) + len(ch.Reasoning) + len(ch.Refusal)
	for _, c := range ch.ToolCalls {
		n += len(c.Arguments)
	}
	return int64(max(n/4, 1))
}
