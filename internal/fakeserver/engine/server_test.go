package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// a user is a client of a cluster.
type user struct {
	t *testing.T
	*engine.Cluster
	http *http.Client
}

// inMemory runs a test against a cluster in memory, in virtual time.
func inMemory(t *testing.T, cfg engine.ServerConfig, test func(t *testing.T, u user)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := engine.Start(cfg)
		require.NoError(t, err)
		defer c.Close()
		tr := c.Transport()
		defer tr.CloseIdleConnections()
		test(t, user{t, c, &http.Client{Transport: tr}})
	})
}

// reply is what came of a request.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
	took   time.Duration
}

func (u user) do(ctx context.Context, method, url, body string) reply {
	u.t.Helper()
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(u.t, err)
	resp, err := u.http.Do(req)
	if err != nil {
		return reply{err: err, took: time.Since(start)}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err, time.Since(start)}
}

func (u user) ask(body string) reply {
	u.t.Helper()
	return u.do(u.t.Context(), http.MethodPost, u.BaseURL()+"/chat/completions", body)
}

func (u user) get(side engine.Side, path string) reply {
	u.t.Helper()
	return u.do(u.t.Context(), http.MethodGet, u.URL(side)+path, "")
}

// body is a request of 20 tokens of prompt; more are its further fields.
func body(more string) string {
	return `{"model":"m",` + more + `"metadata":{"output_tokens":"3","prompt_tokens":"20"},"messages":[{"role":"user","content":"hi"}]}`
}

// decoded reads an answer, streamed or plain, as the library does.
func decoded(t *testing.T, body string) *chat.Response {
	t.Helper()
	var whole chat.Assembler
	for line := range strings.Lines(body) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var ch chat.Chunk
		require.NoError(t, json.Unmarshal([]byte(line), &ch))
		whole.Add(&ch)
	}
	return whole.Response()
}

func TestStream(t *testing.T) {
	inMemory(t, engine.ServerConfig{Engine: exact()}, func(t *testing.T, u user) {
		r := u.ask(body(`"stream":true,"stream_options":{"include_usage":true},`))
		require.NoError(t, r.err)
		assert.Equal(t, 200, r.status)
		assert.Equal(t, "text/event-stream", r.header.Get("Content-Type"))
		// Front end, prompt, two tokens more.
		assert.Equal(t, (1+30+11+11)*ms, r.took)
		id := regexp.MustCompile(`"id":"chatcmpl-[0-9a-f]+"`)
		assert.Equal(t, `data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[{"index":0,"delta":{"content":" steps"},"finish_reason":null}]}

data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[{"index":0,"delta":{"content":" waits"},"finish_reason":null}]}

data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[{"index":0,"delta":{"content":" done"},"finish_reason":null}]}

data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {ID,"object":"chat.completion.chunk","created":946684800,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

`, id.ReplaceAllString(r.body, "ID"))
	})
}

func TestPlain(t *testing.T) {
	inMemory(t, engine.ServerConfig{Engine: exact()}, func(t *testing.T, u user) {
		r := u.ask(body(`"max_tokens":2,`))
		require.NoError(t, r.err)
		assert.Equal(t, (1+30+11)*ms, r.took)
		got := decoded(t, r.body)
		assert.Equal(t, " steps waits", got.Message.Content, "the beginning of what is streamed")
		assert.Equal(t, chat.FinishReason("length"), got.FinishReason)
		assert.Equal(t, int64(2), got.Usage.CompletionTokens)

		// The same again: its prompt is known by now.
		r = u.ask(body(`"max_tokens":2,`))
		require.NoError(t, r.err)
		assert.Equal(t, (1+11+11)*ms, r.took)
		assert.Contains(t, r.body, `"cached_tokens":20`)
	})
}

