package health_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// No caller waits for a question after its context has ended.
func TestWhoAsksMayLeave(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	observe(t, pages{"/metrics": silent, "/v1/models": silent}, &one{}, func(t *testing.T, w *watched) {
		for name, ask := range map[string]func(context.Context){
			"Check":       func(ctx context.Context) { w.Check(ctx) },
			"Advise":      func(ctx context.Context) { w.Advise(ctx, waiting(1, 0)) },
			"Fingerprint": func(ctx context.Context) { w.Fingerprint(ctx, nil, nil) },
		} {
			time.Sleep(time.Hour)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ask(ctx)
			cancel()
			assert.Equal(t, time.Second, time.Since(start), name)
		}
		// A round under way is waited for, and no other begins after Close.
		assert.NoError(t, w.Close())
		asked := w.all()
		w.Check(t.Context())
		assert.Equal(t, asked, w.all())
	})
}

// The last verdict in one line, as long as it is young, for the endpoint it is
// about.
func TestExplain(t *testing.T) {
	observe(t, vllmPages(), &one{}, func(t *testing.T, w *watched) {
		assert.Empty(t, w.Explain(""), "nothing is known")
		w.Check(t.Context())
		assert.Contains(t, w.Explain("http://anybody"), "idle")
		time.Sleep(30 * time.Second)
		assert.Contains(t, w.Explain(""), "idle")
		time.Sleep(time.Nanosecond)
		assert.Empty(t, w.Explain(""), "it is old")
	})
}

// A service that has recovered for five minutes is as any other, and one that
// failed again meanwhile begins anew.
func TestFaultsAreForgotten(t *testing.T) {
	observe(t, vllmPages(), &one{}, func(t *testing.T, w *watched) {
		call := uint64(0)
		calls := func(d time.Duration, want health.State) {
			t.Helper()
			for start := time.Now(); time.Since(start) < d; time.Sleep(time.Second) {
				call++
				w.Note(llmclient.Event{Kind: llmclient.EventAttempt, Call: call, Time: time.Now()})
				w.Note(llmclient.Event{Kind: llmclient.EventDone, Call: call, Time: time.Now(), FirstOutput: time.Millisecond, After: 0, Outputs: 9, PromptBytes: 9})
				w.Verdict()
			}
			assert.Equal(t, want, w.Verdict().State, "%s", w.Verdict())
		}
		fault := func() {
			t.Helper()
			w.refuses.Store(true)
			w.Check(t.Context())
			time.Sleep(11 * time.Second)
			w.Check(t.Context())
			assert.Equal(t, health.StateUnreachable, w.Verdict().State)
			w.refuses.Store(false)
			time.Sleep(11 * time.Second)
			w.Check(t.Context())
		}
		calls(20*time.Second, health.StateHealthy)
		fault()
		calls(4*time.Minute+50*time.Second, health.StateRecovered)
		fault()
		calls(4*time.Minute+50*time.Second, health.StateRecovered)
		calls(20*time.Second, health.StateHealthy)
	})
}

// Calls to other endpoints say nothing of the service.
func TestOtherEndpointsCallsDoNotCount(t *testing.T) {
	m, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, Endpoint: "http://model.test/v1", Allow: func() bool { return false }, HTTPClient: &http.Client{Transport: refusing{context.Canceled}}})
	assert.NoError(t, err)
	defer m.Close()
	client := &one{}
	client.set(
		llmclient.InFlight{Endpoint: "http://another.test/v1", Phase: llmclient.PhaseFirstOutput, Since: time.Now()},
		llmclient.InFlight{Endpoint: "http://model.test/v1", Phase: llmclient.PhaseSend, Since: time.Now()},
	)
	m.Watch(client)
	u := m.Verdict().Uniform
	assert.Equal(t, 1, u.Of)
	assert.Equal(t, llmclient.PhaseSend, u.Phase)
	assert.Empty(t, m.Explain("http://another.test/v1"))
	assert.NotEmpty(t, m.Explain("http://model.test/v1"))
	assert.NotEmpty(t, m.Explain(""))
}
