package llmclient_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestWhatIsKnownOfTheServerStandsInErrorsEventsAndDumps(t *testing.T) {
	inWorld(t, script(fake.Hang()), func(c *llmclient.Config) {
		c.Retry.Attempts = 1
		c.Explain = func(endpoint string) string { return "wedged since 16:09 at " + endpoint }
	}, func(t *testing.T, w *world) {
		go func() {
			time.Sleep(time.Minute)
			var b strings.Builder
			assert.NoError(t, llmclient.Dump(&b, w.client))
			assert.Contains(t, b.String(), "the server: wedged since 16:09")
		}()
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrTimeout)
		assert.Equal(t, "wedged since 16:09 at http://model.test/v1", e.Verdict)
		assert.Contains(t, err.Error(), "; the server: wedged since 16:09")
		require.NotEmpty(t, w.ofKind(llmclient.EventSuspect))
		assert.Contains(t, w.ofKind(llmclient.EventSuspect)[0].Text, "the server: wedged")
		assert.Contains(t, w.ofKind(llmclient.EventFailed)[0].Text, "the server: wedged")
	})
	t.Run("an explanation that panics is none", func(t *testing.T) {
		inWorld(t, script(fake.Hang()), func(c *llmclient.Config) {
			c.Retry.Attempts = 1
			c.Explain = func(string) string { panic("oh") }
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			assert.Empty(t, failure(t, err, llmclient.ErrTimeout).Verdict)
		})
	})
}

func TestASignOfLifeFromElsewhereLetsCallsGoOn(t *testing.T) {
	var back atomic.Bool
	srv := fake.Config{
		Script: func(*fake.Request) fake.Step {
			if back.Load() {
				return fake.Answer("ok")
			}
			return fake.Hang()
		},
		Models: fake.Always(fake.Hang()), // it never answers probes
	}
	for name, tc := range map[string]struct {
		endpoint string
		after    time.Duration
	}{
		"it is told":   {"http://model.test/v1", 60 * time.Second},
		"all are told": {"", 60 * time.Second},
		"of another":   {"elsewhere", 3*time.Minute + 40500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			back.Store(false)
			inWorld(t, srv, nil, func(t *testing.T, w *world) {
				go func() {
					time.Sleep(59500 * time.Millisecond)
					back.Store(true)
					w.client.Alive(tc.endpoint)
				}()
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				w.elapsed(tc.after)
			})
		})
	}
}
