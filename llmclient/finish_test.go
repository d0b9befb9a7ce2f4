package llmclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// Some gateways have the finish reason "stop" on every chunk, also on reasoning and on an empty first one.
func stops(delta string) fake.Step {
	return fake.Chunk(fmt.Sprintf(`{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":%s,"finish_reason":"stop"}]}`, delta))
}

func TestAFinishReasonOnEveryChunkDoesNotCutTheAnswerAtAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		reply fake.Step
		want  string
		calls int
	}{
		"a pause after text":          {fake.Reply(stops(`{"content":"a"}`), fake.Pause(8*time.Second), stops(`{"content":"b"}`), fake.Done()), "ab", 0},
		"a pause after reasoning":     {fake.Reply(stops(`{"reasoning_content":"hm"}`), fake.Pause(30*time.Second), stops(`{"content":"ab"}`), fake.Done()), "ab", 0},
		"an empty first chunk":        {fake.Reply(stops(`{"role":"assistant","content":""}`), fake.Pause(30*time.Second), stops(`{"content":"ab"}`), fake.Done()), "ab", 0},
		"pings in the pause":          {fake.Reply(stops(`{"content":"a"}`), fake.Repeat(5, 3*time.Second, fake.Ping()), stops(`{"content":"b"}`), fake.Done()), "ab", 0},
		"reasoning, then a tool call": {fake.Reply(stops(`{"reasoning_content":"let me look"}`), fake.Pause(20*time.Second), stops(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`), fake.Done()), "", 1},
		"no pause":                    {fake.Reply(stops(`{"content":"a"}`), stops(`{"content":"b"}`), fake.Done()), "ab", 0},
		"a finish and no [DONE]":      {fake.Reply(fake.Text("ab"), fake.Finish("stop"), fake.Hang()), "ab", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply), nil, func(t *testing.T, w *world) {
				r, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, tc.want, r.Message.Content, "Chat")
				assert.Len(t, r.Message.ToolCalls, tc.calls)
			})
			inWorld(t, script(tc.reply), nil, func(t *testing.T, w *world) {
				r, err := w.client.Stream(t.Context(), hello()).Response()
				require.NoError(t, err)
				assert.Equal(t, tc.want, r.Message.Content, "Stream")
			})
		})
	}
}
