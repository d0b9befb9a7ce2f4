package llmclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// A below is an SDK's http.Client over a Transport, in virtual time.
type below struct {
	srv    *fake.Server
	tr     *llmclient.Transport
	client *http.Client
	start  time.Time

	eventLog
}

func underSDK(t *testing.T, srv fake.Config, change func(*llmclient.Config), test func(t *testing.T, b *below)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &below{srv: fake.New(srv), start: time.Now()}
		t.Cleanup(b.srv.Close)
		base := b.srv.Transport()
		t.Cleanup(base.CloseIdleConnections)
		cfg := llmclient.Config{
			HTTPClient: &http.Client{Transport: base},
			Retry:      llmclient.Retry{Jitter: -1},
			Pacer:      pacer.Config{Rand: func() float64 { return 0 }},
			OnEvent:    b.note,
		}
		if change != nil {
			change(&cfg)
		}
		var err error
		b.tr, err = llmclient.NewTransport(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.tr.Close() })
		b.client = &http.Client{Transport: b.tr}
		test(t, b)
		synctest.Wait()
		require.Empty(t, b.tr.InFlight(), "requests in flight after the test")
		for _, c := range b.tr.Clients() {
			require.Zero(t, c.Pacer().InFlight, "permits out after the test")
		}
	})
}

// What differs between two answers of the fake server.
var stamps = regexp.MustCompile(`chatcmpl-\d+|"created":\d+`)

