package chat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestForm(t *testing.T) {
	call := chat.ToolCall{ID: "call_8JkQ", Name: "f", Arguments: "{}"}
	const wire = `"tool_calls":[{"id":"call_8JkQ","type":"function","function":{"name":"f","arguments":"{}"}}]`
	said := chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "reasoning"}
	silent := chat.Message{Role: chat.RoleAssistant, Content: "a", ReasoningKey: "reasoning_content"}
	calling := chat.Message{Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning", ToolCalls: []chat.ToolCall{call}}
	rich := chat.Message{Role: chat.RoleAssistant, Content: "a", Name: "n", Reasoning: "hm", ReasoningKey: "reasoning",
		ToolCalls: []chat.ToolCall{{ID: "x", Type: "custom", Name: "f", Extra: raws{"index": raw("0"), "custom": raw(`{"input":"i"}`), "extra_content": raw(`{}`)}}},
		Extra:     raws{"annotations": raw(`[1]`), "reasoning_details": raw(`[2]`), "id": raw(`"m"`)}}
	parts := chat.Message{Role: chat.RoleUser, Parts: []chat.Part{
		{Text: "t", Extra: raws{"cache_control": raw(`{"type":"ephemeral"}`)}},
		{Type: "image_url", Extra: raws{"image_url": raw(`{"url":"u"}`), "detail": raw(`"low"`)}},
	}}

	for name, tc := range map[string]struct {
		form chat.Form
		in   chat.Message
		want string
	}{
		"with tools, reasoning goes back without calls":   {chat.Form{Tools: true}, said, `{"role":"assistant","content":"a","reasoning":"hm"}`},
		"with tools, an empty reasoning goes back":        {chat.Form{Tools: true}, silent, `{"role":"assistant","content":"a","reasoning_content":""}`},
		"with tools, no reasoning is none":                {chat.Form{Tools: true}, chat.Assistant("a"), `{"role":"assistant","content":"a"}`},
		"with tools, a user's is not":                     {chat.Form{Tools: true}, chat.Message{Role: chat.RoleUser, Content: "a", Reasoning: "hm", ReasoningKey: "reasoning"}, `{"role":"user","content":"a"}`},
		"with tools, reasoning from parts stays here":     {chat.Form{Tools: true}, chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "content"}, `{"role":"assistant","content":"a"}`},
		"without tools, reasoning stays here":             {chat.Form{}, said, `{"role":"assistant","content":"a"}`},
		"without tools, reasoning goes back with calls":   {chat.Form{}, calling, `{"role":"assistant","content":null,"reasoning":"hm",` + wire + `}`},
		"the key for all":                                 {chat.Form{ReasoningKey: "reasoning_content"}, said, `{"role":"assistant","content":"a","reasoning_content":"hm"}`},
		"the key for all, of a message without":           {chat.Form{ReasoningKey: "reasoning_content"}, chat.Assistant("a"), `{"role":"assistant","content":"a","reasoning_content":""}`},
		"the key for all, with calls":                     {chat.Form{ReasoningKey: "reasoning_content", Tools: true}, calling, `{"role":"assistant","content":null,"reasoning_content":"hm",` + wire + `}`},
		"the key for all, of reasoning from parts":        {chat.Form{ReasoningKey: "reasoning_content"}, chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "content"}, `{"role":"assistant","content":"a","reasoning_content":"hm"}`},
		"the key for all, and it alone":                   {chat.Form{ReasoningKey: "reasoning_content", Bare: true, Omit: []string{"reasoning_content"}}, said, `{"role":"assistant","content":"a","reasoning_content":"hm"}`},
		"the key for all, in Extra":                       {chat.Form{ReasoningKey: "x"}, chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"x": raw("1")}}, `{"role":"assistant","content":"a","x":1}`},
		"the key for all is not for the user":             {chat.Form{ReasoningKey: "reasoning_content"}, chat.User("u"), `{"role":"user","content":"u"}`},
		"one name left out":                               {chat.Form{Omit: []string{"reasoning"}}, calling, `{"role":"assistant","content":null,` + wire + `}`},
		"another name left out":                           {chat.Form{Omit: []string{"reasoning_content"}}, calling, `{"role":"assistant","content":null,"reasoning":"hm",` + wire + `}`},
		"names left out of Extra and calls":               {chat.Form{Omit: []string{"annotations", "extra_content", "index"}}, rich, `{"role":"assistant","content":"a","reasoning":"hm","tool_calls":[{"id":"x","type":"custom","function":{"name":"f","arguments":"{}"},"custom":{"input":"i"}}],"name":"n","id":"m","reasoning_details":[2]}`},
		"names left out of parts":                         {chat.Form{Omit: []string{"cache_control"}}, parts, `{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","detail":"low","image_url":{"url":"u"}}]}`},
		"an id of the message left out, not of its calls": {chat.Form{Omit: []string{"id"}}, chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{call}, Extra: raws{"id": raw("1")}}, `{"role":"assistant","content":null,` + wire + `}`},
		"what a message cannot be without": {
			chat.Form{Omit: []string{"role", "content", "tool_calls", "tool_call_id", "id", "type", "function", "text", "image_url", "custom"}},
			chat.Message{Role: chat.RoleAssistant, Content: "a", ToolCallID: "i", ToolCalls: []chat.ToolCall{call}}, `{"role":"assistant","content":"a",` + wire + `,"tool_call_id":"i"}`,
		},
		"a name that is left out":                 {chat.Form{Omit: []string{"name"}}, chat.Message{Role: chat.RoleUser, Content: "u", Name: "n"}, `{"role":"user","content":"u"}`},
		"a refusal that is left out":              {chat.Form{Omit: []string{"refusal"}}, chat.Message{Role: chat.RoleAssistant, Refusal: "no"}, `{"role":"assistant","content":"no"}`},
		"a refusal that is left out, beside text": {chat.Form{Bare: true}, chat.Message{Role: chat.RoleAssistant, Content: "a", Refusal: "no"}, `{"role":"assistant","content":"a"}`},
		"a refusal in Extra that is left out":     {chat.Form{Omit: []string{"refusal"}}, chat.Message{Role: chat.RoleAssistant, Content: "a", Extra: raws{"refusal": raw(`"no"`)}}, `{"role":"assistant","content":"a"}`},
		"bare":                                    {chat.Form{Bare: true, Tools: true}, rich, `{"role":"assistant","content":"a","tool_calls":[{"id":"x","type":"custom","function":{"name":"f","arguments":"{}"},"custom":{"input":"i"}}],"name":"n"}`},
		"bare parts":                              {chat.Form{Bare: true}, parts, `{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"u"}}]}`},
		"bare, with a content of one's own":       {chat.Form{Bare: true}, chat.Message{Role: chat.RoleUser, Content: "u", Extra: raws{"content": raw(`[]`), "x": raw("1")}}, `{"role":"user","content":[]}`},
		"a short id":                              {chat.Form{ShortIDs: true}, calling, `{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"614z588Cu","type":"function","function":{"name":"f","arguments":"{}"}}]}`},
		"a short id of a result":                  {chat.Form{ShortIDs: true}, chat.ToolResult("call_8JkQ", "r"), `{"role":"tool","content":"r","tool_call_id":"614z588Cu"}`},
		"an id that is short already":             {chat.Form{ShortIDs: true}, chat.ToolResult("D681PevKs", "r"), `{"role":"tool","content":"r","tool_call_id":"D681PevKs"}`},
		"no id is none":                           {chat.Form{ShortIDs: true}, chat.User("u"), `{"role":"user","content":"u"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.form.AppendMessage([]byte("before"), &tc.in)
			require.NoError(t, err)
			assert.Equal(t, "before"+tc.want, string(got))
			assertUnique(t, json.NewDecoder(strings.NewReader(string(got[len("before"):]))))
		})
	}
}

func TestShortIDs(t *testing.T) {
	form := chat.Form{ShortIDs: true}
	seen := map[string]string{}
	id := func(in string) string {
		b, err := form.AppendMessage(nil, &chat.Message{Role: chat.RoleTool, ToolCallID: in})
		require.NoError(t, err)
		var out struct {
			ID string `json:"tool_call_id"`
		}
		require.NoError(t, json.Unmarshal(b, &out))
		require.Regexp(t, `^[a-zA-Z0-9]{9}$`, out.ID, in)
		return out.ID
	}
	for i := range 2_000 {
		for _, in := range []string{fmt.Sprint("call_", i), fmt.Sprint(i), strings.Repeat("x", i%300) + fmt.Sprint("-", i)} {
			if was, there := seen[id(in)]; there {
				require.Equal(t, was, in)
			}
			seen[id(in)] = in
		}
	}
	for _, in := range []string{"call_a-bc", "123456789é", "[23456789", "`23456789", "{23456789", "@23456789", "1234567890", "12345678", "é2345678"} {
		assert.NotEqual(t, in, id(in))
	}
	for _, in := range []string{"123456789", "azAZ09azA"} {
		assert.Equal(t, in, id(in))
	}
}

