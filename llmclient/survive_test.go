package llmclient_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// A dead HTTP/2 connection that several calls share, in a transport that the
// user gave. It is never idle.
func TestADeadHTTP2ConnectionOfAGivenClientIsLeft(t *testing.T) {
	for name, callers := range map[string]int{"one caller": 1, "two callers": 2, "ten callers": 10} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: fake.Always(fake.Reply(fake.Role(), fake.Pause(2*time.Second), fake.Text("ok"), fake.End("stop")))}, func(c *llmclient.Config) {
				var p http.Protocols
				p.SetUnencryptedHTTP2(true)
				c.HTTPClient.Transport.(*http.Transport).Protocols = &p
			}, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				w.srv.LoseConns()
				var wg sync.WaitGroup
				var failed atomic.Int32
				for i := range callers {
					wg.Go(func() {
						time.Sleep(time.Duration(i) * 7 * time.Second)
						if _, err := w.client.Chat(t.Context(), hello()); err != nil {
							failed.Add(1)
						}
					})
				}
				wg.Wait()
				assert.Zero(t, failed.Load(), "calls that failed though new connections work, after %v", time.Since(w.start))
			})
		})
	}
}

// A model is reloaded behind a proxy. Calls outlive that as they outlive refused
// connections.
func TestAReloadBehindAGatewayIsOutlived(t *testing.T) {
	for name, reply := range map[string]fake.Step{
		"nginx":     fake.Status(502, `<html><body>502 Bad Gateway</body></html>`),
		"llama.cpp": fake.Status(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`),
		"Ollama":    fake.Status(500, `{"error":{"message":"unexpected server status: llm server loading model","type":"api_error"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			srv := fake.Config{Script: func(r *fake.Request) fake.Step {
				if r.Ordinal == 1 || r.Since > 30*time.Second {
					return fake.Answer("ok")
				}
				return reply
			}}
			inWorld(t, srv, nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				_, err = w.client.Chat(t.Context(), hello())
				assert.NoError(t, err, "given up after %v", time.Since(w.start))
			})
		})
	}
	t.Run("refused", func(t *testing.T) {
		inWorld(t, fake.Config{}, nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			w.srv.SetNet(fake.NetFault{Kind: fake.Refused, Until: 30 * time.Second})
			w.srv.CloseConns()
			_, err = w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
	})
}

// Forty agents, four slots, ten seconds each: the server refuses the calls that it
// cannot take, and serves others all the time.
func TestFortyAgentsAgainstAFullServerAreAllAnswered(t *testing.T) {
	for name, full := range map[string]fake.Step{
		"429":             fake.Throttled(),
		"503":             fake.Status(503, `{"error":{"message":"The request queue is full.","type":"service_unavailable","code":503}}`),
		"503 Retry-After": fake.Reply(fake.RetryAfter(2*time.Second), fake.Unavailable()),
	} {
		t.Run(name, func(t *testing.T) {
			srv := fake.Config{Slots: 4, Full: full, Script: fake.Always(fake.Reply(fake.Role(), fake.Repeat(10, time.Second, fake.Text("x ")), fake.End("stop")))}
			inWorld(t, srv, func(c *llmclient.Config) { c.Retry.Jitter = 0 }, func(t *testing.T, w *world) {
				var wg sync.WaitGroup
				var failed atomic.Int32
				for range 40 {
					wg.Go(func() {
						if _, err := w.client.Chat(t.Context(), hello()); err != nil {
							failed.Add(1)
						}
					})
				}
				wg.Wait()
				assert.Zero(t, failed.Load(), "failed after %v with %d requests", time.Since(w.start), len(w.srv.Requests()))
			})
		})
	}
}

func TestOnePoisonedConversationShutsNobodyOut(t *testing.T) {
	for name, text := range map[string]string{
		"template": `{"error":{"code":500,"message":"Conversation roles must alternate user/assistant/user/assistant/... at row 1, column 1","type":"server_error"}}`,
		"overflow": `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			srv := fake.Config{Script: func(r *fake.Request) fake.Step {
				if strings.Contains(string(r.Body), "poison") {
					return fake.Status(500, text)
				}
				return fake.Answer("ok")
			}}
			inWorld(t, srv, nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				for range 2 {
					_, err := w.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("poison")}})
					require.Error(t, err)
				}
				at := time.Now()
				_, err = w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Less(t, time.Since(at), 2*time.Second, "another agent waited for the breaker")
			})
		})
	}
}

// The same bound cuts the same answer each time: four whole generations for nothing.
func TestATotalTimeoutOfAGivenClientIsNotRunIntoFourTimes(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Repeat(60, 2*time.Second, fake.Text("x ")), fake.End("stop"))), func(c *llmclient.Config) {
		c.HTTPClient.Timeout = 30 * time.Second
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.Error(t, err)
		assert.LessOrEqual(t, len(w.srv.Requests()), 2)
	})
}

// A gateway pings while it looks for an upstream, and not during prefill.
func TestASilenceBeforeOutputIsNotRunIntoFourTimes(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Repeat(5, 10*time.Second, fake.Comment("OPENROUTER PROCESSING")), fake.Pause(90*time.Second), fake.Text("ok"), fake.End("stop"))), nil, func(t *testing.T, w *world) {
		_, _ = w.client.Chat(t.Context(), hello())
		assert.LessOrEqual(t, len(w.srv.Requests()), 2)
	})
}

func TestAProxyThatRefusesIsAskedOnce(t *testing.T) {
	var n atomic.Int32
	srv := fake.Config{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { n.Add(1); rw.WriteHeader(http.StatusProxyAuthRequired) })}
	inWorld(t, srv, func(c *llmclient.Config) {
		c.HTTPClient.Transport.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.test"})
		c.BaseURL = "https://model.test/v1"
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.Error(t, err)
		assert.EqualValues(t, 1, n.Load())
	})
}

// Calls outlive a temporary failure only if WhenOpen says Wait.
func TestWhoDoesNotWaitOutlivesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*llmclient.Config)
		refused  bool
		requests int
	}{
		"one attempt, a gateway":     {func(c *llmclient.Config) { c.Retry.Attempts = 1 }, false, 1},
		"one attempt, nobody there":  {func(c *llmclient.Config) { c.Retry.Attempts = 1 }, true, 0},
		"failing fast, a gateway":    {func(c *llmclient.Config) { c.WhenOpen = llmclient.FailFast }, false, 4},
		"an endpoint's first answer": {nil, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			srv := fake.Config{Script: func(r *fake.Request) fake.Step {
				if r.Ordinal == 1 && tc.change != nil {
					return fake.Answer("ok")
				}
				return fake.Status(502, "bad gateway")
			}}
			inWorld(t, srv, tc.change, func(t *testing.T, w *world) {
				if tc.change != nil {
					_, err := w.client.Chat(t.Context(), hello())
					require.NoError(t, err)
				}
				before := len(w.srv.Requests())
				if tc.refused {
					w.srv.SetNet(fake.NetFault{Kind: fake.Refused, Until: time.Hour})
					w.srv.CloseConns()
				}
				_, err := w.client.Chat(t.Context(), hello())
				require.Error(t, err)
				assert.Len(t, w.srv.Requests(), before+tc.requests)
				assert.Less(t, time.Since(w.start), 10*time.Second)
			})
		})
	}
}
