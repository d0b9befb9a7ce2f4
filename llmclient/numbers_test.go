package llmclient_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// The largest number there is is how some write that there is no bound. It must
// not come out as one in the past.
func TestBoundsBeyondNumbersAreNone(t *testing.T) {
	slow := fake.Reply(fake.Pause(time.Second), fake.Role(), fake.Repeat(4, 20*time.Second, fake.Ping()), fake.Pause(time.Hour),
		fake.Text("a"), fake.Pause(time.Hour), fake.Text("b"), fake.Pause(time.Hour), fake.End("stop"))
	for name, most := range map[string]time.Duration{"most": math.MaxInt64, "almost": math.MaxInt64 - 1, "half": math.MaxInt64 / 2} {
		k := llmclient.Clock{Suspect: most, Limit: most}
		for which, clocks := range map[string]llmclient.Clocks{
			"limits": {Queue: k, Connect: k, Send: k, FirstOutput: k, Gap: k, Silence: k, Attempt: k, End: k, Call: k},
			"suspicions": {
				FirstOutput: llmclient.Clock{Suspect: most}, Gap: llmclient.Clock{Suspect: most}, Attempt: llmclient.Clock{Suspect: most},
				Silence: llmclient.Clock{Limit: -1}, Call: llmclient.Clock{Suspect: most},
			},
		} {
			t.Run(name+" "+which, func(t *testing.T) {
				inWorld(t, script(fake.Unavailable(), slow), func(c *llmclient.Config) {
					c.Clocks = clocks
					c.Retry = llmclient.Retry{MaxBackoff: most} // with its jitter
				}, func(t *testing.T, w *world) {
					_, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
					assert.Greater(t, time.Since(w.start), 3*time.Hour)
					assert.Empty(t, w.ofKind(llmclient.EventSuspect))
				})
			})
		}
	}
	t.Run("a backoff", func(t *testing.T) {
		inWorld(t, script(fake.Unavailable()), func(c *llmclient.Config) {
			c.Retry = llmclient.Retry{Backoff: math.MaxInt64}
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrServer)
			assert.ErrorContains(t, err, "there is no time for another try")
			w.elapsed(0)
		})
	})
	long := strings.Repeat("ab", 100_000)
	for _, n := range []int{math.MaxInt, math.MaxInt/4 + 1, -1, math.MinInt} {
		inWorld(t, script(fake.Reply(fake.Text(long), fake.CallTool("id", "tool", `{"x":"`+long+`"}`), fake.End("tool_calls"))), func(c *llmclient.Config) {
			c.Limits = llmclient.Limits{RepeatBytes: n, OutputTokens: n, EventBytes: n, AnswerBytes: int64(n)}
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err, "limits of %d", n)
		})
		inWorld(t, script(fake.Answer("ok")), func(c *llmclient.Config) { c.Pacer.TokensPerMinute = math.MaxInt }, func(t *testing.T, w *world) {
			req := hello()
			req.MaxTokens = n
			_, err := w.client.Chat(t.Context(), req)
			require.NoError(t, err, "MaxTokens of %d", n)
		})
	}
}

// A server that counts nonsense must not make the next call wait for it.
func TestUsageBeyondNumbers(t *testing.T) {
	for name, usage := range map[string]string{
		"of the prompt": `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
		"of the cache":  `{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":9223372036854775807,"cache_creation_input_tokens":1}`,
		"of all":        `{"prompt_tokens":1,"completion_tokens":1,"total_tokens":9223372036854775807}`,
		"below zero":    `{"prompt_tokens":-1,"completion_tokens":-5,"total_tokens":-6}`,
		"no number":     `{"prompt_tokens":1e400,"completion_tokens":-0,"total_tokens":"NaN"}`,
	} {
		t.Run(name, func(t *testing.T) {
			odd := fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Chunk(`{"choices":[],"usage":`+usage+`}`), fake.Done())
			inWorld(t, script(odd), func(c *llmclient.Config) { c.Pacer.TokensPerMinute = 10_000 }, func(t *testing.T, w *world) {
				for range 3 {
					resp, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
					if u := resp.Usage; u != nil {
						assert.Equal(t, u.TotalTokens, u.PromptTokens+u.CompletionTokens)
						assert.Less(t, u.TotalTokens, int64(100))
					}
				}
				w.elapsed(0)
			})
		})
	}
}
