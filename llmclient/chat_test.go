package llmclient_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestChatReturnsTheWholeAnswer(t *testing.T) {
	inWorld(t, script(fake.Reply(
		fake.Role(), fake.Reasoning("let me "), fake.Reasoning("think"), fake.Text("Hello"), fake.Text(", world"),
		fake.ToolDelta(0, "call_1", "look", ""), fake.ToolDelta(0, "", "", `{"at":`), fake.ToolDelta(0, "", "", `1}`),
		fake.Finish("tool_calls"), fake.Usage(7, 5), fake.Done(),
	)), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, "Hello, world", resp.Message.Content)
		assert.Equal(t, "let me think", resp.Message.Reasoning)
		assert.Equal(t, chat.FinishToolCalls, resp.FinishReason)
		require.Len(t, resp.Message.ToolCalls, 1)
		assert.Equal(t, chat.ToolCall{ID: "call_1", Type: "function", Name: "look", Arguments: `{"at":1}`}, resp.Message.ToolCalls[0])
		require.NotNil(t, resp.Usage)
		assert.EqualValues(t, 12, resp.Usage.TotalTokens)
		w.elapsed(0)

		reqs := w.srv.Requests()
		require.Len(t, reqs, 1)
		assert.True(t, reqs[0].Stream, "Chat streams on the wire")
		assert.True(t, reqs[0].IncludeUsage)
		assert.Equal(t, "test-model", reqs[0].Chat.Model)
	})
}

// Every way an answer can fail to be one: its kind, how often it is asked
// again, and what of it is kept.
func TestAnAnswerIsWholeOrAnError(t *testing.T) {
	tests := map[string]struct {
		reply    fake.Step
		kind     llmclient.Kind
		attempts int
		partial  string
	}{
		"no finish reason and no done":        {fake.Reply(fake.Text("half"), fake.Cut()), llmclient.ErrIncomplete, 4, "half"},
		"cut within a chunk":                  {fake.Reply(fake.Text("half"), fake.Abrupt()), llmclient.ErrIncomplete, 4, "half"},
		"reset after output":                  {fake.Reply(fake.Text("half"), fake.Pause(time.Millisecond), fake.Reset()), llmclient.ErrIncomplete, 4, "half"},
		"aborted by the server":               {fake.Reply(fake.Text("par"), fake.Finish("abort"), fake.Done()), llmclient.ErrAborted, 4, "par"},
		"finish reason error":                 {fake.Reply(fake.Text("par"), fake.Finish("error"), fake.Done()), llmclient.ErrAborted, 4, "par"},
		"out of resources":                    {fake.Reply(fake.Finish("insufficient_system_resource"), fake.Done()), llmclient.ErrAborted, 4, ""},
		"nothing at all":                      {fake.Reply(fake.Headers(), fake.Cut()), llmclient.ErrEmpty, 4, ""},
		"nothing but done":                    {fake.Done(), llmclient.ErrEmpty, 4, ""},
		"an empty list of choices":            {fake.JSON(`{"id":"1","choices":[]}`), llmclient.ErrEmpty, 4, ""},
		"broken JSON":                         {fake.Reply(fake.Text("a"), fake.Malformed()), llmclient.ErrMalformed, 4, "a"},
		"a web page":                          {fake.HTML(), llmclient.ErrMalformed, 4, ""},
		"JSON cut short":                      {fake.JSON(`{"choices":[{"message":{"content":"ha`), llmclient.ErrIncomplete, 4, ""},
		"less than the announced length":      {fake.Short(`{"choices":[{"message":{"content":"ha`), llmclient.ErrIncomplete, 4, ""},
		"error inside, retryable":             {fake.Reply(fake.ErrorInside(fake.ErrorOpenAI, 503, "queue full"), fake.Done()), llmclient.ErrServer, 4, ""},
		"error inside after text":             {fake.Reply(fake.Text("par"), fake.ErrorInside(fake.ErrorOpenAI, 503, "queue full")), llmclient.ErrServer, 4, "par"},
		"error inside as a named event":       {fake.ErrorInside(fake.ErrorAnthropic, 529, "overloaded"), llmclient.ErrServer, 4, ""},
		"error inside, flat and final":        {fake.ErrorInside(fake.ErrorFlat, 400, "bad"), llmclient.ErrRequest, 1, ""},
		"error inside beside a choice":        {fake.ErrorInside(fake.ErrorChoice, 502, "upstream"), llmclient.ErrServer, 4, ""},
		"error inside, by its status's name":  {fake.ErrorInside(fake.ErrorNamed, 503, "busy"), llmclient.ErrServer, 4, ""},
		"error inside as a line of its own":   {fake.Reply(fake.ErrorInside(fake.ErrorLine, 500, "x"), fake.Done()), llmclient.ErrServer, 4, ""},
		"only a detail":                       {fake.Chunk(`{"detail":"model is loading"}`), llmclient.ErrServer, 4, ""},
		"tool calls cut under another name":   {fake.Reply(fake.CallTool("a", "write", `{"text":"abc`), fake.Finish("MAX_TOKENS"), fake.Done()), llmclient.ErrTruncated, 1, ""},
		"tool calls cut without a word":       {fake.Reply(fake.CallTool("a", "write", `{"text":"abc`), fake.Finish("weird"), fake.Done()), llmclient.ErrTruncated, 1, ""},
		"given up under another name":         {fake.Reply(fake.Text("par"), fake.Finish("network_error"), fake.Done()), llmclient.ErrAborted, 4, "par"},
		"error inside as a text":              {fake.ErrorInside(fake.ErrorText, 500, "x"), llmclient.ErrServer, 4, ""},
		"tool calls cut by length":            {fake.Reply(fake.CallTool("a", "write", `{"text":"abc`), fake.Finish("length"), fake.Done()), llmclient.ErrTruncated, 1, ""},
		"tool calls cut by length that parse": {fake.Reply(fake.CallTool("a", "write", `{"text":"abc"}`), fake.Finish("length"), fake.Done()), llmclient.ErrTruncated, 1, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply), func(c *llmclient.Config) { c.Breaker.Failures = -1 }, func(t *testing.T, w *world) {
				resp, err := w.client.Chat(t.Context(), hello())
				require.Nil(t, resp)
				e := failure(t, err, tc.kind)
				assert.Len(t, w.srv.Requests(), tc.attempts, "requests on the wire")
				assert.Len(t, e.Attempts, tc.attempts, "attempts reported")
				if tc.partial != "" {
					require.NotNil(t, e.Partial)
					assert.Equal(t, tc.partial, e.Partial.Message.Content)
				}
				assert.False(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && tc.kind != llmclient.ErrIncomplete)
			})
		})
	}
}