func TestFormOfARequest(t *testing.T) {
	said := chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "reasoning_content"}
	tools := []chat.Tool{{Name: "f"}}
	for name, tc := range map[string]struct {
		req    chat.Request
		tools  bool
		choice bool
	}{
		"no tools":                  {chat.Request{}, false, false},
		"tools":                     {chat.Request{Tools: tools}, true, true},
		"tools in Extra":            {chat.Request{Extra: raws{"tools": raw(`[{"type":"web"}]`)}}, true, true},
		"tools that Extra empties":  {chat.Request{Tools: tools, Extra: raws{"tools": raw(`[]`)}}, false, false},
		"tools that Extra removes":  {chat.Request{Tools: tools, Extra: raws{"tools": nil}}, false, false},
		"functions, the old form":   {chat.Request{Extra: raws{"functions": raw(`[{"name":"f"}]`)}}, true, false},
		"functions that are nobody": {chat.Request{Extra: raws{"functions": raw(`[ ]`)}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, chat.Form{Tools: tc.tools}, tc.req.Form())
			tc.req.Messages = []chat.Message{said}
			tc.req.ToolChoice = chat.ToolChoiceAuto
			b, err := tc.req.AppendJSON(nil, false, false)
			require.NoError(t, err)
			assert.Equal(t, tc.tools, strings.Contains(string(b), `"reasoning_content":"hm"`), "%s", b)
			assert.Equal(t, tc.choice, strings.Contains(string(b), `"tool_choice"`), "%s", b)
		})
	}
}

func TestFormErrors(t *testing.T) {
	m := chat.Assistant("a")
	for _, key := range []string{"content", "role", "tool_calls", "refusal", "tool_call_id", "name"} {
		form := chat.Form{ReasoningKey: key}
		_, err := form.AppendMessage(nil, &m)
		assert.ErrorContains(t, err, `ReasoningKey is "`+key+`", want a name that no other field has`)
	}
	// What is left out need not be right.
	m.Extra = raws{"x": raw("{")}
	form := chat.Form{Omit: []string{"x"}}
	_, err := form.AppendMessage(nil, &m)
	assert.NoError(t, err)
}
