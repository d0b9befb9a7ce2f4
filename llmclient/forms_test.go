package llmclient_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// begunElsewhere is a conversation of which another server gave the answers.
func begunElsewhere() *chat.Request {
	return &chat.Request{
		Messages: []chat.Message{
			chat.User("hello"),
			{
				Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning",
				Extra:     map[string]json.RawMessage{"annotations": json.RawMessage(`[1]`)},
				ToolCalls: []chat.ToolCall{{ID: "call_0123456789", Name: "f", Arguments: "{}"}},
			},
			{Role: chat.RoleTool, ToolCallID: "call_0123456789", Content: "done"},
			{Role: chat.RoleAssistant, Content: "(no answer)"},
			chat.User("go on"),
		},
		Tools: []chat.Tool{{Name: "f"}},
	}
}

func TestAConversationThatBeganElsewhereGoesOn(t *testing.T) {
	refusesField := func(name, text string) fake.Script {
		field := regexp.MustCompile(`"` + name + `":`)
		return func(q *fake.Request) fake.Step {
			if field.Match(q.Body) {
				return fake.Status(400, text)
			}
			return fake.Answer("ok")
		}
	}
	for name, tc := range map[string]struct {
		script   fake.Script
		requests int // of the first call
		adapted  int
	}{
		"a field by name": {refusesField("reasoning",
			`{"error":{"message":"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning' is unsupported)]","type":"invalid_request_error"}}`), 2, 1},
		"one field after the other": {func(q *fake.Request) fake.Step {
			for _, name := range []string{"annotations", "reasoning"} {
				if regexp.MustCompile(`"` + name + `":`).Match(q.Body) {
					return fake.Status(422, `{"detail":[{"type":"extra_forbidden","loc":["body","messages",1,"assistant","`+name+`"],"msg":"Extra inputs are not permitted"}]}`)
				}
			}
			return fake.Answer("ok")
		}, 3, 2},
		"no field by name": {refusesField("annotations",
			`{"error":{"message":"messages.1: additional properties are not allowed","type":"invalid_request_error"}}`), 2, 1},
		"ids": {refusesField("id\":\"call_0123456789\",\"type", `{"object":"error","message":"Tool call id was call_0123456789 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_request_message_order","code":"3280"}`), 2, 1},
		"reasoning is demanded": {func(q *fake.Request) fake.Step {
			if n := len(regexp.MustCompile(`"reasoning_content":"`).FindAll(q.Body, -1)); n < 2 {
				return fake.Status(400, `{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API.","type":"invalid_request_error"}}`)
			}
			return fake.Answer("ok")
		}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: tc.script}, nil, func(t *testing.T, w *world) {
				for range 2 {
					resp, err := w.client.Chat(t.Context(), begunElsewhere())
					require.NoError(t, err)
					assert.Equal(t, "ok", resp.Message.Content)
				}
				assert.Len(t, w.srv.Requests(), tc.requests+1, "and then it is known")
				assert.Len(t, w.ofKind(llmclient.EventAdapted), tc.adapted)
				assert.Zero(t, w.client.Breaker().Failures)
				w.elapsed(0)
			})
		})
	}
	t.Run("for one model only", func(t *testing.T) {
		srv := fake.Config{Script: refusesField("annotations", `{"error":{"message":"property 'annotations' is unsupported"}}`)}
		inWorld(t, srv, nil, func(t *testing.T, w *world) {
			for i, model := range []string{"a", "b", "a"} {
				req := begunElsewhere()
				req.Model = model
				_, err := w.client.Chat(t.Context(), req)
				require.NoError(t, err)
				assert.Len(t, w.srv.Requests(), []int{2, 4, 5}[i])
			}
		})
	})
	t.Run("a refusal of something else is final", func(t *testing.T) {
		for _, text := range []string{
			`{"error":{"message":"Unsupported value: 'temperature' does not support 0.2 with this model","param":"temperature","code":"unsupported_value"}}`,
			`{"error":{"message":"invalid schema for function 'f'"}}`,
			`{"error":{"message":"the image is missing"}}`,
		} {
			inWorld(t, script(fake.Status(400, text)), nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), begunElsewhere())
				failure(t, err, llmclient.ErrRequest)
				assert.Len(t, w.srv.Requests(), 1)
			})
		}
	})
	t.Run("one that refuses whatever is sent ends", func(t *testing.T) {
		inWorld(t, script(fake.Status(400, `{"error":{"message":"property 'annotations', 'reasoning' in messages is unsupported, with a length of 9, reasoning_content is missing"}}`)), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), begunElsewhere())
			failure(t, err, llmclient.ErrRequest)
			assert.LessOrEqual(t, len(w.srv.Requests()), 5)
		})
	})
}
