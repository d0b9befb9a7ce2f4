package llmclient_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

const deltaOf = `data: {"choices":[{"index":0,"delta":`

func textEvent(s string) string { return deltaOf + `{"content":"` + s + `"}}]}` + "\n\n" }
func finishEvent(s string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + s + `"}]}` + "\n\n"
}
func callEvent(s string) string { return deltaOf + `{"tool_calls":[` + s + `]}}]}` + "\n\n" }

const doneEvent = "data: [DONE]\n\n"

func tryOnce(c *llmclient.Config) { c.Retry.Attempts = 1 }

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A stream that ends within an empty event must not panic.
func TestAStreamThatEndsWithinAnEventDoesNotPanic(t *testing.T) {
	for name, body := range map[string]string{
		"null body":                "null",
		"empty string body":        `""`,
		"null event":               textEvent("par") + "data: null\n",
		"null event after the end": textEvent("ok") + finishEvent("stop") + "data: null",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw(body)), tryOnce, func(t *testing.T, w *world) {
				assert.NotPanics(t, func() { _, _ = w.client.Chat(t.Context(), hello()) })
			})
		})
	}
	start := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n"
	for name, body := range map[string]string{
		"Messages, behind message_start":      start,
		"Messages, behind a ping":             start + "\nevent: ping\ndata: {\"type\":\"ping\"}\n",
		"Messages, behind content_block_stop": start + "\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n",
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := llmclient.NewTransport(llmclient.Config{Retry: llmclient.Retry{Attempts: 1}, HTTPClient: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
				_, _ = io.ReadAll(r.Body)
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			})}})
			require.NoError(t, err)
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://x.test/v1/messages", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
			assert.NotPanics(t, func() {
				if resp, err := http.RoundTripper(tr).RoundTrip(req); err == nil {
					_, err = io.ReadAll(resp.Body)
					assert.Error(t, err)
					_ = resp.Body.Close()
				}
				_ = tr.Close()
			})
		})
	}
}

// A later "stop" does not take back "length", "abort" or "error".
func TestAStopDoesNotTakeBackWhatWasSaidBefore(t *testing.T) {
	call := callEvent(`{"index":0,"id":"a","function":{"name":"write","arguments":"{\"t\":\"abc\"}"}}`)
	for name, c := range map[string]struct {
		body string
		kind llmclient.Kind
	}{
		"length, stop":       {call + finishEvent("length") + finishEvent("stop") + doneEvent, llmclient.ErrTruncated},
		"length, tool_calls": {call + finishEvent("length") + finishEvent("tool_calls") + doneEvent, llmclient.ErrTruncated},
		"abort, stop":        {textEvent("par") + finishEvent("abort") + finishEvent("stop") + doneEvent, llmclient.ErrAborted},
		"error, stop":        {textEvent("par") + finishEvent("error") + finishEvent("stop") + doneEvent, llmclient.ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw(c.body)), tryOnce, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, c.kind)
			})
		})
	}
	t.Run("stop with every piece, tool_calls at the end", func(t *testing.T) {
		inWorld(t, script(fake.Raw(textEvent("x")+finishEvent("stop")+call+finishEvent("tool_calls")+doneEvent)), tryOnce, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
}

// An error as a bare JSON line within an event stream (no data:), after pings or text.
func TestABareJSONLineInAStreamIsReadAsWhatItIs(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		kind  llmclient.Kind
		retry bool
	}{
		"ping, 400":           {": ping\n\n" + `{"error":{"message":"bad tool","type":"invalid_request_error","code":400}}` + "\n\n", llmclient.ErrRequest, false},
		"ping, 429, [DONE]":   {": ping\n\n" + `{"error":{"message":"slow","code":429}}` + "\n\n" + doneEvent, llmclient.ErrThrottled, true},
		"text, quota":         {textEvent("par") + `{"error":{"message":"no money","type":"insufficient_quota","code":"insufficient_quota"}}` + "\n\n", llmclient.ErrQuota, false},
		"text, error, [DONE]": {textEvent("par") + `{"error":{"message":"bad","code":400}}` + "\n\n" + doneEvent, llmclient.ErrRequest, false}, // is a success
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw(c.body)), tryOnce, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				e := failure(t, err, c.kind)
				assert.Equal(t, c.retry, e.Retryable())
			})
		})
	}
	t.Run("pings, then a plain answer", func(t *testing.T) {
		inWorld(t, script(fake.Raw(": ping\n\n"+`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`+"\n")), tryOnce, func(t *testing.T, w *world) {
			r, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			assert.Equal(t, "ok", r.Message.Content)
		})
	})
}

