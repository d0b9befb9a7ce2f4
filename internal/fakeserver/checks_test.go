package fakeserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

func TestValidate(t *testing.T) {
	calls := func(list ...chat.ToolCall) chat.Message {
		return chat.Message{Role: chat.RoleAssistant, ToolCalls: list}
	}
	call := func(id, args string) chat.ToolCall { return chat.ToolCall{ID: id, Name: "f", Arguments: args} }
	tests := map[string]struct {
		messages []chat.Message
		want     string // empty: valid
	}{
		"a question":          {[]chat.Message{chat.System("s"), chat.User("u")}, ""},
		"a call and a result": {[]chat.Message{chat.User("u"), calls(call("1", "{}")), chat.ToolResult("1", "")}, ""},
		"results in any order": {[]chat.Message{calls(call("1", "{}"), call("2", "{}")), chat.ToolResult("2", "b"),
			chat.ToolResult("1", "a"), chat.Assistant("done")}, ""},
		"an empty answer":     {[]chat.Message{chat.User("u"), chat.Assistant("")}, "messages[1]: an assistant message with neither content nor tool calls"},
		"a call unanswered":   {[]chat.Message{calls(call("1", "{}"))}, "messages: 1 calls at the end have no result"},
		"a call passed over":  {[]chat.Message{calls(call("1", "{}")), chat.User("u")}, "messages[1]: role user, but 1 calls before it have no result"},
		"a result too many":   {[]chat.Message{calls(call("1", "{}")), chat.ToolResult("1", ""), chat.ToolResult("1", "")}, `messages[2]: a result for call "1", which is not open`},
		"a result of nothing": {[]chat.Message{chat.ToolResult("x", "")}, `messages[0]: a result for call "x", which is not open`},
		"an id twice":         {[]chat.Message{calls(call("1", "{}"), call("1", "{}"))}, `messages[0].tool_calls[1]: id "1" is empty or not unique`},
		"no id":               {[]chat.Message{calls(call("", "{}"))}, `messages[0].tool_calls[0]: id "" is empty or not unique`},
		"a bad escape":        {[]chat.Message{calls(call("1", `{"a": "b\q"}`))}, "messages[0].tool_calls[0]: arguments are no JSON object"},
		"a list of arguments": {[]chat.Message{calls(call("1", `[]`))}, "messages[0].tool_calls[0]: arguments are no JSON object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := fs.Validate(&chat.Request{Messages: tt.messages})
			if tt.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.want)
			}
		})
	}
}

// Servers with rules let through what keeps them, and say what does not.
func TestRules(t *testing.T) {
	ok := fs.Always(fs.Answer("ok"))
	const empty = `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[]}]}`
	tests := map[string]struct {
		script    fs.Script
		good, bad string
		status    int
		code      string
	}{
		"a strict one":           {fs.Strict(ok), streamBody, empty, 400, ""},
		"a strict one, no JSON":  {fs.Strict(ok), plainBody, "{", 400, ""},
		"a small window":         {fs.Window(30, ok), streamBody, strings.Replace(streamBody, "hi", strings.Repeat("hi", 50), 1), 400, "context_length_exceeded"},
		"one model":              {fs.Model("m", ok), streamBody, strings.Replace(streamBody, `"m"`, `"n"`, 1), 404, "model_not_found"},
		"no streams":             {fs.NoStreams(ok), plainBody, streamBody, 400, "unsupported_value"},
		"no options for streams": {fs.NoStreamOptions(ok), streamBody, usageBody, 400, ""},
		"no choice of tools":     {fs.NoToolChoice(ok), streamBody, strings.Replace(streamBody, `"model"`, `"tool_choice":"required","model"`, 1), 400, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, fs.Config{Script: tt.script}, func(t *testing.T, srv *fs.Server) {
				tr := transport(t, srv)
				assert.Equal(t, 200, ask(t, tr, srv, tt.good, time.Hour).status)
				s := ask(t, tr, srv, tt.bad, time.Hour)
				assert.Equal(t, tt.status, s.status)
				e := chat.ParseError([]byte(s.body))
				require.NotNil(t, e)
				assert.Equal(t, tt.code, e.Code)
				assert.NotEmpty(t, e.Message)
			})
		})
	}
	t.Run("a key", func(t *testing.T) {
		script := fs.Key("k", ok)
		good := &fs.Request{Header: map[string][]string{"Authorization": {"Bearer k"}}}
		bad := &fs.Request{Header: map[string][]string{"Authorization": {"Bearer x"}}}
		assert.Equal(t, `answer("ok")`, script(good).String())
		assert.Equal(t, "error(401 invalid_request_error)", script(bad).String())
	})
}
