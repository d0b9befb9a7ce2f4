package llmclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
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

func TestWhiteSpaceBehindAFinishReasonGoesOn(t *testing.T) {
	reply := fake.Reply(fake.Text("a"), fake.Text(" "), fake.Finish("stop"), fake.Text(" "), fake.Pause(8*time.Second), fake.Text("b"), fake.End("stop"))
	inWorld(t, script(reply), nil, func(t *testing.T, w *world) {
		r, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, "a  b", r.Message.Content)
		assert.Len(t, w.srv.Requests(), 1)
	})
}

func TestAnEndpointWhoseReasonsMeanNothingIsRemembered(t *testing.T) {
	goesOn := func(after time.Duration) fake.Step {
		return fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Pause(after), fake.Text("b"), fake.End("stop"))
	}
	inWorld(t, script(goesOn(4*time.Second), goesOn(90*time.Second)), nil, func(t *testing.T, w *world) {
		for range 2 {
			r, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "ab", r.Message.Content)
		}
	})
	t.Run("and one that stops there has answered all the same", func(t *testing.T) {
		stops := fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Hang())
		inWorld(t, script(goesOn(4*time.Second), stops), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			before := time.Now()
			r, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "a", r.Message.Content)
			assert.Equal(t, 2*time.Minute, time.Since(before), "the limit of Gap")
		})
	})
	t.Run("others are not waited for", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Hang())), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.elapsed(5 * time.Second)
		})
	})
}

// What looks like a part of something else, beside an end without a reason, may be
// an error that was printed over several lines.
func TestLinesOfAnErrorBesideAnEndWithoutAReason(t *testing.T) {
	for name, tc := range map[string]struct {
		line  string
		whole bool
	}{
		"an error over lines":   {"{\n  \"error\": {\n    \"message\": \"boom\"\n  }\n}\n\n", false},
		"a field of the stream": {"trace: abc\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Reply(fake.Text("part"), fake.Raw(tc.line), fake.Done())), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				if tc.whole {
					require.NoError(t, err)
					return
				}
				failure(t, err, llmclient.ErrIncomplete)
			})
		})
	}
}
