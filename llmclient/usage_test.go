package llmclient_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestUnderAnSDKAFinishReasonOnEveryChunkDoesNotCutTheAnswer(t *testing.T) {
	reply := fake.Reply(stops(`{"content":"first"}`), fake.Pause(8*time.Second), stops(`{"content":"second"}`), fake.Done())
	underSDK(t, script(reply), nil, func(t *testing.T, b *below) {
		resp, err := b.client.Post(b.srv.BaseURL()+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		require.NoError(t, err)
		assert.Contains(t, string(text), "second", "a clean end without the rest")
	})
}

// A server that fills usage with zeros has not counted.
func TestUsageOfZerosIsNoUsage(t *testing.T) {
	for name, u := range map[string]string{
		"zeros":    `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`,
		"nulls":    `{"prompt_tokens":null,"completion_tokens":null,"total_tokens":null}`,
		"negative": `{"prompt_tokens":-1,"completion_tokens":-1,"total_tokens":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{}
			inWorld(t, script(fake.Reply(fake.Text("an answer of several words"), fake.Finish("stop"), fake.Chunk(`{"choices":[],"usage":`+u+`}`), fake.Done())), func(c *llmclient.Config) { c.TracerProvider = rec }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.NotContains(t, rec.spans[0].attrs, attribute.Key("gen_ai.usage.input_tokens"))
				assert.NotContains(t, rec.spans[0].attrs, attribute.Key("gen_ai.usage.output_tokens"))
			})
		})
	}
	t.Run("zeros after a count do not replace it", func(t *testing.T) {
		rec := &recorder{}
		inWorld(t, script(fake.Reply(fake.Text("hello"), fake.Chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":42,"total_tokens":56}}`), fake.Chunk(`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`), fake.Done())), func(c *llmclient.Config) { c.TracerProvider = rec }, func(t *testing.T, w *world) {
			r, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.EqualValues(t, 14, r.Usage.PromptTokens)
			assert.EqualValues(t, 42, rec.spans[0].attrs["gen_ai.usage.output_tokens"].AsInt64())
		})
	})
	t.Run("a count before the failure stands in the span", func(t *testing.T) {
		rec := &recorder{}
		inWorld(t, script(fake.Reply(fake.Text("a"), fake.Chunk(`{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":14,"completion_tokens":2,"total_tokens":16}}`), fake.Pause(time.Second), fake.Reset())), func(c *llmclient.Config) { c.TracerProvider, c.Retry.Attempts = rec, 1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.Error(t, err)
			assert.EqualValues(t, 14, rec.spans[0].attrs["gen_ai.usage.input_tokens"].AsInt64())
		})
	})
}
