package conformance_test

import (
	"net/http"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// messages is Anthropic's Messages.
var messages = wire{
	route: func(rt http.RoundTripper) http.RoundTripper { return messagesPath{rt} },
	speak: speakMessages,
}

// messagesPath sits below the Transport and brings requests for messages to
// where the fake server takes completions: its scripts can say anything.
type messagesPath struct{ next http.RoundTripper }

func (p messagesPath) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		req = req.Clone(req.Context())
		req.URL.Path += "/chat/completions"
	}
	return p.next.RoundTrip(req)
}

func (p messagesPath) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func speakMessages(m mode, text string) speech {
	const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	s := speech{
		streamed:  m.streamed,
		ping:      fake.Event("ping", `{"type":"ping"}`),
		trouble:   fake.ErrorInside(fake.ErrorAnthropic, 529, "Overloaded"),
		malformed: fake.Event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"ty`),
		torn:      fake.Raw("event: content_block_delta\ndata: {\"type\":\"content_blo"),
		errorBody: overloaded,
	}
	half, rest := pieces(text)
	block, whole := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text", "text": text}
	kind, field, reason := "text_delta", "text", "end_turn"
	if m.tools {
		half, rest = pieces(toolArgs(text))
		block = map[string]any{"type": "tool_use", "id": "toolu_1", "name": toolName, "input": map[string]any{}}
		whole = map[string]any{"type": "tool_use", "id": "toolu_1", "name": toolName, "input": map[string]string{"text": text}}
		cut := map[string]any{"type": "tool_use", "id": "toolu_1", "name": toolName, "input": map[string]any{}}
		s.lengthBody = encode(messagesBody([]any{cut}, "max_tokens"))
		kind, field, reason = "input_json_delta", "partial_json", "tool_use"
	}
	output := func(piece string) fake.Step {
		return messagesEvent("content_block_delta", map[string]any{
			"index": 0, "delta": map[string]any{"type": kind, field: piece},
		})
	}
	s.begin = fake.Reply(
		messagesEvent("message_start", map[string]any{"message": messagesBody([]any{}, nil)}),
		messagesEvent("content_block_start", map[string]any{"index": 0, "content_block": block}),
	)
	s.half, s.rest = each(half, output), each(rest, output)
	s.end, s.length = messagesEnd(reason), messagesEnd("max_tokens")
	s.body = encode(messagesBody([]any{whole}, reason))
	return s
}

func messagesEnd(reason string) fake.Step {
	return fake.Reply(
		messagesEvent("content_block_stop", map[string]any{"index": 0}),
		messagesEvent("message_delta", map[string]any{
			"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
			"usage": map[string]any{"output_tokens": 9},
		}),
		messagesEvent("message_stop", map[string]any{}),
	)
}

func messagesEvent(name string, fields map[string]any) fake.Step {
	fields["type"] = name
	return fake.Event(name, encode(fields))
}

func messagesBody(content []any, reason any) map[string]any {
	return map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": model,
		"content": content, "stop_reason": reason, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 5, "output_tokens": 1},
	}
}