const streamBody = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`
const plainBody = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// post sends a completion request as an SDK would, and reads the answer.
func (b *below) post(t *testing.T, body string) (*http.Response, string, error) {
	t.Helper()
	return b.send(t, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
}

func (b *below) send(t *testing.T, method, path string, body io.Reader) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.srv.URL()+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer sk-sdk-key")
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// direct returns what a plain transport gets.
func (b *below) direct(t *testing.T, body string) string {
	t.Helper()
	tr := b.srv.Transport()
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Post(b.srv.BaseURL()+"/chat/completions", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func TestTransportPassesHealthyAnswersByteForByte(t *testing.T) {
	answers := map[string]fake.Step{
		"text":        fake.Answer("one two three"),
		"tools":       fake.Reply(fake.Role(), fake.CallToolIn(3, "1", "write", `{"text":"abc"}`), fake.End("tool_calls")),
		"slow":        fake.Slowly(time.Second, fake.Answer("one two three")),
		"CRLF, split": fake.Reply(fake.CRLF(), fake.Split(3), fake.Answer("one two three")),
		"empty":       fake.Reply(fake.Role(), fake.Finish("stop"), fake.Done()),
		"large":       fake.Reply(fake.Huge(1<<20), fake.End("stop")),
	}
	for name, answer := range answers {
		for kind, body := range map[string]string{"stream": streamBody, "plain": plainBody} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				underSDK(t, fake.Config{Script: fake.Always(answer)}, nil, func(t *testing.T, b *below) {
					want := b.direct(t, body)
					resp, got, err := b.post(t, body)
					require.NoError(t, err)
					assert.Equal(t, 200, resp.StatusCode)
					want, got = stamps.ReplaceAllString(want, "N"), stamps.ReplaceAllString(got, "N")
					assert.True(t, want == got, "want %.2000s\ngot %.2000s", want, got)
					assert.Equal(t, body, string(b.srv.Requests()[1].Body), "the request goes as it is")
					assert.Equal(t, "Bearer sk-sdk-key", b.srv.Requests()[1].Header.Get("Authorization"))
				})
			})
		}
	}
}

func TestTransportRetriesUnseenUntilTheFirstOutput(t *testing.T) {
	for name, fault := range map[string]fake.Step{
		"503":             fake.Unavailable(),
		"429":             fake.Reply(fake.RetryAfter(2*time.Second), fake.Throttled()),
		"reset":           fake.Reset(),
		"hang":            fake.Hang(),
		"head, then hang": fake.Reply(fake.Headers(), fake.Hang()),
		"pings":           fake.Pings(5 * time.Second),
		"empty":           fake.Reply(fake.Headers(), fake.Cut()),
		"role, then cut":  fake.Reply(fake.Role(), fake.Cut()),
		"error inside":    fake.ErrorInside(fake.ErrorOpenAI, 503, "queue full"),
		"web page":        fake.HTML(),
	} {
		for kind, body := range map[string]string{"stream": streamBody, "plain": plainBody} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				underSDK(t, script(fault, fake.Answer("Hello")), nil, func(t *testing.T, b *below) {
					resp, got, err := b.post(t, body)
					require.NoError(t, err)
					assert.Equal(t, 200, resp.StatusCode)
					assert.Contains(t, got, "Hello")
					assert.NotContains(t, got, "queue full")
					assert.Len(t, b.srv.Requests(), 2)
				})
			})
		}
	}
}

func TestTransportMakesBrokenAnswersReadErrors(t *testing.T) {
	tests := map[string]struct {
		reply fake.Step
		kind  llmclient.Kind
		after time.Duration
	}{
		"clean cut":    {fake.Reply(fake.Text("He"), fake.Cut()), llmclient.ErrIncomplete, 0},
		"reset":        {fake.Reply(fake.Text("He"), fake.Pause(time.Millisecond), fake.Reset()), llmclient.ErrIncomplete, time.Millisecond},
		"abort":        {fake.Reply(fake.Text("He"), fake.Finish("abort"), fake.Done()), llmclient.ErrAborted, 0},
		"error inside": {fake.Reply(fake.Text("He"), fake.ErrorInside(fake.ErrorOpenAI, 500, "oops")), llmclient.ErrServer, 0},
		"silence":      {fake.Reply(fake.Text("He"), fake.Hang()), llmclient.ErrTimeout, 2 * time.Minute},
		"malformed":    {fake.Reply(fake.Text("He"), fake.Malformed()), llmclient.ErrMalformed, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(tc.reply), nil, func(t *testing.T, b *below) {
				resp, got, err := b.post(t, streamBody)
				require.NotNil(t, resp)
				failure(t, err, tc.kind)
				assert.Contains(t, got, `"He"`)
				assert.NotContains(t, got, "[DONE]", "which some SDKs take for a good end")
				assert.Equal(t, tc.kind == llmclient.ErrIncomplete, errors.Is(err, io.ErrUnexpectedEOF))
				assert.Len(t, b.srv.Requests(), 1, "what has been shown is not asked for again")
				assert.Equal(t, tc.after, time.Since(b.start))
				assert.Equal(t, 1, b.tr.Clients()[0].Breaker().Failures, "the breaker hears how streams end")
			})
		})
	}
}

// Pings have done their work in the Transport, and some SDKs give up on an
// answer after some hundred lines without data.
func TestTransportKeepsPingsToItself(t *testing.T) {
	pings := append([]fake.Step{fake.Role()}, fake.PingForms()...)
	pings = append(pings, fake.Text("one"))
	pings = append(append(pings, fake.PingForms()...), fake.Text("two"), fake.End("stop"))
	underSDK(t, script(fake.Reply(pings...), fake.Reply(fake.Role(), fake.Text("one"), fake.Text("two"), fake.End("stop"))), nil, func(t *testing.T, b *below) {
		_, with, err := b.post(t, streamBody)
		require.NoError(t, err)
		_, without, err := b.post(t, streamBody)
		require.NoError(t, err)
		assert.Equal(t, stamps.ReplaceAllString(without, "N"), strings.TrimLeft(stamps.ReplaceAllString(with, "N"), "\r\n"))
	})
}

// SDKs take a Go error for a passing fault and try again, for as long each time.
func TestTransportTellsAnSDKThatRetriesTheSameAgain(t *testing.T) {
	underSDK(t, script(fake.Hang()), func(c *llmclient.Config) { c.Clocks.Call.Limit = time.Minute }, func(t *testing.T, b *below) {
		for i := range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
			require.NoError(t, err)
			req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(i))
			_, err = b.client.Do(req)
			failure(t, err, llmclient.ErrTimeout)
			assert.Equal(t, time.Minute, time.Since(b.start))
		}
	})
}

func TestTransportJudgesPlainAnswersAsAWhole(t *testing.T) {
	underSDK(t, script(fake.Reply(fake.Text("par"), fake.Finish("abort")), fake.Answer("whole")), nil, func(t *testing.T, b *below) {
		_, got, err := b.post(t, plainBody)
		require.NoError(t, err)
		assert.Contains(t, got, "whole")
	})
}

func TestTransportMakesAnErrorInsideA200AResponse(t *testing.T) {
	for form, body := range map[fake.ErrorForm]string{fake.ErrorOpenAI: streamBody, fake.ErrorFlat: plainBody} {
		underSDK(t, script(fake.ErrorInside(form, 503, "queue full")), nil, func(t *testing.T, b *below) {
			resp, got, err := b.post(t, body)
			require.NoError(t, err)
			assert.Equal(t, 503, resp.StatusCode)
			assert.Contains(t, got, "queue full")
			assert.Contains(t, got, `"error"`)
			assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
		})
	}
}

func TestTransportReturnsTheLastResponse(t *testing.T) {
	t.Run("a status", func(t *testing.T) {
		underSDK(t, script(fake.Reply(fake.Header("X-Request-Id", "req-1"), fake.Error(503, "server_error", "", "no capacity"))), nil, func(t *testing.T, b *below) {
			resp, got, err := b.post(t, streamBody)
			require.NoError(t, err)
			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
			assert.Equal(t, "req-1", resp.Header.Get("X-Request-Id"))
			assert.Contains(t, got, "no capacity")
			assert.Len(t, b.srv.Requests(), 4)
		})
	})
	t.Run("a refusal, at once", func(t *testing.T) {
		underSDK(t, script(fake.Error(400, "invalid_request_error", "context_length_exceeded", "too long")), nil, func(t *testing.T, b *below) {
			resp, got, err := b.post(t, plainBody)
			require.NoError(t, err)
			assert.Equal(t, 400, resp.StatusCode)
			assert.Contains(t, got, "context_length_exceeded")
			assert.Len(t, b.srv.Requests(), 1)
		})
	})
	t.Run("a 200 that is none ends in a read error", func(t *testing.T) {
		underSDK(t, script(fake.JSON(`{"choices":[{"message":{"content":"ha`)), nil, func(t *testing.T, b *below) {
			resp, got, err := b.post(t, plainBody)
			require.NotNil(t, resp)
			failure(t, err, llmclient.ErrIncomplete)
			assert.Empty(t, got, "what there is of it could be taken for an answer")
		})
	})
	t.Run("a Go error where there was none", func(t *testing.T) {
		underSDK(t, fake.Config{Net: []fake.NetFault{{Kind: fake.Refused}}}, nil, func(t *testing.T, b *below) {
			_, _, err := b.post(t, streamBody)
			failure(t, err, llmclient.ErrNetwork)
		})
		underSDK(t, script(fake.Hang()), func(c *llmclient.Config) { c.Clocks.Call.Limit = 3 * time.Second }, func(t *testing.T, b *below) {
			_, _, err := b.post(t, streamBody)
			failure(t, err, llmclient.ErrTimeout)
			assert.Equal(t, 3*time.Second, time.Since(b.start))
		})
	})
}

