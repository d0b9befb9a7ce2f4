package conformance_test

import (
	"net/http"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// completions is OpenAI's chat completions.
var completions = wire{
	understood: true,
	route:      func(rt http.RoundTripper) http.RoundTripper { return rt },
	speak:      speakCompletions,
}

func speakCompletions(m mode, text string) speech {
	s := speech{
		streamed:  m.streamed,
		begin:     fake.Role(),
		ping:      fake.Ping(),
		trouble:   fake.ErrorInside(fake.ErrorOpenAI, http.StatusInternalServerError, "out of memory"),
		malformed: fake.Malformed(),
		torn:      fake.Raw(`data: {"choices":[{"index":0,"delta":{"conte`),
		abort:     fake.Reply(fake.Finish("abort"), fake.Done()),
		length:    fake.End("length"),
		errorBody: `{"error":{"message":"out of memory","type":"server_error","param":null,"code":500}}`,
	}
	half, rest := pieces(text)
	output, reason := fake.Text, "stop"
	whole := map[string]any{"role": "assistant", "content": text}
	broken := map[string]any{"role": "assistant", "content": half[0]}
	if m.tools {
		half, rest = pieces(toolArgs(text))
		s.begin = fake.Reply(fake.Role(), fake.ToolDelta(0, "call_1", toolName, ""))
		output = func(args string) fake.Step { return fake.ToolDelta(0, "", "", args) }
		reason = "tool_calls"
		whole = completionsCall(toolArgs(text))
		broken = completionsCall(half[0])
		s.lengthBody = completionsBody(broken, "length")
	}
	s.half, s.rest = each(half, output), each(rest, output)
	s.end = fake.End(reason)
	s.body, s.abortBody = completionsBody(whole, reason), completionsBody(broken, "abort")
	return s
}

func completionsCall(args string) map[string]any {
	return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
		"id": "call_1", "type": "function", "function": map[string]any{"name": toolName, "arguments": args},
	}}}
}

func completionsBody(message map[string]any, reason string) string {
	return encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}},
		"usage":   map[string]any{"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14},
	})
}
