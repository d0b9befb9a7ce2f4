package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

func TestHealth(t *testing.T) {
	wedged := exact()
	wedged.Changes = []engine.Change{change(engine.Wedge, 0, time.Minute)}
	sglang, vllm := engine.SGLang, engine.VLLM
	tests := map[string]struct {
		cfg    engine.ServerConfig
		path   string
		status int // 0: never
		took   time.Duration
	}{
		"a healthy one makes a token":        {engine.ServerConfig{Engine: exact()}, "/health", 200, time.Second},
		"the same by its other name":         {engine.ServerConfig{Engine: exact()}, "/health_generate", 200, time.Second},
		"a wedged one cannot":                {engine.ServerConfig{Engine: wedged}, "/health", 503, 20 * time.Second},
		"but lies if it need not":            {engine.ServerConfig{Engine: wedged, PlainHealth: true}, "/health", 200, 0},
		"and not if it must":                 {engine.ServerConfig{Engine: wedged, PlainHealth: true}, "/health_generate", 503, 20 * time.Second},
		"vLLM's always lies":                 {engine.ServerConfig{Engine: wedged, Dialect: vllm}, "/health", 200, 0},
		"vLLM has no other":                  {engine.ServerConfig{Engine: wedged, Dialect: vllm}, "/health_generate", 404, 0},
		"the front end knows the model":      {engine.ServerConfig{Engine: wedged}, "/model_info", 200, 0},
		"the list of models":                 {engine.ServerConfig{Engine: wedged, Dialect: sglang}, "/v1/models", 200, 0},
		"what waits for the scheduler hangs": {engine.ServerConfig{Engine: wedged}, "/server_info", 200, time.Minute},
		"and does not if that works":         {engine.ServerConfig{Engine: exact()}, "/get_server_info", 200, 0},
		"metrics are the front end's":        {engine.ServerConfig{Engine: wedged}, "/metrics", 200, 0},
		"there may be none":                  {engine.ServerConfig{Engine: exact(), NoMetrics: true}, "/metrics", 404, 0},
		"version":                            {engine.ServerConfig{Dialect: vllm}, "/version", 200, 0},
		"load":                               {engine.ServerConfig{Dialect: vllm}, "/load", 200, 0},
		"ping":                               {engine.ServerConfig{}, "/ping", 200, 0},
		"nothing else":                       {engine.ServerConfig{}, "/v1/embeddings", 404, 0},
		"a router knows of processes, not of their progress": {engine.ServerConfig{Engine: func() engine.Config { c := wedged; c.Router = &engine.Router{}; return c }()}, "/health", 200, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, tt.cfg, func(t *testing.T, u user) {
				r := u.get(engine.Front, tt.path)
				require.NoError(t, r.err)
				assert.Equal(t, tt.status, r.status)
				assert.Equal(t, tt.took, r.took)
			})
		})
	}
	t.Run("busy is healthy, whoever made the token", func(t *testing.T) {
		cfg := exact()
		cfg.Slots = 1
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				u.do(ctx, http.MethodPost, u.BaseURL()+"/chat/completions", strings.Replace(body(""), `"3"`, `"100000"`, 1))
			})
			time.Sleep(time.Second)
			r := u.get(engine.Front, "/health")
			assert.Equal(t, []any{200, time.Second}, []any{r.status, r.took})
			assert.Equal(t, 1, u.Stats(engine.Decode).Queue, "the probe's own request waits in the queue")
			cancel()
			wg.Wait()
		})
	})
	t.Run("probes of a wedged scheduler pile up and stand in no record", func(t *testing.T) {
		inMemory(t, engine.ServerConfig{Engine: wedged}, func(t *testing.T, u user) {
			for range 2 {
				assert.Equal(t, 503, u.get(engine.Front, "/health").status)
			}
			assert.Equal(t, 2, u.Live())
			time.Sleep(30 * time.Second)
			synctest.Wait()
			assert.Equal(t, 0, u.Live())
			assert.Zero(t, u.Record().Total.Ended())
			assert.Zero(t, u.Front().Requests)
		})
	})
}