// What looks odd and is an answer all the same.
func TestOddAnswersThatAreWhole(t *testing.T) {
	tests := map[string]struct {
		reply fake.Step
		check func(t *testing.T, r *chat.Response)
	}{
		"text ended by length": {fake.Reply(fake.Text("long"), fake.Finish("length"), fake.Done()), func(t *testing.T, r *chat.Response) {
			assert.Equal(t, chat.FinishLength, r.FinishReason)
			assert.Equal(t, "long", r.Message.Content)
		}},
		"empty text with stop": {fake.Reply(fake.Role(), fake.Finish("stop"), fake.Done()), func(t *testing.T, r *chat.Response) {
			assert.True(t, r.Empty())
		}},
		"only reasoning": {fake.Reply(fake.ReasoningAs("reasoning", "hm"), fake.Finish("length"), fake.Done()), func(t *testing.T, r *chat.Response) {
			assert.True(t, r.Empty())
			assert.Equal(t, "hm", r.Message.Reasoning)
		}},
		"an unfamiliar reason": {fake.Reply(fake.Text("all"), fake.Finish("weird_reason"), fake.Done()), func(t *testing.T, r *chat.Response) {
			assert.Equal(t, chat.FinishReason("weird_reason"), r.FinishReason)
		}},
		"a finish reason and no done": {fake.Reply(fake.Text("all"), fake.Finish("stop"), fake.Cut()), nil},
		"a reset after the reason":    {fake.Reply(fake.Text("all"), fake.Finish("stop"), fake.Pause(time.Millisecond), fake.Reset()), nil},
		"done without a reason, from an endpoint that never sends one": {fake.Reply(fake.CallTool("a", "f", "{}"), fake.Done()), func(t *testing.T, r *chat.Response) {
			assert.Len(t, r.Message.ToolCalls, 1)
		}},
		"plain JSON where a stream was asked for": {fake.JSON(`{"choices":[{"message":{"role":"assistant","content":"plain"},"finish_reason":"stop"}]}`),
			func(t *testing.T, r *chat.Response) { assert.Equal(t, "plain", r.Message.Content) }},
		"plain JSON without a reason": {fake.JSON(`{"choices":[{"message":{"content":"plain"}}]}`), nil},
		"one byte at a time":          {fake.Reply(fake.Split(1), fake.CRLF(), fake.Answer("one two three")), func(t *testing.T, r *chat.Response) { assert.Equal(t, "one two three", r.Message.Content) }},
		"five megabytes in one event": {fake.Reply(fake.Huge(5<<20), fake.End("stop")), func(t *testing.T, r *chat.Response) { assert.Len(t, r.Message.Content, 5<<20) }},
		"pings of all kinds": {fake.Reply(append(fake.PingForms(), fake.Answer("ok"))...), func(t *testing.T, r *chat.Response) {
			assert.Equal(t, "ok", r.Message.Content)
		}},
		"no choices in the first chunk": {fake.Reply(fake.Chunk(`{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`),
			fake.Chunk(`{"choices":null}`), fake.Answer("ok")), func(t *testing.T, r *chat.Response) { assert.Equal(t, "ok", r.Message.Content) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply), nil, func(t *testing.T, w *world) {
				resp, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				require.Len(t, w.srv.Requests(), 1)
				if tc.check != nil {
					tc.check(t, resp)
				}
			})
		})
	}
}