func TestTransportGivesEverythingBack(t *testing.T) {
	open := func(t *testing.T, b *below, ctx context.Context) *http.Response {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
		require.NoError(t, err)
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		return resp
	}
	ways := map[string]func(t *testing.T, b *below){
		"closed early": func(t *testing.T, b *below) {
			resp := open(t, b, t.Context())
			_, err := resp.Body.Read(make([]byte, 10))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			_, err = io.ReadAll(resp.Body)
			assert.Error(t, err)
		},
		"cancelled while nobody reads": func(t *testing.T, b *below) {
			ctx, cancel := context.WithCancel(t.Context())
			resp := open(t, b, ctx)
			cancel()
			synctest.Wait()
			assert.Zero(t, b.tr.Clients()[0].Pacer().InFlight)
			_, err := io.ReadAll(resp.Body)
			assert.ErrorIs(t, err, context.Canceled)
			_ = resp.Body.Close()
		},
		"deadline while reading": func(t *testing.T, b *below) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			resp := open(t, b, ctx)
			_, err := io.ReadAll(resp.Body)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Minute, time.Since(b.start))
			_ = resp.Body.Close()
		},
		"the transport is closed": func(t *testing.T, b *below) {
			resp := open(t, b, t.Context())
			require.NoError(t, b.tr.Close())
			_, err := io.ReadAll(resp.Body)
			failure(t, err, llmclient.ErrClosed)
			_, _, err = b.post(t, streamBody)
			failure(t, err, llmclient.ErrClosed)
		},
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(fake.Endless(100*time.Millisecond)), nil, func(t *testing.T, b *below) {
				leave(t, b)
				require.NoError(t, b.srv.Await(t.Context(), func(s fake.Stats) bool { return s.Left == 1 }))
			})
		})
	}
}

func TestTransportPassesOtherPaths(t *testing.T) {
	t.Run("the list of models", func(t *testing.T) {
		underSDK(t, fake.Config{}, nil, func(t *testing.T, b *below) {
			resp, got, err := b.send(t, http.MethodGet, "/v1/models", nil)
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Contains(t, got, `"data"`)
		})
	})
	t.Run("retried", func(t *testing.T) {
		n := 0
		underSDK(t, fake.Config{Models: func(*fake.Request) fake.Step {
			if n++; n < 3 {
				return fake.Unavailable()
			}
			return fake.ModelList()
		}}, nil, func(t *testing.T, b *below) {
			resp, _, err := b.send(t, http.MethodGet, "/v1/models", nil)
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
		})
	})
	t.Run("unknown", func(t *testing.T) {
		underSDK(t, fake.Config{}, nil, func(t *testing.T, b *below) {
			resp, _, err := b.send(t, http.MethodPost, "/v1/embeddings", strings.NewReader(`{"input":"x"}`))
			require.NoError(t, err)
			assert.Equal(t, 404, resp.StatusCode)
		})
	})
	t.Run("a hang", func(t *testing.T) {
		underSDK(t, fake.Config{Models: fake.Always(fake.Hang())}, func(c *llmclient.Config) {
			c.Clocks.Attempt.Limit = 3 * time.Second
			c.Retry.Attempts = 1
		}, func(t *testing.T, b *below) {
			_, _, err := b.send(t, http.MethodGet, "/v1/models", nil)
			failure(t, err, llmclient.ErrTimeout)
			assert.Equal(t, 3*time.Second, time.Since(b.start))
		})
	})
}

