package llmclient_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestADeadPooledConnectionCostsOneResend(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Answer("ok")), Net: []fake.NetFault{{Kind: fake.IdleClose, After: 200 * time.Millisecond}}}, nil, func(t *testing.T, w *world) {
		for range 3 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
		}
		assert.Zero(t, w.client.Breaker().Failures)
		assert.Empty(t, w.ofKind(llmclient.EventRetry))
	})
}

func TestAPooledConnectionThatDiesUnderTheRequestCostsOneResend(t *testing.T) {
	inWorld(t, script(fake.Answer("ok"), fake.Reset(), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		for range 2 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Len(t, w.srv.Requests(), 3)
		assert.Len(t, w.ofKind(llmclient.EventAttempt), 3, "attempts reported equal requests on the wire")
		assert.Zero(t, w.client.Breaker().Failures)
		assert.Empty(t, w.ofKind(llmclient.EventRetry))
		w.elapsed(0)
	})
}

func TestABlackHoledConnectionIsNotUsedAgain(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Answer("ok")), Net: []fake.NetFault{{Kind: fake.BlackHole, First: 1, Last: 1, After: 200 * time.Millisecond}}},
		func(c *llmclient.Config) { c.Clocks.FirstOutput.Limit = time.Second; c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
			_, err = w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrTimeout)
			_, err = w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
}

func TestConnectionsAreReusedUnderRetries(t *testing.T) {
	replies := []fake.Step{}
	for range 3 {
		replies = append(replies, fake.Error(503, "server_error", "", pad(4<<10)))
	}
	n := 0
	inWorld(t, fake.Config{Script: func(*fake.Request) fake.Step {
		n++
		if n%4 != 0 {
			return replies[n%4-1]
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) { c.Breaker.Failures = -1 }, func(t *testing.T, w *world) {
		for range 20 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Equal(t, 1, w.srv.Stats().Dialled)
	})
}
