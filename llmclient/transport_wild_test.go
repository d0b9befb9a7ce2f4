package llmclient_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func handled(h http.HandlerFunc) fake.Config { return fake.Config{Handler: h} }

type blocking struct{ ctx context.Context }

func (b blocking) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

func piece(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

const finStop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"

const doneLine = "data: [DONE]\n\n"

func retried(t *testing.T, b *below, path, auth, n string, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", auth)
	if n != "" {
		req.Header.Set("X-Stainless-Retry-Count", n)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestTransportLeavesAPingInsideAnEvent(t *testing.T) {
	for name, body := range map[string]string{
		"comment before the blank line": strings.TrimSuffix(piece("A"), "\n") + ": ping\n\n" + piece("B") + finStop + doneLine,
		"comment before the data line":  ": ping\n" + piece("A") + piece("B") + finStop + doneLine,
		"comment, then event":           piece("A") + "event: message\n: ping\n" + piece("B") + finStop + doneLine,
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(fake.Raw(body)), nil, func(t *testing.T, b *below) {
				_, got, err := b.post(t, streamBody)
				require.NoError(t, err)
				assert.Contains(t, got, `"A"`)
				assert.Contains(t, got, `"B"`)
			})
		})
	}
}

func TestTransportEndsTheLastEvent(t *testing.T) {
	last := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"B\"},\"finish_reason\":\"stop\"}]}"
	for _, end := range []string{"", "\n"} {
		underSDK(t, script(fake.Raw(piece("A")+last+end)), nil, func(t *testing.T, b *below) {
			_, got, err := b.post(t, streamBody)
			if err == nil {
				assert.True(t, strings.HasSuffix(got, "\n\n"), "a clean end, but an SDK that follows the standard discards the last event: %q", got)
			}
		})
	}
}

func TestTransportGivesWholeEventsOnly(t *testing.T) {
	underSDK(t, script(fake.Raw(piece("A")+finStop+"data: {\"choices\":[],\"usage\":{\"prompt_to")), nil, func(t *testing.T, b *below) {
		_, got, err := b.post(t, streamBody)
		if err == nil {
			assert.NotContains(t, got, "prompt_to", "bytes of a broken event under a clean end")
		}
	})
}

func TestTransportAndTokensThatChangeAllTheTime(t *testing.T) {
	underSDK(t, fake.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
	})}, nil, func(t *testing.T, b *below) {
		for i := range 1100 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/chat/completions", strings.NewReader(plainBody))
			req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Signature=%d", i))
			resp, err := b.client.Do(req)
			if !assert.NoError(t, err, "request %d", i) {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}

func TestAnAnswerOfOneJSONValueALine(t *testing.T) {
	body := `{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}` + "\n" +
		`{"choices":[{"index":0,"delta":{"content":"B"},"finish_reason":null}]}` + "\n" +
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n"
	inWorld(t, script(fake.Raw(body)), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		if err == nil {
			assert.Equal(t, "AB", resp.Message.Content)
		}
	})
	inWorld(t, script(fake.Raw(`{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}`+"\n")), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		if err == nil {
			t.Errorf("a lone delta is taken for a whole answer: %q", resp.Message.Content)
		}
	})
}

func TestTransportTellsAFailureToWhoMetIt(t *testing.T) {
	underSDK(t, script(fake.Hang(), fake.Hang(), fake.Answer("ok")), func(c *llmclient.Config) { c.Clocks.FirstOutput.Limit = 10 * time.Second; c.Retry.Attempts = 1 }, func(t *testing.T, b *below) {
		_, err := retried(t, b, "/v1/chat/completions", "Bearer A", "", strings.NewReader(streamBody))
		require.Error(t, err)
		n := len(b.srv.Requests())
		_, err = retried(t, b, "/v1/chat/completions", "Bearer B", "1", strings.NewReader(streamBody))
		assert.Greater(t, len(b.srv.Requests()), n, "B's request was never sent, it got A's failure: %v", err)
	})
}

