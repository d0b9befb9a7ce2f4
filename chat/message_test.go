package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMessageRoundTrip(t *testing.T) {
	for name, m := range map[string]chat.Message{
		"system":       chat.System("s"),
		"developer":    {Role: chat.RoleDeveloper, Content: "d"},
		"user":         chat.User("u\x00\n\"é😀<&>"),
		"a named user": {Role: chat.RoleUser, Content: "u", Name: "n"},
		"assistant":    chat.Assistant("a"),
		"tool":         chat.ToolResult("id", "r"),
		"refusal":      {Role: chat.RoleAssistant, Refusal: "no"},
		"a tool call":  {Role: chat.RoleAssistant, Content: "c", ToolCalls: []chat.ToolCall{{ID: "a", Type: "function", Name: "f", Arguments: `{"x": 1}`}}},
		"tool calls with all there is": {
			Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning",
			ToolCalls: []chat.ToolCall{
				{ID: "a", Type: "function", Name: "f", Arguments: `{}`, Extra: raws{"extra_content": raw(`{"s":1}`)}},
				{ID: "a", Type: "function", Name: "f", Arguments: `{}`},
				{Type: "custom", Arguments: `{"x":"\""}`},
			},
			Extra: raws{"reasoning_details": raw(`[{"type":"reasoning.text","text":"hm","signature":"s"}]`), "big": raw("12345678901234567890")},
		},
		"reasoning that was empty": {Role: chat.RoleAssistant, ReasoningKey: "reasoning_content", ToolCalls: []chat.ToolCall{{ID: "a", Type: "function", Name: "f", Arguments: `{}`}}},
		"parts": {
			Role: chat.RoleUser, Content: "ab", Parts: []chat.Part{chat.TextPart("a"), chat.ImagePart("http://x/?a=1&b=2"), chat.TextPart("b")},
		},
		"parts of a result": {Role: chat.RoleTool, ToolCallID: "id", Content: "a", Parts: []chat.Part{chat.TextPart("a"), {Type: "file", Extra: raws{"content": raw(`"x"`)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := m.AppendJSON(nil) // json.Marshal would escape HTML in raw fields too
			require.NoError(t, err)
			var got chat.Message
			require.NoError(t, json.Unmarshal(b, &got))
			assert.Equal(t, m, got)

			again, err := got.AppendJSON(nil)
			require.NoError(t, err)
			assert.Equal(t, string(b), string(again))
		})
	}
}

func TestUnmarshalMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want chat.Message
	}{
		"no role":                      {`{"content":"a"}`, chat.Message{Content: "a"}},
		"null content":                 {`{"role":"assistant","content":null}`, chat.Assistant("")},
		"parts of the model":           {`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}`, chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "content"}},
		"texts as parts":               {`{"role":"user","content":["a",{"type":"text","text":"b"}]}`, chat.Message{Role: chat.RoleUser, Content: "ab", Parts: []chat.Part{chat.TextPart("a"), chat.TextPart("b")}}},
		"the role after parts":         {`{"content":[{"type":"text","text":"b"}],"role":"user"}`, chat.Message{Role: chat.RoleUser, Content: "b", Parts: []chat.Part{chat.TextPart("b")}}},
		"a result id that is a number": {`{"role":"tool","tool_call_id":7,"content":"r"}`, chat.ToolResult("7", "r")},
		"arguments as an object": {
			`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x": 1}}}]}`,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "f", Arguments: `{"x": 1}`}}},
		},
		"calls that are alike": {
			`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}},{"id":"a","function":{"name":"f","arguments":""}},{"function":{"name":"f"}},{"function":{"name":"f"}}]}`,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "f"}, {ID: "a", Name: "f"}, {Name: "f"}, {Name: "f"}}},
		},
		"blocks that are alike": {
			`{"role":"assistant","thinking_blocks":[{"type":"thinking","thinking":"a"}, {"type":"thinking","thinking":"b"}]}`,
			chat.Message{Role: chat.RoleAssistant, Extra: raws{"thinking_blocks": raw(`[{"type":"thinking","thinking":"a"}, {"type":"thinking","thinking":"b"}]`)}},
		},
		"empty lists": {`{"role":"assistant","content":"","tool_calls":[],"annotations":[]}`, chat.Assistant("")},
	} {
		t.Run(name, func(t *testing.T) {
			got := chat.Message{Role: "old", Content: "old", Name: "old", Extra: raws{"old": nil}}
			require.NoError(t, json.Unmarshal([]byte(tc.in), &got))
			assert.Equal(t, tc.want, got)
		})
	}

	t.Run("null changes nothing", func(t *testing.T) {
		got := chat.User("u")
		require.NoError(t, json.Unmarshal([]byte(`null`), &got))
		assert.Equal(t, chat.User("u"), got)
	})
	t.Run("an error changes nothing", func(t *testing.T) {
		for in, want := range map[string]string{
			`[]`:                     "chat: message: invalid JSON at byte 0: want {",
			``:                       "chat: message: JSON cut short at byte 0: unexpected EOF",
			`{"content":"a"} {}`:     "chat: message: invalid JSON at byte 16: more text after the value",
			`{"content":["a",{"b":1`: "chat: message: JSON cut short at byte 22: unexpected EOF",
			`nil`:                    "chat: message: invalid JSON at byte 1: want null",
		} {
			got := chat.User("u")
			assert.EqualError(t, got.UnmarshalJSON([]byte(in)), want)
			assert.Equal(t, chat.User("u"), got)
		}
	})
}

func TestToolCallCut(t *testing.T) {
	for args, want := range map[string]bool{
		``: false, ` `: false, `{}`: false, `{"x":1}`: false, "\n{\"x\":\"}\"} ": false,
		`{`: true, `{"x"`: true, `{"x":`: true, `{"x":1`: true, `{"x":"abc`: true, `{"x":"abc\`: true, `{"x":tr`: true, `{"x":[1],`: true,
		`"{\"x\":`: true, `[1`: true,
		// Broken, or no object, but not cut.
		`x`: false, `null`: false, `7`: false, `{"x":"b\q"}`: false, `{'x':1`: false, `{"x":1}}`: false, `{"x":1}{`: false,
	} {
		call := chat.ToolCall{Name: "f", Arguments: args}
		assert.Equal(t, want, call.Cut(), "%q", args)
	}
}
