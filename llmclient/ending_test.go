package llmclient_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// A cancel of all: nothing that was queued is sent any more.
func TestNothingIsBegunByCloseOrCancel(t *testing.T) {
	for _, leave := range []string{"close", "cancel"} {
		t.Run(leave, func(t *testing.T) {
			more := 0
			for range 30 {
				inWorld(t, fake.Config{Script: fake.Always(fake.Hang())}, func(c *llmclient.Config) { c.Pacer.MaxInFlight = 5 }, func(t *testing.T, w *world) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var wg sync.WaitGroup
					for range 200 {
						wg.Go(func() { _, _ = w.client.Chat(ctx, hello()) })
					}
					synctest.Wait()
					before := len(w.ofKind(llmclient.EventAttempt))
					if leave == "close" {
						require.NoError(t, w.client.Close())
					} else {
						cancel()
					}
					wg.Wait()
					more += len(w.ofKind(llmclient.EventAttempt)) - before
				})
			}
			assert.Zero(t, more, "attempts begun by leaving")
		})
	}
}

func TestCloseMeetsTheBeginningOfACall(t *testing.T) {
	for range 300 {
		srv := fake.New(script(fake.Answer("ok")))
		tr := srv.Transport()
		c, err := llmclient.New(llmclient.Config{BaseURL: srv.BaseURL(), Model: "m"})
		require.NoError(t, err)
		_ = tr
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		for range 4 {
			wg.Go(func() { _, _ = c.Chat(ctx, hello()) })
		}
		wg.Go(func() { _ = c.Close() })
		wg.Wait()
		cancel()
		srv.Close()
	}
}

func TestABreakerObserverThatPanicsLosesNoPermit(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Unavailable())}, func(c *llmclient.Config) {
		c.Breaker = breaker.Config{Failures: 1, OnChange: func(breaker.Change) { panic("observer") }}
		c.Retry.Attempts = 1
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrServer)
		assert.Zero(t, w.client.Pacer().InFlight, "permits")
		assert.Zero(t, w.client.Endpoints()[0].Calls)
	})
}

// An empty budget delays, it does not fail: here under callers' deadlines.
func TestAnEmptyBudgetLeavesTimeForTheTry(t *testing.T) {
	for name, restart := range map[string]bool{"restarts": true, "retries": false} {
		t.Run(name, func(t *testing.T) {
			var seen sync.Map
			inWorld(t, fake.Config{Script: func(q *fake.Request) fake.Step {
				if _, again := seen.LoadOrStore(q.Agent, true); !again && !restart {
					return fake.Error(500, "", "", "hiccup")
				}
				return fake.Reply(fake.Pause(time.Millisecond), fake.Answer("ok"))
			}}, func(c *llmclient.Config) { c.Breaker.Failures = -1 }, func(t *testing.T, w *world) {
				var wg sync.WaitGroup
				var failed atomic.Int32
				for i := range 100 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						_, err := w.client.Chat(ctx, &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(i))}, Restart: restart})
						if err != nil {
							failed.Add(1)
						}
					})
				}
				wg.Wait()
				assert.Zero(t, failed.Load())
			})
		})
	}
}