func TestDoneWithoutAReasonIsIncompleteOnceReasonsWereSeen(t *testing.T) {
	inWorld(t, script(fake.Answer("one"), fake.Reply(fake.Text("two"), fake.Done())), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		_, err = w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrIncomplete)
		assert.Equal(t, "two", e.Partial.Message.Content)
	})
}

func TestLimits(t *testing.T) {
	tests := map[string]struct {
		reply  fake.Step
		limits llmclient.Limits
		names  string
	}{
		"one event":         {fake.Reply(fake.Huge(2<<20), fake.End("stop")), llmclient.Limits{EventBytes: 1 << 20}, "Limits.EventBytes"},
		"an endless answer": {fake.Endless(time.Millisecond), llmclient.Limits{AnswerBytes: 64 << 10}, "Limits.AnswerBytes"},
		"a bomb":            {fake.Bomb(16 << 20), llmclient.Limits{AnswerBytes: 1 << 20}, "Limits."},
		"plain JSON":        {fake.JSON(`{"choices":[{"message":{"content":"` + string(make([]byte, 0)) + `"}}],"pad":"` + pad(2<<20) + `"}`), llmclient.Limits{AnswerBytes: 1 << 20}, "Limits.AnswerBytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply), func(c *llmclient.Config) { c.Limits = tc.limits }, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, llmclient.ErrTooLarge)
				assert.ErrorContains(t, err, tc.names)
				assert.Len(t, w.srv.Requests(), 1, "what is too large is not asked for again")
			})
		})
	}
}

func pad(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}

// Each misconfiguration gets one message that says what to do.
func TestMessagesSayWhatToDo(t *testing.T) {
	healthy := fake.Always(fake.Answer("ok"))
	tests := map[string]struct {
		srv    fake.Config
		change func(*llmclient.Config)
		kind   llmclient.Kind
		says   []string
	}{
		"wrong key": {fake.Config{Script: fake.Key("right", healthy)}, func(c *llmclient.Config) { c.APIKey = "sk-wrong-key" }, llmclient.ErrAuth, []string{"401", "check APIKey"}},
		"no key":    {fake.Config{Script: fake.Key("right", healthy)}, nil, llmclient.ErrAuth, []string{"401", "set APIKey"}},
		"wrong path": {script(fake.Status(404, `{"detail":"Not Found"}`)), nil,
			llmclient.ErrNotFound, []string{"404", "check BaseURL", "/v1"}},
		"no such model": {fake.Config{Script: fake.Model("other", healthy)}, nil, llmclient.ErrNotFound, []string{"test-model", "/models"}},
		"nobody there":  {fake.Config{Net: []fake.NetFault{{Kind: fake.Refused}}}, nil, llmclient.ErrNetwork, []string{"connection refused", "BaseURL"}},
		"no quota":      {fake.Config{Script: fake.Always(fake.OutOfQuota())}, nil, llmclient.ErrQuota, []string{"nothing left"}},
		"too long":      {fake.Config{Script: fake.Window(1, healthy)}, nil, llmclient.ErrContextLength, []string{"shorten"}},
		"redirect": {fake.Config{Script: fake.Always(fake.Reply(fake.Header("Location", "https://elsewhere.example/v1"), fake.Status(307, "")))}, func(c *llmclient.Config) { c.APIKey = "sk-secret" },
			llmclient.ErrNotFound, []string{"elsewhere.example", "set BaseURL"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tc.srv, tc.change, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				e := failure(t, err, tc.kind)
				for _, s := range tc.says {
					assert.ErrorContains(t, err, s)
				}
				assert.NotContains(t, err.Error(), "sk-")
				if tc.kind != llmclient.ErrNetwork {
					assert.False(t, e.Retryable())
					assert.LessOrEqual(t, len(w.srv.Requests()), 1)
				}
			})
		})
	}
}

