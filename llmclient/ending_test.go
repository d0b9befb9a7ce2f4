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

// When all calls are cancelled, none that was queued is sent any more.
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

// An empty retry budget delays calls and does not fail them, even under callers' deadlines.
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

// Why a context ended is its owner's word; how it ended is not.
func TestACauseDoesNotChangeHowAContextEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		past  bool // the context has ended before the call
	}{
		"a word of its own":          {cause: causeOf{"the run was stopped"}},
		"a deadline of others":       {cause: context.DeadlineExceeded},
		"before the call":            {cause: causeOf{"the run was stopped"}, past: true},
		"a deadline before the call": {cause: context.DeadlineExceeded, past: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Hang()), nil, func(t *testing.T, w *world) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tc.past {
					cancel(tc.cause)
				}
				time.AfterFunc(5*time.Second, func() { cancel(tc.cause) })
				_, err := w.client.Chat(ctx, hello())
				failure(t, err, llmclient.ErrCanceled)
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorContains(t, err, tc.cause.Error())
				assert.Equal(t, !tc.past, len(w.srv.Requests()) == 1)

				_, err = w.client.Chat(context.WithoutCancel(ctx), hello())
				failure(t, err, llmclient.ErrTimeout) // of which only the values are left
			})
		})
	}
}

// causeOf is not comparable, like an error with a slice in it.
type causeOf []string

func (c causeOf) Error() string { return c[0] }

// A call may be ended at any moment, even when its answer comes, while it changes from
// one endpoint to another, or while it waits. It ends then, or has its answer, and
// leaks nothing.
func TestACallMayBeEndedAtAnyMoment(t *testing.T) {
	const tick = 5 * time.Millisecond
	answer := fake.Reply(fake.Pause(tick), fake.Text("a"), fake.Pause(tick), fake.Text("b"), fake.Pause(tick), fake.End("stop"))
	for _, how := range []string{"cancel", "close"} {
		for _, chats := range []bool{true, false} {
			for at := time.Duration(0); at < 12*tick; at += tick / 2 {
				a := script(fake.Reply(fake.Pause(tick), fake.Unavailable()), answer)
				b := script(fake.Reply(fake.Pause(tick), fake.Text("a"), fake.Pause(tick), fake.Reset()), answer)
				inRealm(t, []fake.Config{a, b}, inOrder, func(t *testing.T, r *realm) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					time.AfterFunc(at, func() {
						if how == "close" {
							_ = r.client.Close()
						}
						cancel()
					})
					var err error
					if chats {
						_, err = r.client.Chat(ctx, hello())
					} else {
						_, err = r.client.Stream(ctx, hello()).Response()
					}
					if err != nil {
						assert.LessOrEqual(t, time.Since(r.start), max(at, 3*tick), "%s at %v: %v", how, at, err)
					}
				})
			}
		}
	}
}

// A context whose Err says that it has ended, but whose Done channel stays open, as in
// some that are merged from two.
type halfContext struct {
	context.Context
	other context.Context
}

func (c halfContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	return c.other.Err()
}

func TestAContextThatEndsWithoutAWordIsNotWaitedFor(t *testing.T) {
	inWorld(t, script(fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		other, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx := halfContext{t.Context(), other}
		_, err := w.client.Chat(ctx, hello())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrDeadline)
		w.elapsed(2 * time.Second)
	})
}

// The reader of a stream may close its client.
func TestAStreamsReaderMayCloseTheClient(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Text("a"), fake.Text("b"), fake.Hang())), nil, func(t *testing.T, w *world) {
		var err error
		for _, err = range w.client.Stream(t.Context(), hello()).All() {
			if err == nil {
				require.NoError(t, w.client.Close())
			}
		}
		assert.ErrorIs(t, err, llmclient.ErrClosed)
		w.elapsed(0)
	})
}
