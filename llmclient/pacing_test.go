package llmclient_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// left says in the headers of an answer what is left of a limit, as OpenAI does.
func left(n int, reset time.Duration) fake.Step {
	return fake.Reply(
		fake.Header("X-Ratelimit-Limit-Requests", "10"),
		fake.Header("X-Ratelimit-Remaining-Requests", fmt.Sprint(n)),
		fake.Header("X-Ratelimit-Reset-Requests", reset.String()),
		fake.Answer("ok"))
}

func TestRateHeadersTightenBeforeTheRefusal(t *testing.T) {
	// A bucket of ten that fills up in ten seconds, and has three left.
	srv := fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < time.Duration(r.Ordinal-3)*time.Second {
			return fake.Reply(fake.RetryAfter(10*time.Second), fake.Throttled())
		}
		return left(max(0, 3-r.Ordinal), 10*time.Second)
	}}
	inWorld(t, srv, nil, func(t *testing.T, w *world) {
		for range 5 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Empty(t, w.ofKind(llmclient.EventFailed), "nothing had to be refused")
		assert.Greater(t, time.Since(w.start), time.Second)
	})
	t.Run("values that cannot be meant hold nobody up", func(t *testing.T) {
		for _, header := range [][2]string{
			{"X-Ratelimit-Remaining-Requests", "-1"},
			{"X-Ratelimit-Remaining-Tokens", "0"}, // and no word on when
			{"X-Ratelimit-Reset-Requests", "-5s"},
			{"Anthropic-Ratelimit-Requests-Reset", "yesterday"},
		} {
			srv := fake.Config{Script: fake.Always(fake.Reply(fake.Header(header[0], header[1]), fake.Answer("ok")))}
			inWorld(t, srv, nil, func(t *testing.T, w *world) {
				for range 5 {
					_, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
				}
				w.elapsed(0)
			})
		}
	})
}

// With tokens per minute what a call will take is reserved, and settled with what
// the server counted.
func TestTokensPerMinuteAreSettledWithTheUsage(t *testing.T) {
	srv := fake.Config{Script: fake.Always(fake.Reply(fake.Text("ok"), fake.Finish("stop"), fake.Usage(10, 10), fake.Done()))}
	inWorld(t, srv, func(c *llmclient.Config) {
		c.Pacer.TokensPerMinute, c.Pacer.TokenBurst = 1000, -1
	}, func(t *testing.T, w *world) {
		req := hello()
		req.MaxTokens = 400
		for range 20 { // 20 of 20 tokens each, reserved as 430
			_, err := w.client.Chat(t.Context(), req)
			require.NoError(t, err)
		}
		w.elapsed(0)
	})
	t.Run("what can never fit is told at once", func(t *testing.T) {
		inWorld(t, srv, func(c *llmclient.Config) { c.Pacer.TokensPerMinute = 100 }, func(t *testing.T, w *world) {
			req := hello()
			req.MaxTokens = 4000
			_, err := w.client.Chat(t.Context(), req)
			e := failure(t, err, llmclient.ErrQueue)
			assert.False(t, e.Retryable())
			w.elapsed(0)
			assert.Empty(t, w.srv.Requests())
		})
	})
}

// Agents take turns, however many calls each of them has waiting.
func TestAgentsTakeTurns(t *testing.T) {
	srv := fake.Config{Script: fake.Always(fake.Reply(fake.Pause(time.Second), fake.Answer("ok")))}
	inWorld(t, srv, func(c *llmclient.Config) { c.Pacer.MaxInFlight = 1 }, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		ask := func(name string) {
			wg.Go(func() {
				_, err := w.client.Chat(t.Context(), &chat.Request{Caller: name, Messages: []chat.Message{chat.User("x")}})
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
		}
		for range 6 {
			ask("greedy")
		}
		time.Sleep(100 * time.Millisecond)
		ask("modest")
		wg.Wait()
		assert.Contains(t, order[:3], "modest", "it does not wait behind all of the other's: %v", order)
	})
}