func TestAnEndpointThatDoesNotStreamIsSpokenToPlainly(t *testing.T) {
	for name, srv := range map[string]fake.Script{
		"refuses streams":        fake.NoStreams(fake.Always(fake.Answer("ok"))),
		"refuses stream options": fake.NoStreamOptions(fake.Always(fake.Answer("ok"))),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: srv}, nil, func(t *testing.T, w *world) {
				for range 2 {
					resp, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
					assert.Equal(t, "ok", resp.Message.Content)
				}
				assert.Len(t, w.srv.Requests(), 3, "refused once, and remembered")
				assert.Len(t, w.ofKind(llmclient.EventAdapted), 1)
				assert.Zero(t, w.client.Breaker().Failures)
				w.elapsed(0)
			})
		})
	}
}

func TestAnEndpointWhoseStreamsBringNothingIsSpokenToPlainly(t *testing.T) {
	streams := func(reply fake.Step) fake.Config {
		return fake.Config{Script: func(q *fake.Request) fake.Step {
			if q.Stream {
				return reply
			}
			return fake.Slowly(time.Second, fake.Answer("ok"))
		}}
	}
	asked := func(w *world) (streamed []bool) {
		for _, q := range w.srv.Requests() {
			streamed = append(streamed, q.Stream)
		}
		return streamed
	}
	t.Run("empty streams", func(t *testing.T) {
		inWorld(t, streams(fake.Headers()), nil, func(t *testing.T, w *world) {
			for range 2 {
				resp, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "ok", resp.Message.Content)
			}
			assert.Equal(t, []bool{true, true, false, false}, asked(w))
			assert.Len(t, w.ofKind(llmclient.EventAdapted), 1)
		})
	})
	t.Run("silent streams, over two calls", func(t *testing.T) {
		inWorld(t, streams(fake.Hang()), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			for range 2 {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, llmclient.ErrTimeout)
			}
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, []bool{true, true, false}, asked(w))
		})
	})
	t.Run("an endpoint that was only starting", func(t *testing.T) {
		srv := script(fake.Headers(), fake.Headers(), fake.Answer("plain"))
		inWorld(t, srv, nil, func(t *testing.T, w *world) {
			for _, after := range []time.Duration{0, time.Minute - time.Millisecond, time.Millisecond, time.Second} {
				time.Sleep(after)
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			}
			assert.Equal(t, []bool{true, true, false, false, true, true}, asked(w))
		})
	})
	t.Run("one that buffers is tried less and less, by one call, which loses little", func(t *testing.T) {
		inWorld(t, streams(fake.Hang()), func(c *llmclient.Config) { c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			for range 2 {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, llmclient.ErrTimeout)
			}
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			learned := time.Since(w.start)
			for time.Since(w.start) < learned+16*time.Minute {
				time.Sleep(5 * time.Second)
				before := time.Now()
				w.callers(t, 3)
				assert.LessOrEqual(t, time.Since(before), 31*time.Second)
			}
			var trials []time.Duration
			for _, q := range w.srv.Requests()[2:] {
				if q.Stream {
					trials = append(trials, (q.Since - learned).Round(30*time.Second))
				}
			}
			assert.Equal(t, []time.Duration{time.Minute, 3 * time.Minute, 7 * time.Minute, 15 * time.Minute}, trials)
			assert.Equal(t, breaker.Closed, w.client.Breaker().State)
		})
	})
	t.Run("it is not the streaming", func(t *testing.T) {
		n := 0
		srv := fake.Config{Script: func(*fake.Request) fake.Step {
			if n++; n < 4 {
				return fake.Headers()
			}
			return fake.Answer("ok")
		}}
		inWorld(t, srv, nil, func(t *testing.T, w *world) {
			for range 2 {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			}
			// A plain answer was tried, and it brought nothing either.
			assert.Equal(t, []bool{true, true, false, true, true}, asked(w))
		})
	})
	t.Run("a stream that gave output once is believed", func(t *testing.T) {
		srv := script(fake.Answer("ok"), fake.Headers(), fake.Headers(), fake.Headers(), fake.Answer("ok"))
		inWorld(t, srv, nil, func(t *testing.T, w *world) {
			for range 2 {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			}
			assert.NotContains(t, asked(w), false)
		})
	})
}

