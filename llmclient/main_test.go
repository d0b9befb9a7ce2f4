package llmclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a client and a server in a bubble of virtual time.
type world struct {
	t      *testing.T
	srv    *fakeserver.Server
	client *llmclient.Client
	start  time.Time

	eventLog
}

// An eventLog keeps the events that it is told of.
type eventLog struct {
	mu     sync.Mutex
	events []llmclient.Event
}

func (r *eventLog) note(e llmclient.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// inWorld runs a test in virtual time against a server with the given script.
// Backoff has no jitter, so that durations are exact; change configures more.
func inWorld(t *testing.T, srv fakeserver.Config, change func(*llmclient.Config), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, srv: fakeserver.New(srv), start: time.Now()}
		cfg := llmclient.Config{
			BaseURL:    w.srv.BaseURL(),
			Model:      "test-model",
			HTTPClient: &http.Client{Transport: w.srv.Transport()},
			Retry:      llmclient.Retry{Jitter: -1},
			Pacer:      pacer.Config{Rand: func() float64 { return 0 }},
			OnEvent:    w.note,
		}
		if change != nil {
			change(&cfg)
		}
		var err error
		w.client, err = llmclient.New(cfg)
		require.NoError(t, err)
		t.Cleanup(w.srv.Close)
		t.Cleanup(cfg.HTTPClient.CloseIdleConnections)
		t.Cleanup(func() { _ = w.client.Close() })
		test(t, w)
		require.Empty(t, w.client.InFlight(), "calls in flight after the test")
		require.Zero(t, w.client.Pacer().InFlight, "permits out after the test")
	})
}

// unpaced turns the learning of the pacer off, for tests that count calls that start at once.
func unpaced(c *llmclient.Config) { c.Pacer.StartInFlight = -1 }

func script(replies ...fakeserver.Step) fakeserver.Config {
	return fakeserver.Config{Script: fakeserver.Sequence(replies...)}
}

func hello() *chat.Request {
	return &chat.Request{Messages: []chat.Message{chat.User("hello")}, Caller: "tester"}
}

// callers lets n callers ask at once, and requires that all are answered.
func (w *world) callers(t *testing.T, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
}

// elapsed requires that exactly d has passed since the test began.
func (w *world) elapsed(d time.Duration) {
	w.t.Helper()
	require.Equal(w.t, d, time.Since(w.start), "time that has passed")
}

// ofKind returns the events of a kind.
func (r *eventLog) ofKind(k llmclient.EventKind) []llmclient.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []llmclient.Event
	for _, e := range r.events {
		if e.Kind == k {
			list = append(list, e)
		}
	}
	return list
}

// failure requires an *Error of the kind and returns it.
func failure(t *testing.T, err error, kind llmclient.Kind) *llmclient.Error {
	t.Helper()
	require.ErrorIs(t, err, kind)
	e, ok := errors.AsType[*llmclient.Error](err)
	require.True(t, ok, "error is %T, want *llmclient.Error", err)
	require.Equal(t, kind, e.Kind, "kind of: %v", err)
	return e
}

type jsonRaw = json.RawMessage

func contextWith(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// format prints values in every way that logs do.
func format(values ...any) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%v %+v %#v %s %d %q\n", v, v, v, v, v, v)
		if text, err := json.Marshal(v); err == nil {
			b.Write(text)
		}
	}
	return b.String()
}

func breakerConfig(cooldown time.Duration) breaker.Config { return breaker.Config{Cooldown: cooldown} }
