package health_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// served tells a monitor of a call that was sent and answered just now.
func served(mon *health.Monitor, call uint64, took time.Duration) {
	mon.Note(llmclient.Event{
		Kind: llmclient.EventDone, Call: call, Time: time.Now(), After: took,
		PromptBytes: 1200, FirstOutput: 200 * time.Millisecond, Outputs: 20,
	})
}

// Calls are cut only where nothing at all comes of them, and held only where the
// server is seen to work.
func TestWhenCallsAreCut(t *testing.T) {
	works := func(running int) http.HandlerFunc {
		return each(func(n int) string {
			return fmt.Sprintf("sglang:num_running_reqs %d\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total %d\n", running, 100*n+1)
		})
	}
	still := text("sglang:num_running_reqs 4\nsglang:generation_tokens_total 7\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 7\n")
	silent := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := map[string]struct {
		a, b   pages // of two servers; one that is nil refuses connections after half a minute
		served func(second int) bool
		took   time.Duration // what is answered takes so long; zero is 800 ms
		refuse bool          // our own budget does, once it is known what the server is
		bytes  bool          // pings come
		fails  bool          // calls fail, in the last second
		alone  bool          // there is no b
		sent   time.Duration // when the calls that wait were
		after  time.Duration
		state  health.State
		want   llmclient.Advice
	}{
		"one of two cannot be reached, and the other works": {
			b: pages{"/metrics": works(4)}, after: 50 * time.Second, state: health.StateUnreachable, want: llmclient.Advice{},
		},
		"nobody can be reached": {after: 50 * time.Second, alone: true, state: health.StateUnreachable, want: llmclient.Advice{State: llmclient.AdviceIdle}},
		"nobody can be reached for now": {
			after: 36 * time.Second, alone: true, fails: true, state: health.StateUnreachable, want: llmclient.Advice{},
		},
		"questions go elsewhere than calls, and those are answered": {
			after: 50 * time.Second, alone: true, served: func(int) bool { return true }, state: health.StateUnreachable, want: llmclient.Advice{},
		},
		"questions go elsewhere than calls, and pings come": {
			after: 50 * time.Second, alone: true, bytes: true, state: health.StateUnreachable, want: llmclient.Advice{},
		},
		"calls are answered, and nothing shows work": {
			a: pages{"/v1/models": text("{}")}, sent: 39 * time.Second, after: 40 * time.Second, alone: true, served: func(int) bool { return true }, state: health.StateHealthy, want: llmclient.Advice{},
		},
		"it works on what we wait for": {
			a: pages{"/metrics": works(4)}, after: 40 * time.Second, alone: true, state: health.StateBusy, want: llmclient.Advice{State: llmclient.AdviceBusy},
		},
		"all stands still since others were answered": {
			a: pages{"/metrics": still}, b: pages{"/metrics": still}, after: 65 * time.Second, state: health.StateWedgedEngine,
			served: func(s int) bool { return s <= 64-20 }, want: llmclient.Advice{State: llmclient.AdviceIdle},
		},
		"all stands still, and the last answers to what was sent before are read": {
			a: pages{"/metrics": still}, after: 65 * time.Second, alone: true, state: health.StateWedgedEngine,
			served: func(s int) bool { return s == 63 }, took: 66 * time.Second, want: llmclient.Advice{State: llmclient.AdviceIdle},
		},
		"others overtake them, and nothing young is known of the server": {
			a: pages{"/metrics": works(4)}, refuse: true, after: 65 * time.Second, alone: true, served: func(int) bool { return true },
			state: health.StateLost, want: llmclient.Advice{},
		},
		"it serves others, and has two of the four that it must have": {
			a: pages{"/metrics": works(2)}, after: 40 * time.Second, alone: true, served: func(int) bool { return true },
			state: health.StateLost, want: llmclient.Advice{State: llmclient.AdviceLost, Calls: []uint64{1, 2}},
		},
		"it was seen to be wedged, and that is not seen any more": {
			a: pages{
				"/metrics": func(w http.ResponseWriter, r *http.Request) {
					if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 45*time.Second {
						still(w, r)
						return
					}
					http.NotFound(w, r)
				},
				"/model_info": text("{}"), "/server_info": text("{}"),
			}, after: 65 * time.Second, alone: true, state: health.StateWedgedEngine, want: llmclient.Advice{},
		},
		"its scheduler does not answer": {
			a: pages{"/metrics": status(404), "/v1/models": text(`{"data":[{"id":"m","owned_by":"sglang"}]}`), "/model_info": text("{}"), "/server_info": silent}, after: 65 * time.Second, alone: true,
			state: health.StateFrontEndAlone, want: llmclient.Advice{State: llmclient.AdviceIdle},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					p := tt.a
					if strings.HasPrefix(r.Host, "b.") {
						p = tt.b
					}
					if p == nil {
						p = pages{"/metrics": works(4)}
					}
					p.ServeHTTP(w, r)
				})})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					p := tt.a
					if strings.HasPrefix(addr, "b.") {
						p = tt.b
					}
					if p == nil && time.Since(start) >= 30*time.Second {
						return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
					}
					return srv.DialContext(ctx, network, addr)
				}
				targets := []health.Target{{URL: "http://a.test", Name: "a"}, {URL: "http://b.test", Name: "b"}}
				if tt.alone {
					targets = targets[:1]
				}
				mon, err := health.New(health.Config{Targets: targets, HTTPClient: &http.Client{Transport: tr}, Allow: func() bool { return !tt.refuse }})
				require.NoError(t, err)
				defer mon.Close()
				var calls []llmclient.InFlight
				for i := range 4 { // the oldest first
					at := start.Add(tt.sent + time.Duration(i)*time.Millisecond)
					calls = append(calls, llmclient.InFlight{Call: uint64(1 + i), Started: at, Since: at, Phase: llmclient.PhaseFirstOutput, PromptBytes: 1000})
				}
				client := &one{}
				client.set(calls...)
				mon.Watch(client)
				for s := 0; time.Since(start) < tt.after-time.Second; s++ {
					time.Sleep(time.Second)
					if tt.served != nil && tt.served(s) {
						served(mon, uint64(100+s), max(tt.took, 800*time.Millisecond))
					}
					if tt.bytes {
						now := client.InFlight()
						now[0].Bytes, now[0].LastByte = now[0].Bytes+5, time.Now()
						client.set(now...)
					}
				}
				if tt.fails {
					mon.Note(llmclient.Event{Kind: llmclient.EventFailed, Call: 9, Time: time.Now(), Err: &llmclient.Error{Kind: llmclient.ErrNetwork}})
				}
				time.Sleep(time.Second)
				got := mon.Advise(t.Context(), client.InFlight())
				v := mon.Verdict()
				assert.Equal(t, tt.state, v.State, "%s", v)
				got.Why = ""
				assert.Equal(t, tt.want, got, "%s", v)
			})
		})
	}
}

// What a client waits for is the client's own: it may change it afterwards.
func TestAdviseKeepsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			http.NotFound(w, r)
		})})
		defer srv.Close()
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		mon, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}})
		require.NoError(t, err)
		defer mon.Close()
		calls := waiting(3, 0)
		for i := range calls {
			calls[i].Since = time.Now().Add(-time.Minute)
		}
		mon.Advise(t.Context(), calls)
		assert.NotZero(t, asked.Load(), "it asks for a sample that is young enough")
		clear(calls)
		assert.Equal(t, llmclient.PhaseFirstOutput, mon.Verdict().Uniform.Phase)
		time.Sleep(31 * time.Second)
		assert.Zero(t, mon.Verdict().Uniform.Of, "what was asked about long ago is forgotten")
	})
}