func TestTransportAndStreamsThatNobodyAnnounced(t *testing.T) {
	for name, path := range map[string]string{
		"Gemini":   "/v1beta/models/gemini:streamGenerateContent?alt=sse",
		"Ollama":   "/api/chat",
		"audio":    "/v1/audio/speech",
		"download": "GET /v1/files/f/content",
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/models") {
					_, _ = io.WriteString(w, `{}`)
					return
				}
				if name == "Gemini" {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				for i := range 200 {
					fmt.Fprintf(w, "data: {\"n\":%d}\n\n", i)
					w.(http.Flusher).Flush()
					time.Sleep(5 * time.Second)
				}
			}), nil, func(t *testing.T, b *below) {
				method := http.MethodPost
				var in io.Reader = strings.NewReader(`{"contents":[]}`)
				p, get := strings.CutPrefix(path, "GET ")
				if get {
					method, in = http.MethodGet, nil
				}
				_, got, err := b.send(t, method, p, in)
				assert.NoError(t, err, "after %v and %d bytes", time.Since(b.start), len(got))
			})
		})
	}
}

func TestTransportAndASlowUpload(t *testing.T) {
	for _, once := range []bool{false, true} {
		t.Run(fmt.Sprintf("once %v", once), func(t *testing.T) {
			underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/models") {
					_, _ = io.WriteString(w, `{}`)
					return
				}
				buf := make([]byte, 16<<10)
				n := 0
				for {
					k, err := r.Body.Read(buf)
					n += k
					if err != nil {
						break
					}
					time.Sleep(time.Second)
				}
				fmt.Fprintf(w, `{"read":%d}`, n)
			}), nil, func(t *testing.T, b *below) {
				data := bytes.Repeat([]byte("x"), 4<<20)
				var in io.Reader = bytes.NewReader(data)
				if once {
					in = io.MultiReader(in)
				}
				_, got, err := b.send(t, http.MethodPost, "/v1/audio/transcriptions", in)
				if assert.NoError(t, err, "after %v", time.Since(b.start)) {
					assert.Contains(t, got, fmt.Sprint(len(data)))
				}
			})
		})
	}
}

func TestTransportAndALargeDownload(t *testing.T) {
	n := 0
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Length", fmt.Sprint(70<<20))
		buf := make([]byte, 1<<20)
		for range 70 {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	}), nil, func(t *testing.T, b *below) {
		_, got, err := b.send(t, http.MethodGet, "/v1/files/f/content", nil)
		assert.NoError(t, err, "%d bytes, %d requests", len(got), n)
	})
}

func TestTransportAndPingsBehindALargeEvent(t *testing.T) {
	big := `data: {"choices":[],"x":"` + strings.Repeat("x", 4<<20) + `"}` + "\n\n"
	for _, n := range []int{1000, 2000, 4000} {
		body := big + strings.Repeat(":\n\n", n) + piece("A") + finStop + doneLine
		underSDK(t, script(fake.Raw(body)), nil, func(t *testing.T, b *below) {
			var m0, m1 runtime.MemStats
			runtime.ReadMemStats(&m0)
			_, _, err := b.post(t, streamBody)
			runtime.ReadMemStats(&m1)
			require.NoError(t, err)
			assert.Less(t, (m1.TotalAlloc-m0.TotalAlloc)>>20, uint64(200))
		})
	}
}

func TestTransportAndAnObserverThatAsksBack(t *testing.T) {
	var tr *llmclient.Transport
	underSDK(t, script(fake.Unavailable(), fake.Reply(fake.Text("a"), fake.Pause(40*time.Second), fake.Text("b"), fake.Hang()), fake.Answer("ok")), func(c *llmclient.Config) {
		c.Clocks.Gap.Limit = time.Minute
		c.OnEvent = func(llmclient.Event) {
			if tr != nil {
				_ = tr.InFlight()
				for _, cl := range tr.Clients() {
					_ = cl.InFlight()
					_ = cl.Pacer()
				}
				tr.CloseIdleConnections()
			}
		}
	}, func(t *testing.T, b *below) {
		tr = b.tr
		_, _, err := b.post(t, streamBody)
		require.Error(t, err) // it goes silent in mid-answer
	})
}

