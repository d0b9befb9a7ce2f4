package chat_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendMessage(t *testing.T) {
	call := chat.ToolCall{ID: "a", Name: "f", Arguments: `{"x": 1}`}
	const wire = `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]`
	calling := func(m chat.Message) chat.Message {
		m.Role, m.ToolCalls = chat.RoleAssistant, []chat.ToolCall{call}
		return m
	}
	for name, tc := range map[string]struct {
		in   chat.Message
		want string
	}{
		"system":            {chat.System("s"), `{"role":"system","content":"s"}`},
		"user":              {chat.User("u"), `{"role":"user","content":"u"}`},
		"assistant":         {chat.Assistant("a"), `{"role":"assistant","content":"a"}`},
		"tool":              {chat.ToolResult("id", "r"), `{"role":"tool","content":"r","tool_call_id":"id"}`},
		"an empty result":   {chat.ToolResult("id", ""), `{"role":"tool","content":"","tool_call_id":"id"}`},
		"a name":            {chat.Message{Role: chat.RoleUser, Content: "u", Name: "n"}, `{"role":"user","content":"u","name":"n"}`},
		"the zero message":  {chat.Message{}, `{"role":"","content":""}`},
		"HTML is no matter": {chat.User("<a href='x'>&amp;</a>"), `{"role":"user","content":"<a href='x'>&amp;</a>"}`},
		"line ends, quotes and control characters": {
			chat.User("a\"b\\c\nd\re\tf\x00\x1f\x7f/\u2028"), `{"role":"user","content":"a\"b\\c\nd\re\tf\u0000\u001f` + "\x7f/\u2028" + `"}`,
		},
		"bytes that are not UTF-8":              {chat.User("a\xffb\xc3"), "{\"role\":\"user\",\"content\":\"a\uFFFDb\uFFFD\"}"},
		"a character that is U+FFFD":            {chat.User("\uFFFD"), `{"role":"user","content":"` + "\uFFFD" + `"}`},
		"a refusal has no content":              {chat.Message{Role: chat.RoleAssistant, Refusal: "no"}, `{"role":"assistant","content":null,"refusal":"no"}`},
		"calls without text":                    {calling(chat.Message{}), `{"role":"assistant","content":null,` + wire + `}`},
		"calls with text":                       {calling(chat.Message{Content: "t"}), `{"role":"assistant","content":"t",` + wire + `}`},
		"an empty list of calls":                {chat.Message{Role: chat.RoleAssistant, Content: "t", ToolCalls: []chat.ToolCall{}}, `{"role":"assistant","content":"t"}`},
		"reasoning goes back with calls":        {calling(chat.Message{Reasoning: "hm"}), `{"role":"assistant","content":null,"reasoning_content":"hm",` + wire + `}`},
		"reasoning under its name":              {calling(chat.Message{Reasoning: "hm", ReasoningKey: "reasoning"}), `{"role":"assistant","content":null,"reasoning":"hm",` + wire + `}`},
		"an empty reasoning goes back too":      {calling(chat.Message{ReasoningKey: "reasoning_content"}), `{"role":"assistant","content":null,"reasoning_content":"",` + wire + `}`},
		"reasoning without calls stays here":    {chat.Message{Role: chat.RoleAssistant, Content: "t", Reasoning: "hm", ReasoningKey: "reasoning"}, `{"role":"assistant","content":"t"}`},
		"reasoning from parts stays here":       {calling(chat.Message{Reasoning: "hm", ReasoningKey: "content"}), `{"role":"assistant","content":null,` + wire + `}`},
		"reasoning in Extra":                    {calling(chat.Message{Reasoning: "hm", Extra: raws{"reasoning_content": raw(`"other"`)}}), `{"role":"assistant","content":null,` + wire + `,"reasoning_content":"other"}`},
		"unknown fields, in order, on one line": {chat.Message{Role: chat.RoleUser, Content: "u", Extra: raws{"z": raw("{ \"a\" :\n[ 1 , \" \\\" \" ] }"), "b": raw("null"), "c": nil}}, `{"role":"user","content":"u","b":null,"z":{"a":[1," \" "]}}`},
		"Extra takes a field's place":           {chat.Message{Role: chat.RoleUser, Content: "u", Name: "n", Extra: raws{"content": raw(`[]`), "name": nil}}, `{"role":"user","content":[]}`},
		"Extra does not take the role":          {chat.Message{Role: chat.RoleUser, Content: "u", Extra: raws{"role": raw(`"system"`)}}, `{"role":"user","content":"u"}`},
		"raw JSON with halves of characters":    {chat.Message{Role: chat.RoleUser, Extra: raws{"x": raw(`["\ud83d","a\ude00\ud83d\ude00","\ud83d\\ude00","\\ud83d", "\uD83D\n"]`)}}, `{"role":"user","content":"","x":["\ufffd","a\ufffd\ud83d\ude00","\ufffd\\ude00","\\ud83d","\ufffd\n"]}`},
		"arguments with halves of characters":   {chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "n", Arguments: `{"t": "\ud83d\ude00 \uD83D \\ud83d"}`}}}, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n","arguments":"{\"t\": \"\\ud83d\\ude00 \\ufffd \\\\ud83d\"}"}}]}`},
		"raw JSON that is not UTF-8":            {chat.Message{Role: chat.RoleUser, Extra: raws{"x": raw("\"a\xffé\"")}}, "{\"role\":\"user\",\"content\":\"\",\"x\":\"a\uFFFDé\"}"},
		"parts": {
			chat.Message{Role: chat.RoleUser, Content: "unsent", Parts: []chat.Part{chat.TextPart("t"), chat.ImagePart("data:image/png;base64,\"AA=="), {Text: "no type"}, {}, {Type: "file", Extra: raws{"file": raw(`{"file_id":"f"}`)}}}},
			`{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,\"AA=="}},` +
				`{"type":"text","text":"no type"},{"type":"text","text":""},{"type":"file","file":{"file_id":"f"}}]}`,
		},
		"calls of all kinds": {
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{
				{Name: "f"}, {ID: "b", Type: "custom", Name: "g", Arguments: " \n", Extra: raws{"extra_content": raw(`{"s": 1}`)}},
			}},
			`{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}},` +
				`{"id":"b","type":"custom","function":{"name":"g","arguments":"{}"},"extra_content":{"s":1}}]}`,
		},
		"arguments that are not JSON": {
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: `{"a": "b\q"}`}, {Name: "g", Arguments: `[1]`}, {Name: "h", Arguments: `{"a":1}{"b":2}`}}},
			`{"role":"assistant","content":null,"tool_calls":[` +
				`{"type":"function","function":{"name":"f","arguments":"{\"invalid_arguments\":\"{\\\"a\\\": \\\"b\\\\q\\\"}\"}"}},` +
				`{"type":"function","function":{"name":"g","arguments":"{\"invalid_arguments\":\"[1]\"}"}},` +
				`{"type":"function","function":{"name":"h","arguments":"{\"invalid_arguments\":\"{\\\"a\\\":1}{\\\"b\\\":2}\"}"}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.in.AppendJSON([]byte("before"))
			require.NoError(t, err)
			assert.Equal(t, "before"+tc.want, string(got))
			require.True(t, json.Valid(got[len("before"):]))

			req := chat.Request{Messages: []chat.Message{tc.in, tc.in}}
			got, err = req.AppendJSON(nil, false, false)
			require.NoError(t, err)
			assert.Equal(t, `{"messages":[`+tc.want+`,`+tc.want+`]}`, string(got))
		})
	}
}