var metricLine = regexp.MustCompile(`^(# (HELP|TYPE) [a-z0-9_:]+ .+|[a-z0-9_:]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [-+.eInf0-9]+)$`)

// metric returns the value of a series on a page, by its beginning.
func metric(t *testing.T, page, series string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), series); ok && (rest[0] == ' ' || rest[0] == '{' || series[len(series)-1] == '"') {
			return rest[strings.LastIndexByte(rest, ' ')+1:]
		}
	}
	t.Errorf("no %s on the page", series)
	return ""
}

func TestMetrics(t *testing.T) {
	split := exact()
	split.Split = &engine.Split{Base: 3 * ms, PerToken: -1}
	tests := map[string]struct {
		cfg   engine.ServerConfig
		side  engine.Side
		names map[string]string // series after one answer of 3 tokens to a prompt of 20
	}{
		"sglang, unified": {
			engine.ServerConfig{Engine: exact()}, engine.Front,
			map[string]string{
				`sglang:num_running_reqs{engine_type="unified",model_name="sim-model",moe_ep_rank="0",pp_rank="0",tp_rank="0"`: "0",
				"sglang:num_queue_reqs": "0", "sglang:num_retracted_reqs": "0", "sglang:token_usage": "0", "sglang:full_token_usage": "0",
				"sglang:num_used_tokens": "0", "sglang:max_total_num_tokens": "1e+06", "sglang:gen_throughput": "0", "sglang:cache_hit_rate": "0",
				"sglang:num_requests_total": "1", "sglang:num_aborted_requests_total": "0", "sglang:num_retracted_requests_total": "0",
				"sglang:prompt_tokens_total": "20", "sglang:generation_tokens_total": "3", "sglang:cached_tokens_total": "0",
				"sglang:realtime_tokens_total": "20", "sglang:time_to_first_token_seconds_count": "1",
				"sglang:time_to_first_token_seconds_bucket": "1", "sglang:inter_token_latency_seconds_count": "2",
				"sglang:e2e_request_latency_seconds_count": "1", "sglang:queue_time_seconds_count": "1",
				"process_start_time_seconds": "9.466848e+08",
			},
		},
		"sglang, prefill": {
			engine.ServerConfig{Engine: split}, engine.Prefill,
			map[string]string{
				`sglang:num_running_reqs{engine_type="prefill"`: "0", "sglang:num_prefill_bootstrap_queue_reqs": "0",
				"sglang:num_prefill_inflight_queue_reqs": "0", "sglang:num_bootstrap_failed_reqs_total": "0",
				"sglang:num_transfer_failed_reqs_total": "0", "sglang:prompt_tokens_total": "20", "sglang:generation_tokens_total": "0",
			},
		},
		"sglang, decode": {
			engine.ServerConfig{Engine: split}, engine.Decode,
			map[string]string{
				`sglang:num_running_reqs{engine_type="decode"`: "0", "sglang:num_decode_prealloc_queue_reqs": "0",
				"sglang:num_decode_transfer_queue_reqs": "0", "sglang:generation_tokens_total": "3",
				"sglang:kv_transfer_latency_ms_sum": "3",
			},
		},
		"router": {
			engine.ServerConfig{Engine: split}, engine.Front,
			map[string]string{
				"smg_http_requests_total": "1", "smg_router_requests_total": "1", "smg_router_request_errors_total": "0",
				`smg_http_responses_total{path="/v1/chat/completions",status_code="200"`: "1", "smg_worker_pool_size": "2",
				"smg_worker_health": "1", "smg_worker_requests_active": "0", "smg_engine_running_requests": "0",
				"smg_engine_waiting_requests": "0", "smg_pd_bootstrap_failures_total": "0", "smg_pd_kv_transfer_failures_total": "0",
			},
		},
		"vllm": {
			engine.ServerConfig{Engine: exact(), Dialect: engine.VLLM}, engine.Front,
			map[string]string{
				`vllm:num_requests_running{engine="0",model_name="sim-model"`: "0", "vllm:num_requests_waiting": "0",
				"vllm:num_requests_waiting_by_reason": "0", "vllm:kv_cache_usage_perc": "0", "vllm:num_preemptions_total": "0",
				"vllm:prompt_tokens_total": "20", "vllm:generation_tokens_total": "3", "vllm:prefix_cache_queries_total": "20",
				"vllm:prefix_cache_hits_total": "0", "vllm:request_success_total": "1", "vllm:admission_rejections_total": "0",
				"vllm:time_to_first_token_seconds_count": "1", "vllm:inter_token_latency_seconds_count": "2",
				"vllm:e2e_request_latency_seconds_count": "1", "vllm:request_queue_time_seconds_count": "1",
				"vllm:request_prefill_time_seconds_count": "1", "vllm:request_decode_time_seconds_count": "1",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, tt.cfg, func(t *testing.T, u user) {
				require.Equal(t, 200, u.ask(body(`"stream":true,`)).status)
				r := u.get(tt.side, "/metrics")
				require.NoError(t, r.err)
				assert.Equal(t, "text/plain; version=0.0.4; charset=utf-8", r.header.Get("Content-Type"))
				for line := range strings.Lines(r.body) {
					assert.Regexp(t, metricLine, strings.TrimSuffix(line, "\n"))
				}
				for series, want := range tt.names {
					assert.Equal(t, want, metric(t, r.body, series), series)
				}
			})
		})
	}
	t.Run("buckets add up", func(t *testing.T) {
		inMemory(t, engine.ServerConfig{Engine: exact(), NoStartTime: true}, func(t *testing.T, u user) {
			require.Equal(t, 200, u.ask(body("")).status)
			page := u.get(engine.Front, "/metrics").body
			assert.NotContains(t, page, "process_start_time_seconds")
			const itl = `sglang:inter_token_latency_seconds_bucket{engine_type="unified",model_name="sim-model",moe_ep_rank="0",pp_rank="0",tp_rank="0",le="`
			assert.Equal(t, "0", metric(t, page, itl+`0.01"`))
			assert.Equal(t, "2", metric(t, page, itl+`0.015"`))
			assert.Equal(t, "2", metric(t, page, itl+`+Inf"`))
		})
	})
	t.Run("all sides through the router", func(t *testing.T) {
		inMemory(t, engine.ServerConfig{Engine: split}, func(t *testing.T, u user) {
			page := u.get(engine.Front, "/engine_metrics").body
			assert.Contains(t, page, `engine_type="prefill"`)
			assert.Contains(t, page, `engine_type="decode"`)
			assert.Equal(t, 1, strings.Count(page, "# TYPE sglang:num_running_reqs gauge"))
		})
	})
}

