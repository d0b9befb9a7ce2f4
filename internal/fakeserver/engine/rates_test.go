package engine_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// Each provider tells of the same limits in its own way: 4 requests and 120
// tokens a minute, of which a request takes 20. The first one takes 53 ms, those
// after it, whose prompt is known, 34 ms.
func TestRateHeaders(t *testing.T) {
	tests := map[string]struct {
		format           engine.Format
		allowed, refused map[string]string // "": not there
	}{
		"OpenAI": {
			engine.OpenAI,
			map[string]string{
				"x-ratelimit-limit-requests": "4", "x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "29.947s",
				"x-ratelimit-limit-tokens": "120", "x-ratelimit-remaining-tokens": "80", "x-ratelimit-reset-tokens": "19.947s",
				"retry-after": "",
			},
			map[string]string{
				"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "59.845s", "retry-after": "15", "retry-after-ms": "14845",
			},
		},
		"OpenAI by default": {"", map[string]string{"x-ratelimit-limit-requests": "4"}, map[string]string{"retry-after-ms": "14845"}},
		"Azure": {
			engine.Azure,
			map[string]string{"x-ratelimit-reset-requests": "30", "x-ratelimit-reset-tokens": "20", "x-ratelimit-remaining-tokens": "80"},
			map[string]string{"x-ratelimit-reset-requests": "60", "retry-after": "15", "retry-after-ms": "14845"},
		},
		"Anthropic": {
			engine.Anthropic,
			map[string]string{
				"anthropic-ratelimit-requests-limit": "4", "anthropic-ratelimit-requests-remaining": "2",
				"anthropic-ratelimit-requests-reset": "2000-01-01T00:00:30Z", "anthropic-ratelimit-tokens-limit": "120",
				"anthropic-ratelimit-tokens-remaining": "80", "anthropic-ratelimit-tokens-reset": "2000-01-01T00:00:20Z",
				"x-ratelimit-limit-requests": "",
			},
			map[string]string{"retry-after": "15", "retry-after-ms": "", "anthropic-ratelimit-requests-remaining": "0"},
		},
		"Groq, whose requests are a day's": {
			engine.Groq,
			map[string]string{
				"x-ratelimit-limit-requests": "4", "x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "11h59m59.95s",
				"x-ratelimit-reset-tokens": "19.95s", "retry-after": "",
			},
			map[string]string{"retry-after": "21600", "retry-after-ms": ""},
		},
		"OpenRouter, of refusals alone": {
			engine.OpenRouter,
			map[string]string{"x-ratelimit-limit": "", "x-ratelimit-limit-requests": "", "retry-after": ""},
			map[string]string{"x-ratelimit-limit": "4", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "946684815001", "retry-after": "15"},
		},
		"the IETF's draft": {
			engine.IETF,
			map[string]string{"ratelimit-policy": `"requests";q=4;w=60, "tokens";q=120;w=60`, "ratelimit": `"requests";r=2;t=30, "tokens";r=80;t=20`},
			map[string]string{"ratelimit": `"requests";r=0;t=60, "tokens";r=40;t=40`, "retry-after": "15"},
		},
		"not at all": {
			engine.Silently,
			map[string]string{"x-ratelimit-limit-requests": "", "ratelimit": ""},
			map[string]string{"retry-after": "", "retry-after-ms": ""},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := exact()
			cfg.Limits = engine.Limits{Requests: 4, Tokens: 120, Format: tt.format}
			inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
				var r reply
				check := func(want map[string]string) {
					t.Helper()
					for name, value := range want {
						assert.Equal(t, value, strings.Join(r.header.Values(name), ", "), name)
					}
				}
				for range 2 {
					r = u.ask(body(""))
					require.Equal(t, 200, r.status)
				}
				check(tt.allowed)
				for range 3 {
					r = u.ask(body(""))
				}
				require.Equal(t, 429, r.status)
				check(tt.refused)
			})
		})
	}
}

func TestAnthropicsErrors(t *testing.T) {
	cfg := exact()
	cfg.Limits.Format = engine.Anthropic
	cfg.Changes = []engine.Change{{Kind: engine.Unavailable}}
	inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
		assert.Equal(t, `{"type":"error","error":{"type":"overloaded_error","message":"No worker is available."}}`, u.ask(body("")).body)
	})
}

// Whoever waits for as long as it was told is let in, and not a moment before.
func TestRetryAfterIsTrue(t *testing.T) {
	for name, refund := range map[string]bool{"what max_tokens held is gone": false, "what was not used comes back": true} {
		t.Run(name, func(t *testing.T) {
			core, err := engine.NewCore(engine.Config{
				Limits: engine.Limits{Tokens: 600, Refund: refund}, Cost: engine.Cost{FrontEnd: -1},
			})
			require.NoError(t, err)
			at := time.Duration(0)
			ask := func() (engine.Result, *engine.Rates) {
				call := core.Submit(at, engine.Request{Prompt: []engine.Segment{{Tokens: 100}}, MaxTokens: 400, Output: 10})
				var end engine.Result
				for _, o := range core.Advance(at) {
					if o.Call == call {
						end = o.End
					}
				}
				return end, call.Rates()
			}
			end, rates := ask()
			assert.Empty(t, end)
			assert.Equal(t, 100, rates.RemainingTokens)

			// Once the answer is over, 390 come back, or they do not.
			at = 5 * time.Second
			core.Advance(at)
			want, wait := engine.Limited, 35*time.Second
			if refund {
				want, wait = "", 0
			}
			end, rates = ask()
			assert.Equal(t, want, end)
			assert.Equal(t, wait, rates.RetryAfter)
			if !refund {
				at += wait - 1
				end, _ = ask()
				assert.Equal(t, engine.Limited, end)
				at++
				end, _ = ask()
				assert.Empty(t, end)
			}
		})
	}
}

// A demand that is larger than the bucket empties a full one: to refuse it for
// ever would be another error.
func TestADemandBeyondTheBucket(t *testing.T) {
	core, err := engine.NewCore(engine.Config{Limits: engine.Limits{Tokens: 600, Window: 10 * time.Second}})
	require.NoError(t, err)
	call := core.Submit(0, engine.Request{Prompt: []engine.Segment{{Tokens: 101}}})
	core.Advance(ms)
	assert.Zero(t, call.Rates().RetryAfter)
	call = core.Submit(ms, engine.Request{Prompt: []engine.Segment{{Tokens: 1}}})
	core.Advance(2 * ms)
	assert.Equal(t, 200*ms-ms, call.Rates().RetryAfter)
}

func TestRatesOfAConcurrentBurst(t *testing.T) {
	cfg := exact()
	cfg.Limits.Requests = 4
	inMemory(t, engine.ServerConfig{Engine: cfg}, func(t *testing.T, u user) {
		codes := make(chan int, 10)
		for range 10 {
			go func() {
				codes <- u.do(context.Background(), http.MethodPost, u.BaseURL()+"/chat/completions", body("")).status
			}()
		}
		count := map[int]int{}
		for range 10 {
			count[<-codes]++
		}
		assert.Equal(t, map[int]int{200: 4, 429: 6}, count)
	})
}
