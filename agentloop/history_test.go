package agentloop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Whatever conversation a caller begins with and whatever a model answers,
// a strict server has nothing to refuse.
func FuzzHistoryIsValid(f *testing.F) {
	f.Add([]byte("uaTtTu"), "a", "{}")
	f.Add([]byte("tuuaaTTttxau"), "", "{")
	f.Add([]byte("scatat"), "b b", `"{}"`)
	f.Add([]byte("SUaUTUtUaU"), " \n", "{}")
	f.Add([]byte("asdusTtSus"), "x", "{}")
	f.Add([]byte("SUaUTUtUaU"), "\u200b\x00", "{}")
	f.Fuzz(func(t *testing.T, shape []byte, word, args string) {
		var msgs []chat.Message
		for i, b := range shape {
			id := string(shape[:i%3])
			switch b {
			case 'u':
				msgs = append(msgs, chat.User("u"+word))
			case 's':
				msgs = append(msgs, chat.System("s"))
			case 'U':
				msgs = append(msgs, chat.User(word), chat.Message{Role: chat.RoleUser, Parts: []chat.Part{chat.TextPart(word), chat.TextPart("")}})
			case 'S':
				msgs = append(msgs, chat.System(word))
			case 'd':
				msgs = append(msgs, chat.Message{Role: chat.RoleDeveloper, Parts: []chat.Part{chat.TextPart(word)}})
			case 'a':
				msgs = append(msgs, chat.Assistant(word))
			case 't':
				msgs = append(msgs, chat.ToolResult(id, word))
			case 'T':
				msgs = append(msgs, chat.Message{Role: chat.RoleAssistant, Content: word, ToolCalls: []chat.ToolCall{
					call(id, word, args), call("", "read", args)}})
			case 'c':
				msgs = append(msgs, chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{call(word, "save", "{}")}},
					chat.ToolResult(word, ""))
			}
		}
		m := play(
			answer(chat.Message{Content: word, ToolCalls: []chat.ToolCall{call("", word, args), call(word, "read", args)}}, ""),
			answer(chat.Message{Content: word, Reasoning: args}, chat.FinishReason(args)),
			says("end"),
		)
		a, err := agentloop.New(agentloop.Config{Name: "a", Model: m, Messages: msgs, Task: "t", Tools: (&desk{}).tools(t)})
		if err != nil {
			t.Fatal(err)
		}
		res := a.Run(t.Context())
		if err := strict(res.Messages); err != nil {
			t.Errorf("result: %v", err)
		}
		if res.Outcome == agentloop.Failed && chat.FinishReason(args).Failed() == false {
			t.Errorf("a strict server refused: %v", res.Err)
		}
	})
}

// transcript writes messages in short.
func transcript(msgs []chat.Message) string {
	var lines []string
	for _, m := range msgs {
		line := string(m.Role) + ":" + m.Content
		for _, p := range m.Parts {
			line += "<" + p.Text + ">"
		}
		for _, c := range m.ToolCalls {
			line += " " + c.ID
		}
		lines = append(lines, line)
	}
	return strings.ReplaceAll(strings.Join(lines, " | "), "\n\n", "+")
}

