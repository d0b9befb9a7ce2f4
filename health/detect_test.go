package health_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// site answers requests by their path, and keeps them.
type site struct {
	pages map[string]string // by path; a status of another kind in front: "503 text"
	mu    sync.Mutex
	asked []*http.Request
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	rec := httptest.NewRecorder()
	body, there := s.pages[r.URL.Path]
	switch {
	case !there:
		rec.WriteHeader(http.StatusNotFound)
	case strings.HasPrefix(body, "503 "):
		rec.WriteHeader(http.StatusServiceUnavailable)
	default:
		_, _ = rec.WriteString(body)
	}
	return rec.Result(), nil
}

func (s *site) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.asked {
		out = append(out, r.URL.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func recorded(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(b)
}

// costly are questions that make tokens, cost money or abort something.
var costly = []string{"/health_generate", "/generate", "/v1/chat/completions", "/v1/completions", "/flush_cache", "/abort_request"}

func TestDetect(t *testing.T) {
	models := func(owner string) string {
		return `{"object":"list","data":[{"id":"qwen3-235b","object":"model","owned_by":"` + owner + `"}]}`
	}
	tests := map[string]struct {
		url   string
		pages map[string]string
		want  health.Server
		never []string // questions that must not be asked of this one
	}{
		"SGLang": {
			"http://gpu:30000", map[string]string{
				"/metrics": recorded(t, "sglang-unified.txt"), "/v1/models": models("sglang"),
				"/server_info": `{"version":"0.5.9","attention_backend":"fa3","api_key":"sk-abc","nested":{"tp_size":8,"list":["a",1]},"none":null}`,
				"/model_info":  `{"model_path":"/models/qwen3"}`,
			},
			health.Server{
				Kind: health.KindSGLang, Role: health.RoleUnified, Version: "0.5.9", Metrics: true, Models: []string{"qwen3-235b"},
				Started: time.Unix(1_790_000_000, 0).UTC(),
				Labels:  map[string]string{"model_name": "qwen3-235b"},
				Info: map[string]string{
					"version": "0.5.9", "attention_backend": "fa3", "api_key": "(hidden)", "nested.tp_size": "8",
					"nested.list.0": "a", "nested.list.1": "1", "none": "null", "model_path": "/models/qwen3",
				},
			}, []string{"/health"},
		},
		"SGLang, the prefill side": {
			"http://gpu:30000/v1", map[string]string{"/metrics": recorded(t, "sglang-prefill.txt"), "/v1/models": models("sglang")},
			health.Server{Kind: health.KindSGLang, Role: health.RolePrefill, Metrics: true, Models: []string{"qwen3-235b"}}, []string{"/health"},
		},
		"SGLang, two roles on one page": {
			"http://gpu:30000/v1", map[string]string{
				"/metrics":   "sglang:num_running_reqs{engine_type=\"decode\"} 3\nsglang:num_running_reqs{engine_type=\"prefill\"} 5\n",
				"/v1/models": models("sglang"),
			},
			health.Server{Kind: health.KindSGLang, Role: health.RoleUnified, Metrics: true, Models: []string{"qwen3-235b"}}, []string{"/health"},
		},
		"SGLang, without metrics, older": {
			"http://gpu:30000/v1/", map[string]string{
				"/v1/models":       models("sglang"),
				"/get_server_info": `{"version":"0.4.1","disaggregation_mode":"decode"}`,
			},
			health.Server{Kind: health.KindSGLang, Role: health.RoleDecode, Version: "0.4.1", Models: []string{"qwen3-235b"}}, []string{"/health"},
		},
		"SGLang's gateway, whose metrics are elsewhere": {
			"http://gw:8000/v1", map[string]string{
				"/v1/models": models("sglang"),
				"/workers":   `{"workers":[{"url":"http://10.0.0.1:30000","worker_type":"prefill","is_healthy":true},{"url":"http://10.0.0.2:30000","worker_type":"decode","is_healthy":false},{"url":"http://10.0.0.3:30000","worker_type":"regular"}]}`,
			},
			health.Server{
				Kind: health.KindGateway, Role: health.RoleRouter, Models: []string{"qwen3-235b"},
				Workers: []health.Worker{
					{URL: "http://10.0.0.1:30000", Role: health.RolePrefill, Healthy: true}, {URL: "http://10.0.0.2:30000", Role: health.RoleDecode},
					{URL: "http://10.0.0.3:30000", Role: health.RoleUnified},
				},
			}, []string{"/health"},
		},
		"vLLM": {
			"http://gpu:8000", map[string]string{"/metrics": recorded(t, "vllm.txt"), "/v1/models": models("vllm"), "/version": `{"version":"0.32.0"}`},
			health.Server{
				Kind: health.KindVLLM, Role: health.RoleUnified, Version: "0.32.0", Metrics: true, Models: []string{"qwen3-235b"},
				Started: time.Unix(1_790_000_000, 0).UTC(), Info: map[string]string{"version": "0.32.0"},
			}, nil,
		},
		"llama.cpp": {
			"http://laptop:8080", map[string]string{"/v1/models": models("llamacpp"), "/props": `{"total_slots":4,"build_info":"b7200-abc"}`},
			health.Server{Kind: health.KindLlamaCPP, Role: health.RoleUnified, Version: "b7200-abc", Models: []string{"qwen3-235b"}}, nil,
		},
		"Ollama": {
			"http://laptop:11434", map[string]string{"/v1/models": models("library"), "/api/version": `{"version":"0.17.4"}`},
			health.Server{Kind: health.KindOllama, Role: health.RoleUnified, Version: "0.17.4", Models: []string{"qwen3-235b"}}, nil,
		},
		"TGI": {
			"http://gpu:8080", map[string]string{"/info": `{"model_id":"qwen","version":"3.3.0","max_total_tokens":4096}`},
			health.Server{Kind: health.KindTGI, Role: health.RoleUnified, Version: "3.3.0"}, []string{"/health"},
		},
		"LiteLLM, whose /health costs money": {
			"http://proxy:4000", map[string]string{"/v1/models": models("openai"), "/health/liveliness": `"I'm alive!"`, "/health/readiness": `{"status":"healthy","db":"connected","litellm_version":"1.99.0"}`},
			health.Server{Kind: health.KindLiteLLM, Role: health.RoleUnified, Version: "1.99.0", Models: []string{"qwen3-235b"}}, []string{"/health"},
		},
		"OpenRouter, known by its name": {
			"https://openrouter.ai/api/v1", map[string]string{"/api/v1/models": models("someone")},
			health.Server{Kind: health.KindOpenRouter, Models: []string{"qwen3-235b"}}, []string{"/metrics", "/health", "/props"},
		},
		"something that speaks the dialect": {
			"http://somewhere/llm/v1", map[string]string{"/llm/v1/models": models("me")},
			health.Server{Kind: health.KindCompatible, Role: health.RoleUnified, Models: []string{"qwen3-235b"}}, []string{"/health", "/metrics"},
		},
		"a web page for everything": {
			"http://somewhere", map[string]string{"/metrics": "<html>", "/v1/models": "<html>", "/workers": "<html>", "/version": "[]", "/props": "null"},
			health.Server{Role: health.RoleUnified}, []string{"/health"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &site{pages: tt.pages}
			got, err := health.Detect(t.Context(), health.Target{URL: tt.url}, &http.Client{Transport: s})
			require.NoError(t, err)
			assert.Equal(t, tt.want.Kind, got.Kind)
			assert.Equal(t, tt.want.Role, got.Role)
			assert.Equal(t, tt.want.Version, got.Version)
			assert.Equal(t, tt.want.Models, got.Models)
			assert.Equal(t, tt.want.Metrics, got.Metrics)
			assert.Equal(t, tt.want.Workers, got.Workers)
			if !tt.want.Started.IsZero() {
				assert.Equal(t, tt.want.Started, got.Started)
			}
			if tt.want.Info != nil {
				assert.Equal(t, tt.want.Info, got.Info)
			}
			for k, v := range tt.want.Labels {
				assert.Equal(t, v, got.Labels[k], k)
			}
			for _, path := range append(tt.never, costly...) {
				assert.NotContains(t, s.paths(), path)
			}
			for _, r := range s.asked {
				assert.Equal(t, http.MethodGet, r.Method)
			}
			assert.LessOrEqual(t, len(s.asked), 12)
		})
	}
	t.Run("a bad target is named", func(t *testing.T) {
		for url, want := range map[string]string{
			"":                       "health: Targets[0].URL is empty, want an address as http://localhost:30000",
			"localhost:30000":        `health: Targets[0].URL has the scheme "localhost", want http or https`,
			"http://":                "health: Targets[0].URL names no host",
			"http://u:p@host":        "health: Targets[0].URL has a user and password in it; use APIKey or Header",
			"http://host\x7f":        "health: Targets[0].URL cannot be parsed, want an address as http://localhost:30000",
			"ftp://host/v1?key=abcd": `health: Targets[0].URL has the scheme "ftp", want http or https`,
		} {
			_, err := health.Detect(t.Context(), health.Target{URL: url}, nil)
			assert.EqualError(t, err, want, "%q", url)
		}
	})
}

// With a server that does not answer Detect takes the time of one question, or ends
// with its context.
func TestDetectEnds(t *testing.T) {
	silent := engine.Config{Changes: []engine.Change{{Kind: engine.Silent}}}
	wedged := engine.Config{Changes: []engine.Change{{Kind: engine.Wedge}}}
	tests := map[string]struct {
		cfg    engine.Config
		limit  time.Duration
		took   time.Duration
		kind   health.Kind
		path   string
		reach  health.Reach
		status int
	}{
		"silent":                              {silent, time.Hour, 3 * time.Second, health.KindUnknown, "/metrics", health.ReachSilent, 0},
		"a caller who leaves":                 {silent, time.Second, time.Second, health.KindUnknown, "/metrics", health.ReachSilent, 0},
		"a scheduler that stands still":       {wedged, time.Hour, 3 * time.Second, health.KindSGLang, "/server_info", health.ReachSilent, 0},
		"one that does not: at once":          {engine.Config{}, time.Hour, 0, health.KindSGLang, "/server_info", health.ReachAnswered, 200},
		"what hangs does not hide the others": {wedged, time.Hour, 3 * time.Second, health.KindSGLang, "/model_info", health.ReachAnswered, 200},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := engine.Start(engine.ServerConfig{Engine: tt.cfg})
				require.NoError(t, err)
				defer c.Close()
				tr := c.Transport()
				defer tr.CloseIdleConnections()
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				start := time.Now()
				got, err := health.Detect(ctx, health.Target{URL: c.BaseURL()}, &http.Client{Transport: tr})
				require.NoError(t, err)
				assert.Equal(t, tt.took, time.Since(start))
				assert.Equal(t, tt.kind, got.Kind)
				for _, q := range got.Asked {
					if q.Path == tt.path {
						assert.Equal(t, []any{tt.reach, tt.status}, []any{q.Reach, q.Status})
						return
					}
				}
				t.Errorf("%s was not asked: %v", tt.path, got.Asked)
			})
		})
	}
}