// The table of the design: what each service shows on that night.
func TestTheNight(t *testing.T) {
	cfg, err := engine.Setting("partial-restart", 1)
	require.NoError(t, err)
	inMemory(t, engine.ServerConfig{Engine: cfg, PlainHealth: true}, func(t *testing.T, u user) {
		assert.Equal(t, 200, u.ask(body("")).status)
		time.Sleep(engine.ChangeAt + time.Minute - u.Now())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				r := u.do(ctx, http.MethodPost, u.BaseURL()+"/chat/completions", body(fmt.Sprintf(`"user":"%d","stream":true,`, i)))
				assert.ErrorIs(t, r.err, context.Canceled)
			})
		}
		for range 3 {
			time.Sleep(time.Minute)
			pre, dec := u.get(engine.Prefill, "/metrics").body, u.get(engine.Decode, "/metrics").body
			assert.Equal(t, "10", metric(t, pre, "sglang:num_prefill_inflight_queue_reqs"))
			assert.Equal(t, "0", metric(t, pre, "sglang:num_running_reqs"))
			assert.Equal(t, "0", metric(t, dec, "sglang:num_running_reqs"))
			assert.Equal(t, "0", metric(t, dec, "sglang:generation_tokens_total"))
			assert.Equal(t, "0", metric(t, dec, "sglang:num_transfer_failed_reqs_total"))
			for _, side := range []engine.Side{engine.Front, engine.Prefill, engine.Decode} {
				assert.Equal(t, 200, u.get(side, "/health").status)
			}
		}
		cancel()
		wg.Wait()
	})
}
