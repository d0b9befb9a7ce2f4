package agentloop_test

import (
	"testing"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Whatever conversation a caller begins with and whatever a model answers,
// a strict server has nothing to refuse.
func FuzzHistoryIsValid(f *testing.F) {
	f.Add([]byte("uaTtTu"), "a", "{}")
	f.Add([]byte("tuuaaTTttxau"), "", "{")
	f.Add([]byte("scatat"), "b b", `"{}"`)
	f.Fuzz(func(t *testing.T, shape []byte, word, args string) {
		var msgs []chat.Message
		for i, b := range shape {
			id := string(shape[:i%3])
			switch b {
			case 'u':
				msgs = append(msgs, chat.User("u"+word))
			case 's':
				if len(msgs) == 0 {
					msgs = append(msgs, chat.System("s"))
				}
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