func TestNewNamesTheBadField(t *testing.T) {
	base := llmclient.Config{BaseURL: "http://localhost:1/v1"}
	tests := map[string]struct {
		change func(*llmclient.Config)
		says   string
	}{
		"no base URL":       {func(c *llmclient.Config) { c.BaseURL = "" }, "BaseURL"},
		"no scheme":         {func(c *llmclient.Config) { c.BaseURL = "localhost:8000/v1" }, "BaseURL"},
		"user in the URL":   {func(c *llmclient.Config) { c.BaseURL = "http://u:secret@host/v1" }, "APIKey"},
		"key with newline":  {func(c *llmclient.Config) { c.APIKey = "sk-1\n" }, "APIKey"},
		"suspect > limit":   {func(c *llmclient.Config) { c.Clocks.Gap = llmclient.Clock{Suspect: 2, Limit: 1} }, "Clocks.Gap.Suspect"},
		"jitter":            {func(c *llmclient.Config) { c.Retry.Jitter = 2 }, "Retry.Jitter"},
		"jitter, no number": {func(c *llmclient.Config) { c.Retry.Jitter = math.NaN() }, "Retry.Jitter"},
		"backoff":           {func(c *llmclient.Config) { c.Retry.Backoff = -1 }, "Retry.Backoff"},
		"header":            {func(c *llmclient.Config) { c.Header = http.Header{"a b": nil} }, "Header"},
		"key beside endpoints": {func(c *llmclient.Config) {
			c.Endpoints = []llmclient.Endpoint{{BaseURL: "http://localhost:2/v1"}}
		}, "beside Endpoints"},
		"bad endpoint": {func(c *llmclient.Config) {
			c.BaseURL, c.Endpoints = "", []llmclient.Endpoint{{BaseURL: "http://localhost:2/v1"}, {BaseURL: "x"}}
		}, "Endpoints[1].BaseURL"},
		"bad weight": {func(c *llmclient.Config) {
			c.BaseURL, c.Endpoints = "", []llmclient.Endpoint{{BaseURL: "http://localhost:2/v1", Weight: -1}}
		}, "Endpoints[0].Weight"},
		"bad pacer": {func(c *llmclient.Config) {
			c.BaseURL, c.Endpoints = "", []llmclient.Endpoint{{BaseURL: "http://localhost:2/v1", Breaker: &breaker.Config{Cooldown: -1}}}
		}, "Endpoints[0].Breaker"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := base
			tc.change(&cfg)
			c, err := llmclient.New(cfg)
			require.Nil(t, c)
			require.ErrorContains(t, err, tc.says)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestRequestsThatCannotBeSent(t *testing.T) {
	nan := 0.0
	nan /= nan
	for name, req := range map[string]*chat.Request{
		"nil":           nil,
		"no messages":   {},
		"several":       {Messages: hello().Messages, Extra: map[string]jsonRaw{"n": jsonRaw("2")}},
		"not a number":  {Messages: hello().Messages, Temperature: &nan},
		"broken schema": {Messages: hello().Messages, Tools: []chat.Tool{{Name: "x", Parameters: jsonRaw("{")}}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Answer("ok")), nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), req)
				failure(t, err, llmclient.ErrRequest)
				_, err = w.client.Stream(t.Context(), req).Response()
				failure(t, err, llmclient.ErrRequest)
				assert.Empty(t, w.srv.Requests())
			})
		})
	}
}

func TestRedirectsThatRepeatTheRequestAtTheSameHostAreFollowed(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Header("Location", "/v1/here/chat/completions"), fake.Status(307, "")), fake.Answer("ok")),
		func(c *llmclient.Config) { c.APIKey = "sk-key" }, func(t *testing.T, w *world) {
			resp, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "ok", resp.Message.Content)
			reqs := w.srv.Requests()
			require.Len(t, reqs, 2)
			assert.Equal(t, reqs[0].Body, reqs[1].Body)
			assert.Equal(t, "Bearer sk-key", reqs[1].Header.Get("Authorization"))
		})
}