func TestAConversationIsMended(t *testing.T) {
	asks := func(ids ...string) chat.Message {
		m := chat.Message{Role: chat.RoleAssistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, call(id, "t", "{}"))
		}
		return m
	}
	parts := func(list ...chat.Part) chat.Message { return chat.Message{Role: chat.RoleUser, Parts: list} }
	const lost = "tool:error: the call was interrupted, its result is unknown."
	for name, c := range map[string]struct {
		msgs []chat.Message
		want string
	}{
		"an empty message of the user":   {[]chat.Message{chat.User(""), chat.Assistant("hi")}, "user:(empty message) | assistant:hi | user:go"},
		"a blank one":                    {[]chat.Message{chat.User("a"), chat.Assistant("b"), chat.User(" \n"), chat.Assistant("c")}, "user:a | assistant:b | user:(empty message) | assistant:c | user:go"},
		"one before another":             {[]chat.Message{chat.User("")}, "user:go"},
		"one behind another":             {[]chat.Message{chat.User("a"), chat.User(" ")}, "user:a+go"},
		"an empty system message":        {[]chat.Message{chat.System(" ")}, "user:go"},
		"blank parts":                    {[]chat.Message{parts(chat.TextPart(""), chat.TextPart(" ")), chat.Assistant("a")}, "user:(empty message) | assistant:a | user:go"},
		"a blank part beside another":    {[]chat.Message{parts(chat.TextPart("x"), chat.TextPart(" ")), chat.Assistant("a")}, "user:<x> | assistant:a | user:go"},
		"an image is no blank part":      {[]chat.Message{parts(chat.ImagePart("u")), chat.Assistant("a")}, "user:<> | assistant:a | user:go"},
		"parts, and words":               {[]chat.Message{chat.User("a"), parts(chat.TextPart("x"), chat.ImagePart("u")), chat.User("")}, "user:<a><x><><go>"},
		"an empty answer":                {[]chat.Message{chat.User("a"), chat.Assistant(" ")}, "user:a | assistant:(no answer) | user:go"},
		"a blank result":                 {[]chat.Message{chat.User("a"), asks("1"), chat.ToolResult("1", " \n")}, "user:a | assistant: 1 | tool:(no output) | assistant:(no answer) | user:go"},
		"a result behind a user's words": {[]chat.Message{chat.User("a"), asks("1", "2"), chat.ToolResult("1", "x"), chat.User("hm"), chat.ToolResult("2", "y")}, "user:a | assistant: 1 2 | tool:x | tool:y | assistant:(no answer) | user:hm+go"},
		"a result behind an answer":      {[]chat.Message{chat.User("a"), asks("1"), chat.Assistant("hm"), chat.ToolResult("1", "x")}, "user:a | assistant: 1 | tool:x | assistant:hm | user:go"},
		"results out of order":           {[]chat.Message{chat.User("a"), asks("1", "2"), chat.ToolResult("2", "y"), chat.ToolResult("1", "x")}, "user:a | assistant: 1 2 | tool:x | tool:y | assistant:(no answer) | user:go"},
		"the same id again":              {[]chat.Message{chat.User("a"), asks("1"), asks("1"), chat.ToolResult("1", "x")}, "user:a | assistant: 1 | " + lost + " | assistant: call00001 | tool:x | assistant:(no answer) | user:go"},
		"the same id twice in one":       {[]chat.Message{chat.User("a"), asks("1", "1"), chat.ToolResult("1", "x"), chat.ToolResult("1", "y")}, "user:a | assistant: 1 call00001 | tool:x | tool:y | assistant:(no answer) | user:go"},
		"a system message in the midst":  {[]chat.Message{chat.User("a"), chat.Assistant("b"), chat.System("s"), chat.User("c")}, "system:s | user:a | assistant:b | user:c+go"},
		"a second one":                   {[]chat.Message{chat.System("r"), chat.System("s"), chat.User("a")}, "system:r+s | user:a+go"},
		"one of a developer":             {[]chat.Message{chat.System("r"), chat.User("a"), {Role: chat.RoleDeveloper, Parts: []chat.Part{chat.TextPart("s")}}}, "system:<r><s> | user:a+go"},
		"one with something extra":       {[]chat.Message{chat.System("r"), chat.User("a"), {Role: chat.RoleSystem, Content: "s", Extra: map[string]raw{"cache": raw("1")}}}, "system:r+s | user:a+go"},
		"one behind calls":               {[]chat.Message{chat.User("a"), asks("1"), chat.System("s"), chat.ToolResult("1", "x")}, "system:s | user:a | assistant: 1 | tool:x | assistant:(no answer) | user:go"},
		"a model that speaks first":      {[]chat.Message{chat.System("s"), chat.Assistant("hello"), chat.User("a")}, "system:s | user:(empty message) | assistant:hello | user:a+go"},
		"a result of no call":            {[]chat.Message{chat.ToolResult("1", "x"), chat.User("a")}, "user:a+go"},
	} {
		t.Run(name, func(t *testing.T) {
			m := play(says("ok"))
			assert.NoError(t, newAgent(t, agentloop.Config{Model: m, Messages: c.msgs, Task: "go"}).Run(t.Context()).Err)
			assert.Equal(t, c.want, transcript(m.requests()[0].Messages))
		})
	}
}

func TestABlankResultOfAToolIsNoOutput(t *testing.T) {
	m := play(calls(call("a", "t", "{}")), says("ok"))
	runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tool(t, "t", result(" \n"))}})
	assert.Equal(t, []string{"(no output)"}, m.last(chat.RoleTool))
}

// Some servers demand the reasoning of every message, even of those that stand in for
// an answer: the field is there, and empty.
func TestWhatStandsInForAnAnswerHasTheNameOfItsReasoning(t *testing.T) {
	for _, key := range []string{"reasoning_content", "reasoning", ""} {
		asks := chat.Message{Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: key, ToolCalls: []chat.ToolCall{call("1", "t", "{}")}}
		m := play(says("ok"))
		res := newAgent(t, agentloop.Config{Model: m, Messages: []chat.Message{chat.User("a"), asks, chat.ToolResult("1", "x")}, Task: "go"}).Run(t.Context())
		require.NoError(t, res.Err)
		stand := m.requests()[0].Messages[3]
		assert.Equal(t, "(no answer)", stand.Content)
		assert.Equal(t, key, stand.ReasoningKey)
		assert.Empty(t, stand.Reasoning)
	}
}

// A model that appends to the messages it is given, for itself, has them for itself.
func TestWhatAModelAppendsIsItsOwn(t *testing.T) {
	var kept [][]chat.Message
	m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		if err := strict(req.Messages); err != nil {
			return nil, err
		}
		kept = append(kept, append(req.Messages, chat.User(fmt.Sprint("hint ", len(kept)))))
		if len(kept) > 9 {
			return says("done")(ctx, req)
		}
		return calls(call("", "read", fmt.Sprintf(`{"n":%d}`, len(kept))))(ctx, req)
	})
	res := runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	for i, msgs := range kept {
		assert.Equal(t, fmt.Sprint("hint ", i), msgs[len(msgs)-1].Content)
	}
	assert.NotContains(t, transcript(res.Messages), "hint")
}