// The history holds objects as arguments, even if the model wrote something else.
func TestArgumentsAreAlwaysObjects(t *testing.T) {
	for _, args := range []string{"", "{}", `{"a":1}`, `{"a`, "null", "1", `"x"`, "[]", "no", "\xff", strings.Repeat("[", 600), `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`} {
		b, err := json.Marshal(chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{Arguments: args}}})
		require.NoError(t, err)
		var got struct {
			ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
		}
		require.NoError(t, json.Unmarshal(b, &got))
		var object map[string]any
		assert.NoError(t, json.Unmarshal([]byte(got.ToolCalls[0].Function.Arguments), &object), args)
		assert.NotNil(t, object, args)
	}
}

func TestAppendRequest(t *testing.T) {
	tool := chat.Tool{Name: "f", Description: "does", Parameters: raw("{ \"type\": \"object\" }"), Strict: new(true)}
	for name, tc := range map[string]struct {
		in            chat.Request
		stream, usage bool
		want          string
	}{
		"the zero request": {want: `{"messages":[]}`},
		"a stream":         {stream: true, want: `{"messages":[],"stream":true}`},
		"a stream with usage": {
			stream: true, usage: true, want: `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`,
		},
		"usage alone is for streams": {usage: true, want: `{"messages":[]}`},
		"everything": {
			in: chat.Request{
				Model: "m", Messages: []chat.Message{chat.User("u")}, Tools: []chat.Tool{tool, {Name: "g"}},
				ToolChoice: chat.ToolChoiceRequired, ParallelToolCalls: new(false), MaxTokens: 1, MaxCompletionTokens: 2,
				Temperature: new(0.0), TopP: new(0.95), Seed: new(int64(0)), Stop: []string{"\n", "<end>"}, ReasoningEffort: "low",
				ResponseFormat: raw(`{"type": "json_object"}`), User: "w", Caller: "never sent",
				Extra: raws{"top_k": raw("5"), "cache_salt": raw(`"s"`)},
			},
			stream: true,
			want: `{"model":"m","messages":[{"role":"user","content":"u"}],"tools":[` +
				`{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object"},"strict":true}},` +
				`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],` +
				`"tool_choice":"required","parallel_tool_calls":false,"max_tokens":1,"max_completion_tokens":2,"temperature":0,"top_p":0.95,` +
				`"seed":0,"stop":["\n","<end>"],"reasoning_effort":"low","response_format":{"type":"json_object"},"user":"w",` +
				`"stream":true,"cache_salt":"s","top_k":5}`,
		},
		"a forced tool": {
			in:   chat.Request{Tools: []chat.Tool{{Name: "g"}}, ToolChoice: chat.ForceTool("g")},
			want: `{"messages":[],"tools":[{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`,
		},
		"a choice without tools is refused, so it is not sent": {
			in:   chat.Request{ToolChoice: chat.ToolChoiceNone, ParallelToolCalls: new(true)},
			want: `{"messages":[]}`,
		},
		"tools in Extra are tools": {
			in:   chat.Request{ToolChoice: chat.ToolChoiceAuto, Extra: raws{"tools": raw(`[{"type":"web"}]`)}},
			want: `{"messages":[],"tool_choice":"auto","tools":[{"type":"web"}]}`,
		},
		"Extra takes a field's place": {
			in: chat.Request{Model: "m", Messages: []chat.Message{chat.User("u")}, MaxTokens: 1, Temperature: new(1.0), Seed: new(int64(1)), Stop: []string{"s"},
				ResponseFormat: raw("{}"), Tools: []chat.Tool{tool}, ToolChoice: chat.ForceTool("f"), ParallelToolCalls: new(true),
				Extra: raws{"messages": raw("[]"), "max_tokens": raw("9"), "temperature": raw("0.5"), "seed": raw("2"), "stop": raw("null"),
					"response_format": raw("1"), "tools": raw("[]"), "tool_choice": raw("2"), "parallel_tool_calls": raw("3"), "model": raw(`"n"`)}},
			want: `{"max_tokens":9,"messages":[],"model":"n","parallel_tool_calls":3,"response_format":1,"seed":2,"stop":null,"temperature":0.5,"tool_choice":2,"tools":[]}`,
		},
		"an empty Extra takes a field away": {
			in:   chat.Request{Model: "m", MaxTokens: 1, Extra: raws{"max_tokens": nil}},
			want: `{"model":"m","messages":[]}`,
		},
		"what belongs to the client": {
			in:     chat.Request{Extra: raws{"stream": raw("false"), "stream_options": raw("{}"), "n": raw("2")}},
			stream: true, usage: true,
			want: `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`,
		},
		"large and small numbers": {
			in:   chat.Request{Temperature: new(1e-9), TopP: new(1e21), Seed: new(int64(math.MinInt64)), MaxTokens: -1},
			want: `{"messages":[],"max_tokens":-1,"temperature":1e-09,"top_p":1e+21,"seed":-9223372036854775808}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.in.AppendJSON(nil, tc.stream, tc.usage)
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(got))
			require.True(t, json.Valid(got))
			for range 20 {
				again, err := tc.in.AppendJSON(nil, tc.stream, tc.usage)
				require.NoError(t, err)
				require.Equal(t, string(got), string(again), "equal requests are equal bytes")
			}
		})
	}
}

// A longer conversation begins with the bytes of the shorter one, or no prefix
// cache on the way would know it again.
func TestConversationIsAPrefix(t *testing.T) {
	short := chat.Request{Model: "m", Messages: []chat.Message{chat.System("s"), chat.User("u")}}
	long := short
	long.Messages = append(long.Messages[:2:2], chat.Assistant("a"), chat.User("v"))
	a, err := short.AppendJSON(nil, true, true)
	require.NoError(t, err)
	b, err := long.AppendJSON(nil, true, true)
	require.NoError(t, err)
	cut := strings.Index(string(a), "]")
	assert.Equal(t, string(a[:cut]), string(b[:cut]))
}

func TestAppendErrors(t *testing.T) {
	bad := raw(`{"secret": hunter2}`)
	assistant := func(m chat.Message) []chat.Message {
		m.Role = chat.RoleAssistant
		return []chat.Message{chat.User("u"), m}
	}
	for name, tc := range map[string]struct {
		in   chat.Request
		want string
	}{
		"response format": {chat.Request{ResponseFormat: bad}, "chat: request: response_format is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"extra field":     {chat.Request{Extra: raws{"a": raw("1"), "b": bad}}, "chat: request: b is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"cut short":       {chat.Request{Extra: raws{"b": raw(`{"secret":`)}}, "chat: request: b is not valid JSON: cut short at byte 10"},
		"two values":      {chat.Request{Extra: raws{"b": raw(`1 2`)}}, "chat: request: b is not valid JSON: invalid JSON at byte 2: more text after the value"},
		"parameters":      {chat.Request{Tools: []chat.Tool{{}, {Parameters: bad}}}, "chat: request: tools[1].function.parameters is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"message field":   {chat.Request{Messages: assistant(chat.Message{Extra: raws{"x": bad}})}, "chat: request: messages[1].x is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"part field":      {chat.Request{Messages: assistant(chat.Message{Parts: []chat.Part{{Extra: raws{"x": bad}}}})}, "chat: request: messages[1].content[0].x is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"call field":      {chat.Request{Messages: assistant(chat.Message{ToolCalls: []chat.ToolCall{{}, {Extra: raws{"x": bad}}}})}, "chat: request: messages[1].tool_calls[1].x is not valid JSON: invalid JSON at byte 11: no value starts so"},
		"reasoning key":   {chat.Request{Messages: assistant(chat.Message{ToolCalls: []chat.ToolCall{{}}, ReasoningKey: "role"})}, `chat: request: messages[1].ReasoningKey is "role", want a name that no other field has`},
		"temperature":     {chat.Request{Temperature: new(math.NaN())}, "chat: request: temperature is NaN, want a finite number"},
		"top_p":           {chat.Request{TopP: new(math.Inf(-1)), Temperature: new(1.0)}, "chat: request: top_p is -Inf, want a finite number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.in.AppendJSON([]byte("x"), true, true)
			assert.Nil(t, got)
			assert.EqualError(t, err, tc.want)
			for _, word := range []string{"secret", "hunter2"} {
				assert.NotContains(t, err.Error(), word)
			}
		})
	}
	m := chat.Message{Extra: raws{"x": bad}}
	_, err := m.AppendJSON(nil)
	assert.EqualError(t, err, "chat: message: x is not valid JSON: invalid JSON at byte 11: no value starts so")
}

// No name is written twice, whatever a caller sets: parsers differ in which
// they take.
func TestNoNameTwice(t *testing.T) {
	message := chat.Message{Role: chat.RoleAssistant, Content: "c", Reasoning: "r", Refusal: "f", Name: "n", ToolCallID: "i",
		ToolCalls: []chat.ToolCall{{ID: "i", Name: "f", Extra: all("id", "type", "function")}},
		Extra:     all("role", "content", "reasoning_content", "tool_calls", "refusal", "tool_call_id", "name")}
	req := chat.Request{Model: "m", Messages: []chat.Message{message, {Role: chat.RoleUser, Parts: []chat.Part{{Text: "t", Extra: all("type", "text")}}}},
		Tools: []chat.Tool{{Name: "f"}}, ToolChoice: chat.ToolChoiceAuto, ParallelToolCalls: new(true), MaxTokens: 1, MaxCompletionTokens: 1,
		Temperature: new(1.0), TopP: new(1.0), Seed: new(int64(1)), Stop: []string{"s"}, ReasoningEffort: "low", ResponseFormat: raw("{}"), User: "u"}
	for _, extra := range []raws{nil, all("model", "tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens",
		"temperature", "top_p", "seed", "stop", "reasoning_effort", "response_format", "user", "stream", "stream_options", "n")} {
		req.Extra = extra
		b, err := req.AppendJSON(nil, true, true)
		require.NoError(t, err)
		assertUnique(t, json.NewDecoder(strings.NewReader(string(b))))
	}
}

func all(names ...string) raws {
	m := raws{}
	for _, name := range names {
		m[name] = raw("[]")
	}
	return m
}

// assertUnique reads one value and checks that none of its objects has a name
// twice.
func assertUnique(t *testing.T, d *json.Decoder) {
	t.Helper()
	token, err := d.Token()
	require.NoError(t, err)
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			name, err := d.Token()
			require.NoError(t, err)
			assert.False(t, seen[name.(string)], "%v twice", name)
			seen[name.(string)] = true
			assertUnique(t, d)
		}
		_, err = d.Token()
	case json.Delim('['):
		for d.More() {
			assertUnique(t, d)
		}
		_, err = d.Token()
	}
	require.NoError(t, err)
}