func TestTransportSendsABodyOnceThatItCannotHaveAgain(t *testing.T) {
	underSDK(t, script(fake.Unavailable()), nil, func(t *testing.T, b *below) {
		resp, _, err := b.send(t, http.MethodPost, "/v1/chat/completions", io.MultiReader(strings.NewReader(streamBody)))
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Len(t, b.srv.Requests(), 1)
		assert.Equal(t, streamBody, string(b.srv.Requests()[0].Body))
	})
	underSDK(t, script(fake.Answer("ok")), nil, func(t *testing.T, b *below) {
		resp, got, err := b.send(t, http.MethodPost, "/v1/chat/completions", io.MultiReader(strings.NewReader(streamBody)))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Contains(t, got, "ok")
	})
}

func TestTransportKeepsKeysAndEndpointsApart(t *testing.T) {
	underSDK(t, fake.Config{}, nil, func(t *testing.T, b *below) {
		for _, key := range []string{"a", "b", "a"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", bytes.NewReader([]byte(plainBody)))
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer sk-secret-"+key)
			resp, err := b.client.Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
		}
		assert.Len(t, b.tr.Clients(), 2)
		assert.NotContains(t, format(b.tr.Clients()), "sk-secret")
		assert.NotContains(t, format(b.tr), "sk-secret")
	})
}

func TestTransportNoticesAnSDKThatRetries(t *testing.T) {
	underSDK(t, script(fake.Answer("ok")), nil, func(t *testing.T, b *below) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
		require.NoError(t, err)
		req.Header.Set("X-Stainless-Retry-Count", "1")
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		assert.True(t, func() bool {
			for _, e := range b.events {
				if e.Kind == llmclient.EventRetriedAbove {
					return true
				}
			}
			return false
		}())
	})
}

func TestNewTransportNamesTheBadField(t *testing.T) {
	for name, cfg := range map[string]llmclient.Config{
		"BaseURL": {BaseURL: "http://x"},
		"Retry":   {Retry: llmclient.Retry{Jitter: 3}},
		"Breaker": {Breaker: breakerConfig(-1)},
	} {
		_, err := llmclient.NewTransport(cfg)
		require.ErrorContains(t, err, name)
	}
}

func TestTransportAndAConsumerThatPauses(t *testing.T) {
	underSDK(t, script(fake.Answer("one two three")), nil, func(t *testing.T, b *below) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
		require.NoError(t, err)
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		for {
			_, err := resp.Body.Read(make([]byte, 64))
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			time.Sleep(10 * time.Minute)
		}
	})
}

// What net/http's client never hands down, and others may.
func TestTransportBareRequests(t *testing.T) {
	underSDK(t, fake.Config{}, nil, func(t *testing.T, b *below) {
		u, err := url.Parse(b.srv.BaseURL() + "/models")
		require.NoError(t, err)
		resp, err := b.tr.RoundTrip(&http.Request{URL: u})
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())

		_, err = b.tr.RoundTrip(&http.Request{})
		failure(t, err, llmclient.ErrRequest)

		resp, err = b.tr.RoundTrip(&http.Request{URL: u, Header: http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	})
}

func TestTransportSpansTellWhatWasSent(t *testing.T) {
	rec := &recorder{}
	underSDK(t, fake.Config{}, func(c *llmclient.Config) { c.TracerProvider = rec }, func(t *testing.T, b *below) {
		_, _, err := b.send(t, http.MethodGet, "/v1/models?key=sk-secret", nil)
		require.NoError(t, err)
	})
	require.Len(t, rec.spans, 2)
	assert.Equal(t, "GET", rec.spans[0].name)
	assert.NotContains(t, rec.spans[0].attrs, attribute.Key("gen_ai.operation.name"), "no inference")
	assert.Equal(t, "GET", rec.spans[1].attrs["http.request.method"].AsString())
	assert.Equal(t, "http://model.test/v1/models", rec.spans[1].attrs["url.full"].AsString())
}
