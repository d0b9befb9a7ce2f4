package llmclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestAnAnswerOfTooManyTokensIsEnded(t *testing.T) {
	words := func(n int) fake.Step {
		return fake.Reply(fake.Repeat(n, time.Millisecond, fake.Text("forty bytes of text, which are ten tokens")), fake.End("stop"))
	}
	set := func(c *llmclient.Config) { c.Limits.OutputTokens, c.Limits.RepeatBytes = 1000, -1 }
	inWorld(t, script(words(97)), set, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
	})
	inWorld(t, script(words(200)), set, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrRunaway)
		assert.ErrorContains(t, err, "Limits.OutputTokens")
		assert.NotNil(t, e.Partial)
		assert.Len(t, w.srv.Requests(), 2, "once more, and then no more")
	})
	t.Run("by default a million", func(t *testing.T) {
		endless := fake.Repeat(600, time.Second, fake.Text(strings.Repeat("no two words are the same here ", 300)))
		inWorld(t, script(fake.Reply(endless, fake.End("stop"))), func(c *llmclient.Config) { c.Limits.RepeatBytes = -1 },
			func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, llmclient.ErrRunaway)
			})
	})
}

func TestTheFloorOfTokensPerSecond(t *testing.T) {
	slow := fake.Reply(fake.Repeat(20, 15*time.Second, fake.Text("word")), fake.End("stop"))
	floor := func(c *llmclient.Config) { c.Limits.TokensPerSecond = 1 }
	t.Run("there is none by default", func(t *testing.T) {
		inWorld(t, script(slow), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
	t.Run("a drip is ended after a minute", func(t *testing.T) {
		inWorld(t, script(slow), func(c *llmclient.Config) { floor(c); c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrRunaway)
			assert.ErrorContains(t, err, "Limits.TokensPerSecond")
			w.elapsed(time.Minute)
		})
	})
	t.Run("an answer above it is not", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Repeat(200, time.Second, fake.Text("five and a bit")), fake.End("stop"))), floor,
			func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			})
	})
	t.Run("a consumer that takes its time is not the model", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Repeat(40, time.Second, fake.Text("five and a bit")), fake.End("stop"))), floor,
			func(t *testing.T, w *world) {
				for _, err := range w.client.Stream(t.Context(), hello()).All() {
					require.NoError(t, err)
					time.Sleep(time.Minute)
				}
			})
	})
	t.Run("nor is the wait for the first output counted", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Pause(5*time.Minute), fake.Repeat(80, time.Second, fake.Text("five and a bit")), fake.End("stop"))), floor,
			func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			})
	})
}