// A finish reason in a piece before any output, or with the first piece, and then silence,
// does not end the answer.
func TestAFinishReasonBeforeTheAnswerDoesNotEndIt(t *testing.T) {
	stop := func(s string) fake.Step {
		return fake.Chunk(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"` + s + `"},"finish_reason":"stop"}]}`)
	}
	for name, s := range map[string]fake.Step{
		"before any output": fake.Reply(stop(""), fake.Pause(8*time.Second), fake.Text("hello"), fake.End("stop")),
		"with thoughts":     fake.Reply(fake.Chunk(`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":"stop"}]}`), fake.Pause(8*time.Second), stop("hello"), fake.Done()),
		"a second piece":    fake.Reply(stop("h"), stop("el"), fake.Pause(8*time.Second), stop("lo"), fake.Done()),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(s), tryOnce, func(t *testing.T, w *world) {
				r, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "hello", r.Message.Content)
			})
		})
	}
}

// Some endpoints send a finish reason with texts and none with calls.
func TestCallsWithoutAReasonCountWhereTextsHaveOne(t *testing.T) {
	call := fake.Reply(fake.CallTool("a", "f", `{"x":1}`), fake.Done())
	inWorld(t, script(fake.Answer("hi"), call, call, call, call), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		r, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Len(t, r.Message.ToolCalls, 1)
	})
}

// Tool calls.
func TestToolCalls(t *testing.T) {
	both := func(args string) string {
		return deltaOf + `{"function_call":{"name":"f","arguments":"` + args + `"},"tool_calls":[{"index":0,"id":"call__0_f","type":"function","function":{"name":"f","arguments":"` + args + `"}}]}}]}` + "\n\n"
	}
	end := finishEvent("tool_calls") + doneEvent
	one := []string{`f{"x":1}`}
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"old and new form at tryOnce":                        {both(`{\"x\":1}`) + end, one},
		"the same in pieces":                                 {both("") + both(`{\"x\"`) + both(":1}") + end, one},
		"the same, plain":                                    {`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"},"tool_calls":[{"id":"call__0_f","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}]}`, one},
		"arguments flushed tryOnce more without name and id": {callEvent(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`) + callEvent(`{"index":0,"function":{"arguments":":1}"}}`) + callEvent(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`) + end, one},
		"two calls of one tool with one id, heads first":     {callEvent(`{"index":0,"id":"f","function":{"name":"f","arguments":""}}`) + callEvent(`{"index":1,"id":"f","function":{"name":"f","arguments":""}}`) + callEvent(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`) + callEvent(`{"index":1,"function":{"arguments":"{\"x\":2}"}}`) + end, []string{`f{"x":1}`, `f{"x":2}`}},
		"calls in a second choice":                           {`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":"Let me look."}},{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}}]}`, one},
		"two equal calls":                                    {callEvent(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"index":1,"id":"b","function":{"name":"f","arguments":"{\"x\":1}"}}`) + end, []string{one[0], one[0]}},
		"the old form":                                       {deltaOf + `{"function_call":{"name":"f","arguments":"{\"x\":1}"}}}]}` + "\n\n" + finishEvent("function_call") + doneEvent, one},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw(c.body)), tryOnce, func(t *testing.T, w *world) {
				r, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				var got []string
				for _, c := range r.Message.ToolCalls {
					got = append(got, c.Name+c.Arguments)
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}

func TestCallsOfAnAnswerThatUsedUpItsTokensAreCut(t *testing.T) {
	req := hello()
	req.MaxTokens = 32
	for name, c := range map[string]struct {
		used int
		cut  bool
	}{"used up": {32, true}, "broken, not used up": {31, false}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Reply(fake.CallTool("a", "f", `{"x":"abc`), fake.Finish("tool_calls"), fake.Usage(3, c.used), fake.Done())), tryOnce, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), req)
				if !c.cut {
					require.NoError(t, err)
					return
				}
				failure(t, err, llmclient.ErrTruncated)
			})
		})
	}
}