func TestAnObserverMayCloseTheStreamItHearsOf(t *testing.T) {
	var s *llmclient.Stream
	inWorld(t, script(fake.Reply(fake.Text("a"), fake.Cut())), func(c *llmclient.Config) {
		c.OnEvent = func(e llmclient.Event) {
			if e.Kind == llmclient.EventFailed {
				_ = s.Close()
			}
		}
	}, func(t *testing.T, w *world) {
		s = w.client.Stream(t.Context(), hello())
		_, err := read(s)
		require.Error(t, err)
	})
}

func TestARunawayModelIsStopped(t *testing.T) {
	inWorld(t, script(fake.Stuck(time.Millisecond, "the same again, ")), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrRunaway)
		assert.ErrorContains(t, err, "over and over")
		assert.Len(t, e.Attempts, 2, "one more, and no third")
		assert.Less(t, time.Since(w.start), 10*time.Second)
		assert.Zero(t, w.client.Breaker().Failures)
	})
	inWorld(t, script(fake.Stuck(time.Millisecond, "the same again, "), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
	})
	inWorld(t, script(fake.Reply(fake.Repeat(5000, time.Millisecond, fake.Text("all work and no play ")), fake.End("stop"))),
		func(c *llmclient.Config) { c.Limits.RepeatBytes = -1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err, "it is accepted if it is asked for")
		})
}

func TestBaseURLs(t *testing.T) {
	for base, path := range map[string]string{
		"":                               "/chat/completions",
		"/":                              "/chat/completions",
		"/v1":                            "/v1/chat/completions",
		"/v1/":                           "/v1/chat/completions",
		"/v1/chat/completions":           "/v1/chat/completions",
		"/a%2Fb/v1":                      "/a%2Fb/v1/chat/completions",
		"/openai?api-version=2025-01-01": "/openai/chat/completions?api-version=2025-01-01",
	} {
		t.Run(base, func(t *testing.T) {
			var got *url.URL
			c, err := llmclient.New(llmclient.Config{BaseURL: "http://x.test" + base, Model: "m", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.URL
				return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r,
					Body: io.NopCloser(strings.NewReader(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`))}, nil
			})}})
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, path, got.RequestURI())
		})
	}
}

// A finish reason that output follows was none.
func TestOutputAfterAFinishReason(t *testing.T) {
	chunk := func(text string) fake.Step {
		return fake.Chunk(`{"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":"stop"}]}`)
	}
	t.Run("counts", func(t *testing.T) {
		inWorld(t, script(fake.Reply(chunk("one "), fake.Pause(3*time.Second), chunk("two "), fake.Pause(time.Minute), chunk("three"), fake.Done())), nil, func(t *testing.T, w *world) {
			resp, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "one two three", resp.Message.Content)
		})
	})
	t.Run("and an error after it is one", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("a"), fake.Finish("stop"), fake.ErrorInside(fake.ErrorOpenAI, 400, "oops"))), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrRequest)
		})
	})
}

// What is missing at the end of an answer that makes no difference.
func TestEndsThatAreNotQuiteOne(t *testing.T) {
	for name, reply := range map[string]fake.Step{
		"done without its empty line":              fake.Reply(fake.Text("ok"), fake.Finish("stop"), fake.Raw("data: [DONE]")),
		"the finish reason without its empty line": fake.Reply(fake.Text("ok"), fake.Raw(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)),
		"JSON whose body stays open":               fake.Reply(fake.Raw(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`), fake.Hang()),
		"blank data":                               fake.Reply(fake.Raw("data:  \n\ndata: null\n\n"), fake.Answer("ok")),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(reply), nil, func(t *testing.T, w *world) {
				resp, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "ok", resp.Message.Content)
				assert.LessOrEqual(t, time.Since(w.start), 20*time.Millisecond)
			})
		})
	}
	t.Run("half a piece of text is none", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("ok"), fake.Raw(`data: {"choices":[{"index":0,"delta":{"content":" and"}}]}`))), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrIncomplete)
		})
	})
}

func TestAWebPageThatDoesNotEnd(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Raw("<html>busy"), fake.Hang())), once, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrMalformed)
		assert.ErrorContains(t, err, "busy")
		w.elapsed(5 * time.Second)
	})
}