// detected is what is found out about a server with these pages.
func detected(t *testing.T, p pages) (got health.Server, asked *asker) {
	t.Helper()
	asked = &asker{}
	synctest.Test(t, func(t *testing.T) {
		srv := fakeserver.New(fakeserver.Config{Handler: p})
		defer srv.Close()
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		asked.RoundTripper = tr
		var err error
		got, err = health.Detect(t.Context(), health.Target{URL: "http://model.test"}, &http.Client{Transport: asked})
		require.NoError(t, err)
	})
	return got, asked
}

// What is kept of what a server tells is bounded, and may be wrong.
func TestDetectKeepsWhatMakesSense(t *testing.T) {
	const page = "sglang:num_running_reqs{model_name=\"m\"} 1\n"
	filler := func(n int) string {
		return "sglang:other 1\n" + strings.Repeat("# HELP go_gc_duration_seconds what nobody asked for\n", n/51)
	}
	t.Run("a page of metrics of some megabytes is read", func(t *testing.T) {
		got, _ := detected(t, pages{"/metrics": text(filler(3<<20) + page)})
		assert.Equal(t, "m", got.Labels["model_name"])
	})
	t.Run("and what stands beyond eight is not", func(t *testing.T) {
		got, _ := detected(t, pages{"/metrics": text(filler(9<<20) + page)})
		assert.Equal(t, health.KindSGLang, got.Kind)
		assert.Empty(t, got.Labels)
	})
	t.Run("other answers are read up to one", func(t *testing.T) {
		got, _ := detected(t, pages{"/metrics": text(page), "/server_info": text(`{"version":"1","pad":"` + strings.Repeat("x", 1<<20) + `"}`)})
		assert.Empty(t, got.Info)
	})
	for name, tt := range map[string]struct {
		started string
		ahead   time.Duration // the server's clock
		want    time.Time
	}{
		"a time":                             {"1790000000", 0, time.Unix(1_790_000_000, 0).UTC()},
		"milliseconds are none":              {"1790000000000", 0, time.Time{}},
		"by a clock that is an hour ahead":   {"1790003600", time.Hour, time.Unix(1_790_000_000, 0).UTC()},
		"by a clock that is a minute behind": {"1789999940", -time.Minute, time.Unix(1_790_000_000, 0).UTC()},
		"dates are in seconds, and late":     {"1790000000", 5 * time.Second, time.Unix(1_790_000_000, 0).UTC()},
	} {
		t.Run("the start of its process: "+name, func(t *testing.T) {
			got, _ := detected(t, pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(tt.ahead).UTC().Format(http.TimeFormat))
				text(page+"process_start_time_seconds "+tt.started+"\n")(w, r)
			}})
			assert.Equal(t, tt.want, got.Started)
		})
	}
	t.Run("many models, settings and workers", func(t *testing.T) {
		var models, settings, workers []string
		for i := range 5000 {
			models = append(models, fmt.Sprintf(`{"id":"m%d"}`, i))
			settings = append(settings, fmt.Sprintf(`"s%d":%d`, i, i))
			workers = append(workers, fmt.Sprintf(`{"url":"http://10.0.0.1:%d"}`, i))
		}
		got, _ := detected(t, pages{
			"/v1/models": text(`{"data":[` + strings.Join(models, ",") + `]}`), "/version": text(`{"version":"1",` + strings.Join(settings, ",") + `}`),
			"/workers": text(`{"workers":[` + strings.Join(workers, ",") + `]}`),
			"/props":   text(`{"total_slots":1,"z":{` + strings.Join(settings, ",") + `}}`),
		})
		assert.Len(t, got.Models, 100)
		assert.Len(t, got.Workers, 32)
		assert.LessOrEqual(t, len(got.Info), 2000)
	})
	t.Run("secrets", func(t *testing.T) {
		got, _ := detected(t, pages{
			"/metrics": text("smg_http_connections_active{api_key=\"hunter2\",proxy=\"http://u:hunter2@h\"} 1\n"),
			"/workers": text(`{"workers":[{"url":"http://u:hunter2@10.0.0.1:30000"}]}`),
		})
		b, err := json.Marshal(got)
		require.NoError(t, err)
		assert.Len(t, got.Workers, 1)
		assert.Len(t, got.Labels, 2)
		assert.NotContains(t, string(b), "hunter2")
	})
	t.Run("no question is asked twice", func(t *testing.T) {
		_, asked := detected(t, pages{"/v1/models": text(`{"data":[]}`), "/props": text(`{"total_slots":1}`)})
		for _, q := range asked.list {
			assert.Equal(t, 1, asked.count(q), q)
		}
	})
}

// An answer that ends before its end is none.
func TestAnswersThatBreakOff(t *testing.T) {
	for name, tt := range map[string]struct {
		rest http.HandlerFunc
		want health.Reach
	}{
		"the rest does not come":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, health.ReachSilent},
		"the connection is reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, health.ReachBroken},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := detected(t, pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				text("sglang:num_running_reqs 1\n")(w, r)
				w.(http.Flusher).Flush()
				tt.rest(w, r)
			}})
			assert.False(t, got.Metrics)
			for _, q := range got.Asked {
				if q.Path == "/metrics" {
					assert.Equal(t, tt.want, q.Reach)
				}
			}
		})
	}
}

// With no client given, each question dials: a pooled connection may be dead.
func TestQuestionsDialAnew(t *testing.T) {
	var dialed, asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialed.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	for range 3 {
		_, err := health.Detect(t.Context(), health.Target{URL: srv.URL}, nil)
		require.NoError(t, err)
	}
	assert.Equal(t, asked.Load(), dialed.Load())
}
