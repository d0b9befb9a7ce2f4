package llmclient_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// ask sends a completion request that change has made different, and reads the
// answer.
func (b *below) ask(t *testing.T, change func(*http.Request)) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
	if !assert.NoError(t, err) {
		return
	}
	change(req)
	resp, err := b.client.Do(req)
	if !assert.NoError(t, err) {
		return
	}
	_, err = io.Copy(io.Discard, resp.Body)
	assert.NoError(t, err)
	_ = resp.Body.Close()
}

// header sets a header to a value that has the number of the request in it.
func header(name, format string) func(*http.Request, int) {
	return func(r *http.Request, i int) { r.Header.Set(name, fmt.Sprintf(format, i)) }
}

func query(name, format string) func(*http.Request, int) {
	return func(r *http.Request, i int) {
		q := r.URL.Query()
		q.Set(name, fmt.Sprintf(format, i))
		r.URL.RawQuery = q.Encode()
	}
}

// What changes with every request of one account must not take it past the limits
// of that account.
func TestTransportRequestsOfOneAccountShareLimits(t *testing.T) {
	aws := "AWS4-HMAC-SHA256 Credential=AKID/2026113%d/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=abc"
	for name, change := range map[string]func(*http.Request, int){
		"idempotency keys":     header("Idempotency-Key", "key-%d"),
		"other such keys":      header("X-Idempotency-Key", "key-%d"),
		"traces":               header("Traceparent", "00-%032d-00f067aa0ba902b7-01"),
		"request names":        header("X-Request-Id", "r-%d"),
		"an SDK's own headers": header("X-Stainless-Retry-Token", "%d"),
		"cookies":              header("Cookie", "__cf_bm=%d"),
		"AWS signatures":       header("Authorization", aws),
		"AWS session tokens":   header("X-Amz-Security-Token", "%d"),
		"AWS signed URLs":      query("X-Amz-Signature", "%d"),
		"AWS dated URLs":       query("X-Amz-Credential", "AKID/2026113%d/us-east-1/bedrock/aws4_request"),
		"signed URLs":          query("sig", "%d"),
	} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int64
			slow := fake.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(time.Second)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
			})}
			underSDK(t, slow, func(c *llmclient.Config) { c.Pacer.MaxInFlight = 1 }, func(t *testing.T, b *below) {
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() {
						b.ask(t, func(r *http.Request) {
							r.Header.Set("Authorization", "Bearer one")
							change(r, i)
						})
					})
				}
				wg.Wait()
				assert.EqualValues(t, 1, most.Load(), "requests at once, with a limit of 1")
				assert.Len(t, b.tr.Clients(), 1)
			})
		})
	}
}

func TestTransportKeepsAccountsApart(t *testing.T) {
	for name, change := range map[string]func(*http.Request, int){
		"bearer tokens":       header("Authorization", "Bearer sk-%d"),
		"Anthropic's keys":    header("X-Api-Key", "sk-%d"),
		"Azure's keys":        header("Api-Key", "%d"),
		"Google's keys":       header("X-Goog-Api-Key", "%d"),
		"keys in the URL":     query("key", "%d"),
		"AWS access keys":     header("Authorization", "AWS4-HMAC-SHA256 Credential=AKID%d/20261130/us-east-1/bedrock/aws4_request, Signature=abc"),
		"organizations":       header("OpenAI-Organization", "org-%d"),
		"projects":            header("OpenAI-Project", "proj-%d"),
		"names in lower case": func(r *http.Request, i int) { r.Header["x-api-key"] = []string{fmt.Sprint(i)} },
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(fake.Answer("ok")), nil, func(t *testing.T, b *below) {
				for i := range 3 {
					b.ask(t, func(r *http.Request) { change(r, i%2) })
				}
				assert.Len(t, b.tr.Clients(), 2)
			})
		})
	}
}

// Once there are many accounts, those that were there first keep what is theirs.
func TestTransportAccountsBeyondTheirNumberShare(t *testing.T) {
	reply := func(r *fake.Request) fake.Step {
		if r.Ordinal > 71 {
			return fake.Hang()
		}
		return fake.Answer("ok")
	}
	underSDK(t, fake.Config{Script: reply}, nil, func(t *testing.T, b *below) {
		as := func(i int) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Authorization", fmt.Sprintf("Bearer sk-%d", i)) }
		}
		for i := range 71 {
			b.ask(t, as(i))
		}
		require.Len(t, b.tr.Clients(), 65, "64 of their own, and one that is shared")
		var wg sync.WaitGroup
		for _, i := range []int{0, 63, 64, 70} {
			wg.Go(func() {
				req, _ := http.NewRequestWithContext(contextWith(t, time.Second), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
				as(i)(req)
				_, err := b.client.Do(req)
				assert.Error(t, err)
			})
		}
		synctest.Wait()
		inFlight := map[int]int{}
		for _, c := range b.tr.Clients() {
			inFlight[len(c.InFlight())]++
		}
		wg.Wait()
		assert.Equal(t, map[int]int{0: 62, 1: 2, 2: 1}, inFlight, "clients by their calls in flight")
	})
}

// Close waits for all clients at once, and tells which of them had not ended.
func TestTransportCloseIsBoundedForAllClients(t *testing.T) {
	var hold chan struct{}
	underSDK(t, script(fake.Hang()), func(c *llmclient.Config) {
		told := c.OnEvent
		c.OnEvent = func(e llmclient.Event) {
			told(e)
			if e.Kind == llmclient.EventFailed {
				<-hold
			}
		}
	}, func(t *testing.T, b *below) {
		hold = make(chan struct{})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://host-%d.test/v1/chat/completions", i), strings.NewReader(streamBody))
				_, err := b.client.Do(req)
				assert.ErrorIs(t, err, llmclient.ErrClosed)
			})
		}
		synctest.Wait()
		err := b.tr.Close()
		assert.Equal(t, 2*time.Second, time.Since(b.start))
		for i := range 5 {
			assert.ErrorContains(t, err, fmt.Sprintf("calls to http://host-%d.test", i))
		}
		close(hold)
		wg.Wait()
		assert.NoError(t, b.tr.Close())
	})
}