func TestTransportAndABodyThatBlocks(t *testing.T) {
	underSDK(t, script(fake.Answer("ok")), nil, func(t *testing.T, b *below) {
		outer, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, b.srv.URL()+"/v1/chat/completions", io.NopCloser(blocking{outer}))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(blocking{outer}), nil }
		_, err := b.client.Do(req)
		assert.Error(t, err)
		assert.LessOrEqual(t, time.Since(b.start), 10*time.Second, "in flight meanwhile: %v", b.tr.InFlight())
	})
}

func TestTransportHidesWhatIsSecretInRequests(t *testing.T) {
	for _, h := range []string{"X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "Cf-Aig-Authorization", "Cookie", "?key"} {
		t.Run(h, func(t *testing.T) {
			underSDK(t, script(fake.Error(401, "authentication_error", "", "the key SECRETSECRET is wrong")), nil, func(t *testing.T, b *below) {
				url := b.srv.URL() + "/v1/chat/completions"
				if h == "?key" {
					url += "?key=SECRETSECRET"
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(streamBody))
				if h != "?key" {
					req.Header.Set(h, "SECRETSECRET")
				}
				resp, err := b.client.Do(req)
				require.NoError(t, err)
				_ = resp.Body.Close()
				for _, e := range b.events {
					assert.False(t, strings.Contains(format(e), "SECRETSECRET"), "event %s shows the key", e.Kind)
				}
			})
		})
	}
}

func TestTransportForgetsAFailureOnceItWorks(t *testing.T) {
	underSDK(t, script(fake.Hang(), fake.Answer("ok"), fake.Answer("ok")), func(c *llmclient.Config) { c.Clocks.FirstOutput.Limit = 10 * time.Second; c.Retry.Attempts = 1 }, func(t *testing.T, b *below) {
		_, err := retried(t, b, "/v1/chat/completions", "Bearer A", "", strings.NewReader(streamBody))
		require.Error(t, err)
		_, err = retried(t, b, "/v1/chat/completions", "Bearer A", "", strings.NewReader(streamBody))
		require.NoError(t, err)
		n := len(b.srv.Requests())
		_, err = retried(t, b, "/v1/chat/completions", "Bearer A", "1", strings.NewReader(streamBody))
		assert.Greater(t, len(b.srv.Requests()), n, "an old failure, since disproved, is told: %v", err)
	})
}

func TestTransportSendsWhatCreatesOnce(t *testing.T) {
	made := 0
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		made++ // the job exists now; the gateway in front loses the answer
		if made == 1 {
			w.WriteHeader(504)
			return
		}
		_, _ = w.Write([]byte(`{"id":"batch"}`))
	}), nil, func(t *testing.T, b *below) {
		resp, _, err := b.send(t, http.MethodPost, "/v1/batches", strings.NewReader(`{"input_file_id":"f"}`))
		require.NoError(t, err)
		assert.Equal(t, 504, resp.StatusCode)
		assert.Equal(t, 1, made, "jobs that were made")
	})
}

func TestTransportTakesNoPromptToAnotherHost(t *testing.T) {
	var mu sync.Mutex
	var leaked []string
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Host != "elsewhere.test" {
			w.Header().Set("Location", "http://elsewhere.test/v1/chat/completions")
			w.WriteHeader(307)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		leaked = append(leaked, r.Header.Get("Api-Key"), r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), string(body))
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)
	}), nil, func(t *testing.T, b *below) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/chat/completions", strings.NewReader(plainBody))
		require.NoError(t, err)
		req.Header.Set("Api-Key", "azure-secret")
		req.Header.Set("X-Api-Key", "anthropic-secret")
		req.Header.Set("Authorization", "Bearer openai-secret")
		resp, err := b.client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		assert.Empty(t, leaked, "what another host was given")
	})
}

func TestAThrottleThatSpeaksOfQuotaIsNone(t *testing.T) {
	body := `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. \n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10\nPlease retry in 11.66s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"10"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"11s"}]}}]`
	inWorld(t, script(fake.Status(429, body), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		resp, err := w.client.Chat(t.Context(), hello())
		if assert.NoError(t, err) {
			assert.Equal(t, "ok", resp.Message.Content)
		}
	})
}
