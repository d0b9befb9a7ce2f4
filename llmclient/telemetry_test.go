package llmclient_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// A recorder is a TracerProvider that keeps what it is told.
type recorder struct {
	noop.TracerProvider
	mu    sync.Mutex
	spans []*span
}

type span struct {
	noop.Span
	mu     sync.Mutex
	name   string
	parent string
	attrs  map[attribute.Key]attribute.Value
	status codes.Code
	ended  int
}

type parentKey struct{}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{rec: r} }

type tracer struct {
	noop.Tracer
	rec *recorder
}

func (t tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	s := &span{name: name, attrs: map[attribute.Key]attribute.Value{}}
	if p, ok := ctx.Value(parentKey{}).(string); ok {
		s.parent = p
	}
	cfg := trace.NewSpanStartConfig(opts...)
	s.SetAttributes(cfg.Attributes()...)
	t.rec.mu.Lock()
	t.rec.spans = append(t.rec.spans, s)
	t.rec.mu.Unlock()
	return context.WithValue(ctx, parentKey{}, name), s
}

func (s *span) IsRecording() bool { return true }
func (s *span) SetAttributes(kv ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range kv {
		s.attrs[a.Key] = a.Value
	}
}
func (s *span) SetStatus(c codes.Code, _ string) { s.status = c }
func (s *span) End(...trace.SpanEndOption)       { s.ended++ }

func TestSpansEndOnceOnEveryWayOut(t *testing.T) {
	cancelled := func(c *llmclient.Client, ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for range c.Stream(ctx, hello()).All() {
			cancel()
		}
	}
	tests := map[string]struct {
		reply  fake.Step
		use    func(c *llmclient.Client, ctx context.Context)
		status codes.Code
		kind   string
	}{
		"read to the end": {fake.Answer("a b c"), func(c *llmclient.Client, ctx context.Context) {
			for range c.Stream(ctx, hello()).All() {
			}
		}, codes.Unset, ""},
		"Chat": {fake.Answer("a b c"), func(c *llmclient.Client, ctx context.Context) { _, _ = c.Chat(ctx, hello()) }, codes.Unset, ""},
		"break": {fake.Answer("a b c"), func(c *llmclient.Client, ctx context.Context) {
			for range c.Stream(ctx, hello()).All() {
				break
			}
		}, codes.Error, "closed"},
		"cancel":     {fake.Endless(time.Second), cancelled, codes.Error, "canceled"},
		"read error": {fake.Reply(fake.Text("a"), fake.Cut()), func(c *llmclient.Client, ctx context.Context) { _, _ = read(c.Stream(ctx, hello())) }, codes.Error, "incomplete"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{}
			inWorld(t, script(tc.reply), func(c *llmclient.Config) { c.TracerProvider = rec; c.APIKey = "sk-secret-key" }, func(t *testing.T, w *world) {
				tc.use(w.client, t.Context())
			})
			require.Len(t, rec.spans, 2)
			call, attempt := rec.spans[0], rec.spans[1]
			assert.Equal(t, "chat test-model", call.name)
			assert.Equal(t, call.name, attempt.parent)
			for _, s := range rec.spans {
				assert.Equal(t, 1, s.ended, s.name)
				assert.Equal(t, tc.status, s.status, s.name)
				assert.Equal(t, tc.kind, s.attrs["error.type"].AsString())
				for k, v := range s.attrs {
					assert.NotContains(t, v.String(), "sk-secret-key", k)
					assert.NotContains(t, v.String(), "hello", "prompts are in no trace")
				}
			}
			assert.Equal(t, "chat", call.attrs["gen_ai.operation.name"].AsString())
		})
	}
}

func TestUsageInSpansIsTheServersOrNone(t *testing.T) {
	rec := &recorder{}
	inWorld(t, script(fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Usage(14, 42), fake.Done()), fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.Done())),
		func(c *llmclient.Config) { c.TracerProvider = rec }, func(t *testing.T, w *world) {
			for range 2 {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			}
		})
	assert.EqualValues(t, 14, rec.spans[0].attrs["gen_ai.usage.input_tokens"].AsInt64())
	assert.EqualValues(t, 42, rec.spans[0].attrs["gen_ai.usage.output_tokens"].AsInt64())
	assert.NotContains(t, rec.spans[2].attrs, attribute.Key("gen_ai.usage.input_tokens"))
}