func TestHeadersComeWithTheFirstTokenOrBefore(t *testing.T) {
	for early, want := range map[bool]time.Duration{false: 31 * ms, true: ms} {
		inMemory(t, engine.ServerConfig{Engine: exact(), EarlyHeaders: early}, func(t *testing.T, u user) {
			start := time.Now()
			resp, err := u.http.Post(u.BaseURL()+"/chat/completions", "application/json", strings.NewReader(body(`"stream":true,`)))
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Equal(t, want, time.Since(start), "early: %v", early)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
		})
	}
}

func TestRefusals(t *testing.T) {
	changed := func(kind engine.Kind) engine.Config {
		cfg := exact()
		cfg.Changes = []engine.Change{{Kind: kind}}
		return cfg
	}
	limited := exact()
	limited.Limits.Tokens = 21
	small := exact()
	small.Context = 20
	full := exact()
	full.Router = &engine.Router{InFlight: 1, Queue: 1}
	full.Changes = []engine.Change{{Kind: engine.Wedge, Side: engine.Front}}
	full.RetryAfter = 1500 * ms
	tests := map[string]struct {
		cfg    engine.Config
		before int // requests under way
		status int
		header string
		want   string
	}{
		"unavailable": {
			changed(engine.Unavailable), 0, 503, "",
			`{"error":{"message":"No worker is available.","type":"service_unavailable_error","param":null,"code":null}}`,
		},
		"no quota": {
			changed(engine.OutOfQuota), 0, 429, "",
			`{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
		},
		"rate limit": {
			limited, 1, 429, "55",
			`{"error":{"message":"Rate limit reached for tokens. Please try again in 54.285s.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`,
		},
		"too long": {
			small, 0, 400, "",
			`{"error":{"message":"The prompt has 20 tokens, more than fit.","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`,
		},
		"queue full": {
			full, 1, 503, "2",
			`{"error":{"message":"The request queue is full.","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, engine.ServerConfig{Engine: tt.cfg}, func(t *testing.T, u user) {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range tt.before {
					wg.Go(func() { u.do(ctx, http.MethodPost, u.BaseURL()+"/chat/completions", body("")) })
				}
				time.Sleep(ms)
				r := u.ask(body(""))
				cancel()
				wg.Wait()
				require.NoError(t, r.err)
				assert.Equal(t, tt.status, r.status)
				assert.Equal(t, tt.header, r.header.Get("Retry-After"))
				assert.Equal(t, tt.want, r.body)
				assert.Equal(t, ms, r.took)
			})
		})
	}
	for want, bad := range map[string]string{
		"body: unexpected end of JSON input": `{"model":`,
		"messages: want at least one":        `{"model":"m"}`,
	} {
		inMemory(t, engine.ServerConfig{}, func(t *testing.T, u user) {
			r := u.ask(bad)
			assert.Equal(t, 400, r.status)
			assert.Contains(t, r.body, want)
		})
	}
}

func TestAClientThatLeavesIsNoticedLate(t *testing.T) {
	for stream, late := range map[bool]time.Duration{true: 2 * time.Second, false: 4 * time.Second} {
		inMemory(t, engine.ServerConfig{Engine: exact()}, func(t *testing.T, u user) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			long := strings.Replace(body(fmt.Sprintf(`"stream":%v,`, stream)), `"3"`, `"100000"`, 1)
			r := u.do(ctx, http.MethodPost, u.BaseURL()+"/chat/completions", long)
			assert.ErrorIs(t, r.err, context.DeadlineExceeded)
			time.Sleep(late - 1)
			synctest.Wait()
			assert.Equal(t, 1, u.Live(), "stream: %v, a moment before", stream)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.Equal(t, 0, u.Live())
			assert.Equal(t, 1, u.Stats(engine.Decode).Aborted)
			assert.Equal(t, 1, u.Record().Total.Left)
			assert.Positive(t, u.Record().Total.WastedTokens)
		})
	}
}

func TestAProcessThatGoes(t *testing.T) {
	cfg := exact()
	cfg.Changes = []engine.Change{change(engine.Down, time.Second, 2*time.Second)}
	long := strings.Replace(body(`"stream":true,`), `"3"`, `"100000"`, 1)
	t.Run("breaks streams, refuses connections, and is back", func(t *testing.T) {
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			r := u.ask(long)
			assert.Error(t, r.err)
			assert.Contains(t, r.body, `"content":`)
			assert.Equal(t, time.Second, r.took)
			r = u.ask(body(""))
			assert.ErrorIs(t, r.err, syscall.ECONNREFUSED)
			time.Sleep(time.Second)
			assert.Equal(t, 200, u.ask(body("")).status)
			assert.Equal(t, 2*time.Second, u.Stats(engine.Decode).Started)
		})
	})
	t.Run("and closes connections that are idle", func(t *testing.T) {
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			assert.Equal(t, 200, u.ask(body("")).status)
			assert.Equal(t, 1, u.Net(engine.Front).Stats().Open)
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, 0, u.Net(engine.Front).Stats().Open)
		})
	})
	t.Run("behind a router it is an error", func(t *testing.T) {
		cfg := cfg
		cfg.Router = &engine.Router{}
		cfg.Changes = []engine.Change{{Kind: engine.Down, Side: engine.Decode, At: 10 * ms, Until: time.Second}}
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			r := u.ask(body(`"stream":true,`))
			require.NoError(t, r.err)
			assert.Equal(t, 502, r.status)
			assert.Equal(t, 10*ms, r.took)
			assert.Equal(t, 503, u.ask(body("")).status)
			assert.Equal(t, 503, u.get(engine.Front, "/readiness").status)
			assert.Equal(t, 200, u.get(engine.Front, "/liveness").status)
			assert.ErrorIs(t, u.get(engine.Decode, "/health").err, syscall.ECONNREFUSED)
		})
	})
	t.Run("behind a router in the middle of a stream it is an event", func(t *testing.T) {
		cfg := cfg
		cfg.Router = &engine.Router{}
		cfg.Changes = []engine.Change{{Kind: engine.Down, Side: engine.Decode, At: 35 * ms, Until: time.Second}}
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			r := u.ask(long)
			require.NoError(t, r.err)
			assert.Contains(t, r.body, "data: {\"error\":{\"message\":\"The worker went away.\",\"type\":\"INTERNAL_SERVER_ERROR\",\"param\":null,\"code\":502}}\n\ndata: [DONE]\n\n")
		})
	})
}

func TestSilence(t *testing.T) {
	cfg := exact()
	cfg.Changes = []engine.Change{change(engine.Silent, 0, time.Minute)}
	inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
		for _, path := range []string{"/chat/completions", "/models"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			method := map[string]string{"/models": http.MethodGet}[path]
			if method == "" {
				method = http.MethodPost
			}
			r := u.do(ctx, method, u.BaseURL()+path, body(""))
			cancel()
			assert.ErrorIs(t, r.err, context.DeadlineExceeded, path)
		}
		time.Sleep(40 * time.Second)
		assert.Equal(t, 200, u.ask(body("")).status)
	})
}

// An author's words and tool calls, at an engine's pace.
func TestAnswersOfAnAuthor(t *testing.T) {
	author := fakeserver.Author{Seed: 3}
	const ask = `{"model":"m",%s"messages":[{"role":"user","content":"Read messages 2 to 3."}],
		"tools":[{"type":"function","function":{"name":"read_message","parameters":{"type":"object","properties":{"index":{"type":"integer"}},"required":["index"]}}}]}`
	inMemory(t, engine.ServerConfig{Engine: exact(), Answer: author.Say}, func(t *testing.T, u user) {
		r := u.ask(fmt.Sprintf(ask, ""))
		require.NoError(t, r.err)
		plain := decoded(t, r.body)
		require.NotEmpty(t, plain.Message.ToolCalls)
		assert.Equal(t, "read_message", plain.Message.ToolCalls[0].Name)
		assert.JSONEq(t, `{"index":2}`, plain.Message.ToolCalls[0].Arguments)
		assert.Equal(t, chat.FinishReason("tool_calls"), plain.FinishReason)

		r = u.ask(fmt.Sprintf(ask, `"stream":true,`))
		require.NoError(t, r.err)
		got := decoded(t, r.body)
		assert.Equal(t, plain.Message.ToolCalls, got.Message.ToolCalls)
		assert.Equal(t, plain.Message.Content, got.Message.Content)
		assert.Equal(t, plain.Message.Reasoning, got.Message.Reasoning)
		assert.Equal(t, plain.FinishReason, got.FinishReason)
	})
}

// The same requests at the same times get the same answers at the same times,
// however the goroutines were scheduled.
func TestARunCanBeRepeated(t *testing.T) {
	run := func() (all []string) {
		cfg, err := engine.Setting("batch-cost", 5)
		require.NoError(t, err)
		cfg.Slots, cfg.Queue, cfg.KVTokens = 4, 8, 400
		cfg.Changes[0].At, cfg.Changes[0].Until = time.Second, 3*time.Second
		inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for agent := range 24 {
				wg.Go(func() {
					for call := range 4 {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						r := u.do(ctx, http.MethodPost, u.BaseURL()+"/chat/completions",
							fmt.Sprintf(`{"model":"m","user":"%d","stream":%v,"messages":[{"role":"user","content":"call %d"}]}`, agent, call%2 == 0, call))
						cancel()
						mu.Lock()
						all = append(all, fmt.Sprint(agent, call, r.status, r.took, len(r.body), u.Now()))
						mu.Unlock()
						time.Sleep(time.Duration(agent) * ms)
					}
				})
			}
			wg.Wait()
		})
		slices.Sort(all)
		return all
	}
	want := run()
	assert.Contains(t, strings.Join(want, "\n"), " 503 ")
	assert.Equal(t, want, run())
}

func TestOnLoopback(t *testing.T) {
	c, err := engine.Listen(engine.ServerConfig{Engine: engine.Config{
		Cost: engine.Cost{Step: ms, PerSequence: -1, PerPrompt: -1}, Split: &engine.Split{},
	}})
	require.NoError(t, err)
	defer c.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	n, reason, err := streamed(t.Context(), client, c.BaseURL(), body(`"stream":true,`))
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	assert.Equal(t, "stop", reason)
	for _, side := range []engine.Side{engine.Front, engine.Prefill, engine.Decode} {
		resp, err := client.Get(c.URL(side) + "/metrics")
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 200, resp.StatusCode)
	}
	resp, err := client.Get(c.URL(engine.Front) + "/workers")
	require.NoError(t, err)
	list, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Contains(t, string(list), c.URL(engine.Prefill), "the router tells where its workers are")
	tr := c.Transport()
	tr.DisableKeepAlives = true
	n, _, err = streamed(t.Context(), &http.Client{Transport: tr}, c.BaseURL(), body(`"stream":true,`))
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := engine.Start(engine.ServerConfig{Engine: exact()})
		require.NoError(t, err)
		tr := c.Transport()
		defer tr.CloseIdleConnections()
		u := user{t, c, &http.Client{Transport: tr}}
		var wg sync.WaitGroup
		wg.Go(func() {
			assert.Error(t, u.ask(strings.Replace(body(""), `"3"`, `"100000"`, 1)).err)
		})
		time.Sleep(time.Second)
		c.Close()
		c.Close()
		wg.Wait()
		assert.Error(t, u.get(engine.Front, "/health").err)
	})
}

func TestServerConfigSaysWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]engine.ServerConfig{
		`engine: Dialect is "x", want "sglang" or "vllm"`:               {Dialect: "x"},
		`engine: Dialect is "vllm", want "sglang" for Split and Router`: {Dialect: engine.VLLM, Engine: engine.Config{Router: &engine.Router{}}},
		`engine: Slots is -1, want 1 or more`:                           {Engine: engine.Config{Slots: -1}},
		`engine: Info: json: unsupported type: func()`:                  {Info: map[string]any{"a": func() {}}},
	} {
		_, err := engine.New(cfg)
		assert.EqualError(t, err, want)
		_, err = engine.Start(cfg)
		assert.EqualError(t, err, want)
	}
}