// Errors inside a 200 that name no status or code: the words decide as with a 400.
func TestWordsOfAnErrorInsideDecide(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		kind llmclient.Kind
	}{
		"LM Studio":          {`{"error":{"message":"Trying to keep the first 14123 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}}`, llmclient.ErrContextLength},
		"LM Studio, text":    {`{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}`, llmclient.ErrContextLength},
		"TGI":                {"{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000\",\"error_type\":\"validation\"}", llmclient.ErrContextLength},
		"DashScope":          {`{"error":{"message":"Range of input length should be [1, 30720]","code":"InvalidParameter"}}`, llmclient.ErrContextLength},
		"prompt is too long": {`{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, llmclient.ErrContextLength},
		"balance":            {`{"error":{"message":"Insufficient Balance"}}`, llmclient.ErrQuota},
		"quota":              {`{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`, llmclient.ErrQuota},
		"just a fault":       {`{"error":{"message":"boom"}}`, llmclient.ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw("event: error\ndata: "+c.data+"\n\n")), tryOnce, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				assert.ErrorIs(t, err, c.kind)
			})
		})
	}
}

// Framing that proxies double: data: data: and comments as data.
func TestFramesWrappedTwice(t *testing.T) {
	all := textEvent("ok") + finishEvent("stop") + doneEvent
	for name, body := range map[string]string{
		"data: data:":         strings.ReplaceAll(all, "data: ", "data: data: "),
		"with empty lines":    strings.ReplaceAll(strings.ReplaceAll(all, "data: ", "data: data: "), "\n\n", "\ndata:\ndata:\n\n"),
		"a comment as data":   "data: : OPENROUTER PROCESSING\n\n" + all,
		"a heartbeat by name": "event: heartbeat\ndata: alive\n\n" + all,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Raw(body)), tryOnce, func(t *testing.T, w *world) {
				r, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "ok", r.Message.Content)
			})
		})
	}
	t.Run("garbage is an error", func(t *testing.T) {
		inWorld(t, script(fake.Raw(textEvent("a")+"data: {oops\n\n")), tryOnce, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrMalformed)
		})
	})
}

// Reasoning under Copilot's name: lost, and its last piece is sent back as if it were all.
func TestReasoningText(t *testing.T) {
	d := func(s string) fake.Step {
		return fake.Chunk(`{"choices":[{"index":0,"delta":{"reasoning_text":"` + s + `"}}]}`)
	}
	inWorld(t, script(fake.Reply(d("I "), d("think"), fake.End("length"))), tryOnce, func(t *testing.T, w *world) {
		r, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, "I think", r.Message.Reasoning)
		assert.Empty(t, r.Message.Extra) // "think"
	})
}

// Tool calls that only the whole message at the end has are not withheld from a reader of the pieces.
func TestStreamGivesCallsThatOnlyTheWholeMessageHas(t *testing.T) {
	body := textEvent("let me look") + `data: {"choices":[{"index":0,"message":{"role":"assistant","content":"let me look","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n" + doneEvent
	inWorld(t, script(fake.Raw(body)), tryOnce, func(t *testing.T, w *world) {
		calls, text := 0, ""
		for ch, err := range w.client.Stream(t.Context(), hello()).All() {
			require.NoError(t, err)
			calls += len(ch.ToolCalls)
			text += ch.Content
		}
		assert.Equal(t, 1, calls)
		assert.Equal(t, "let me look", text)
	})
}

// Messages, under the Transport.
func TestMessages(t *testing.T) {
	ms := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n"
	tool := "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n\n"
	text := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	reason := "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
	stop := "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"a tool's block that is not closed, no stop_reason": {ms + tool + stop, false},
		"a bare error line, then message_stop":              {ms + text + "{\"error\":{\"message\":\"x\",\"code\":500}}\n\n" + stop, false},
		"stop_reason and [DONE]":                            {ms + text + reason + "data: [DONE]\n\n", true},
		"a heartbeat with text":                             {ms + "event: heartbeat\ndata: alive\n\n" + text + reason + stop, true},
		"an unknown event with other types":                 {ms + "event: x\ndata: {\"type\":\"x\",\"delta\":\"s\",\"content\":\"y\"}\n\n" + text + reason + stop, true},
		"text, message_stop without a reason":               {ms + text + stop, true},
		"cut":                                               {ms + text, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := llmclient.NewTransport(llmclient.Config{Retry: llmclient.Retry{Attempts: 1}, HTTPClient: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
				_, _ = io.ReadAll(r.Body)
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(c.body)), Request: r}, nil
			})}})
			require.NoError(t, err)
			defer tr.Close()
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://x.test/v1/messages", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
			resp, err := http.RoundTripper(tr).RoundTrip(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			assert.Equal(t, c.ok, err == nil && resp.StatusCode == 200, "%v", err)
		})
	}
}