func TestEachAttemptIsASpanBelowTheCall(t *testing.T) {
	rec := &recorder{}
	inWorld(t, script(fake.Unavailable(), fake.Throttled(), fake.Answer("ok")), func(c *llmclient.Config) { c.TracerProvider = rec }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
	})
	require.Len(t, rec.spans, 4)
	assert.Equal(t, codes.Unset, rec.spans[0].status, "what was recovered from is no error of the call")
	assert.NotContains(t, rec.spans[0].attrs, attribute.Key("error.type"))
	assert.EqualValues(t, 3, rec.spans[0].attrs["neverhang.attempts"].AsInt64())
	assert.EqualValues(t, 503, rec.spans[1].attrs["http.response.status_code"].AsInt64())
	assert.EqualValues(t, 2, rec.spans[3].attrs["http.request.resend_count"].AsInt64())
}

// Nothing that this package prints or exports holds a key, even if the provider
// repeats it.
func TestKeysAreNowhere(t *testing.T) {
	const key, extra = "sk-very-secret-0001", "other-secret-0002"
	rec := &recorder{}
	reply := fake.Error(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: "+key+", header "+extra)
	var cfg llmclient.Config
	inWorld(t, script(reply), func(c *llmclient.Config) {
		c.APIKey = key
		c.Header = map[string][]string{"X-Api-Key": {extra}}
		c.TracerProvider = rec
		c.BaseURL += "?key=" + key
		cfg = *c
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("my prompt")}})
		e := failure(t, err, llmclient.ErrAuth)
		shown := format(err, *e, e, e.Attempts, w.events, w.client.Breaker(), w.client.InFlight(), w.client, cfg, &cfg, w.client.Stream(t.Context(), hello()))
		for _, s := range rec.spans {
			shown += format(s.attrs)
		}
		for _, secret := range []string{key, extra, "my prompt"} {
			assert.False(t, strings.Contains(shown, secret), secret)
		}
		r := w.srv.Requests()[0]
		assert.Equal(t, "Bearer "+key, r.Header.Get("Authorization"))
		assert.Equal(t, extra, r.Header.Get("X-Api-Key"))
	})
}

func TestAKeyInTheClearIsToldOnce(t *testing.T) {
	for base, want := range map[string]int{
		"http://model.test/v1": 1, "http://10.0.0.7:8000/v1": 1, "https://model.test/v1": 0,
		"http://localhost:8000/v1": 0, "http://127.0.0.1:8000/v1": 0, "http://[::1]:8000/v1": 0, "http://[::ffff:127.0.0.1]/v1": 0,
	} {
		for key, keyed := range map[string]int{"sk-secret": 1, "": 0} {
			told := 0
			c, err := llmclient.New(llmclient.Config{BaseURL: base, APIKey: key, OnEvent: func(e llmclient.Event) {
				if e.Kind == llmclient.EventInsecure {
					told++
					assert.NotContains(t, e.Text, "sk-secret")
				}
			}})
			require.NoError(t, err)
			assert.Equal(t, want*keyed, told, base)
			require.NoError(t, c.Close())
		}
	}
}

// A tracer that panics costs no call its answer, and no endpoint its permit.
func TestATracerThatPanics(t *testing.T) {
	for name, p := range map[string]brokenTracing{"at the start": {start: true}, "at the end": {end: true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Unavailable(), fake.Answer("ok")), func(c *llmclient.Config) { c.TracerProvider = p }, func(t *testing.T, w *world) {
				for range 3 {
					_, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
				}
				require.NoError(t, w.client.Close())
				w.elapsed(500 * time.Millisecond)
			})
		})
	}
}

type brokenTracing struct {
	noop.TracerProvider
	start, end bool
}

func (b brokenTracing) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return brokenTracer{broken: b}
}

type brokenTracer struct {
	noop.Tracer
	broken brokenTracing
}

func (b brokenTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if b.broken.start {
		panic("broken")
	}
	return ctx, brokenSpan{}
}

type brokenSpan struct{ noop.Span }

func (brokenSpan) IsRecording() bool          { return true }
func (brokenSpan) End(...trace.SpanEndOption) { panic("broken") }
