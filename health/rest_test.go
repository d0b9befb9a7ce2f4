package health_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// one is a client with one call at a time.
type one struct {
	mu    sync.Mutex
	calls []llmclient.InFlight
}

func (o *one) InFlight() []llmclient.InFlight {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

func (o *one) set(calls ...llmclient.InFlight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = calls
}

// Gauges stand at rest as they stood in the last step: vLLM's until the next one,
// SGLang's until it logs that it is idle. One agent that calls now and then is
// always answered, and nothing is said to be wrong.
func TestGaugesThatStandAtRest(t *testing.T) {
	tests := map[string]struct {
		page   string
		stands time.Duration
	}{
		"vLLM":                {"vllm:num_requests_running %d\nvllm:num_requests_waiting %[1]d\nvllm:kv_cache_usage_perc 0.%[1]d\nvllm:generation_tokens_total %d\n", time.Hour},
		"SGLang":              {"sglang:num_running_reqs %d\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total %d\nsglang:realtime_tokens_total{mode=\"decode\"} %[2]d\n", 30 * time.Second},
		"SGLang, prefill":     {"sglang:num_running_reqs{engine_type=\"prefill\"} %d\nsglang:realtime_tokens_total{engine_type=\"prefill\",mode=\"prefill_compute\"} %d\n", 30 * time.Second},
		"nothing that stands": {"vllm:num_requests_running %d\nvllm:generation_tokens_total %d\n", 0},
	}
	for name, tt := range tests {
		for _, pause := range []time.Duration{6 * time.Second, 12 * time.Second, 25 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprint(name, ", a call every ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var made, running int
					stands := 9 // requests that were there, and were aborted
					ended := time.Now()
					srv := fakeserver.New(fakeserver.Config{Handler: pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						defer mu.Unlock()
						has := running
						if has == 0 && time.Since(ended) < tt.stands {
							has = stands
						}
						text(fmt.Sprintf(tt.page, has, made))(w, r)
					}}})
					defer srv.Close()
					tr := srv.Transport()
					tr.DisableKeepAlives = true
					mon, err := health.New(health.Config{
						Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr},
						OnVerdict: func(v health.Verdict) { assert.False(t, v.State.Fault(), "%s", v) },
					})
					require.NoError(t, err)
					defer mon.Close()
					client := &one{}
					mon.Watch(client)
					for n := range uint64(12) {
						start := time.Now()
						client.set(llmclient.InFlight{Call: n, Started: start, Since: start, Attempt: 1, Phase: llmclient.PhaseFirstOutput, PromptBytes: 900})
						mon.Note(llmclient.Event{Kind: llmclient.EventAttempt, Call: n, Time: start, PromptBytes: 900})
						time.Sleep(100 * time.Millisecond) // the server is asked before its first step
						mu.Lock()
						running, stands, made = 1, 1, made+1
						mu.Unlock()
						time.Sleep(1100 * time.Millisecond)
						mu.Lock()
						running, made, ended = 0, made+30, time.Now()
						mu.Unlock()
						client.set()
						mon.Note(llmclient.Event{Kind: llmclient.EventDone, Call: n, Time: time.Now(), After: time.Since(start), FirstOutput: 200 * time.Millisecond, Outputs: 31, PromptBytes: 900})
						time.Sleep(pause)
					}
				})
			})
		}
	}
}
