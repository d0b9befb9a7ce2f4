package ratelimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/pacer"
	"github.com/neverhang/neverhang/pacer/ratelimit"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// headers reads headers as they are written on the wire.
func headers(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		h.Add(k, strings.TrimSpace(v))
	}
	return h
}

func TestParse(t *testing.T) {
	requests := func(remaining, limit int, reset time.Duration) pacer.Allowance {
		return pacer.Allowance{Remaining: remaining, Limit: limit, Reset: reset}
	}
	tokens := func(remaining, limit int, reset time.Duration) pacer.Allowance {
		return pacer.Allowance{Tokens: true, Remaining: remaining, Limit: limit, Reset: reset}
	}
	atOnce := func(a pacer.Allowance) pacer.Allowance {
		a.AtOnce = true
		return a
	}
	const s, ms = time.Second, time.Millisecond
	for name, tt := range map[string]struct {
		lines string
		want  []pacer.Allowance
	}{
		"nothing": {"content-type: text/plain", nil},
		"OpenAI": {`
			x-ratelimit-limit-requests: 5000
			x-ratelimit-remaining-requests: 4999
			x-ratelimit-reset-requests: 12ms
			x-ratelimit-limit-tokens: 160000
			x-ratelimit-remaining-tokens: 159976
			x-ratelimit-reset-tokens: 6m0s`,
			[]pacer.Allowance{requests(4999, 5000, 12*ms), tokens(159976, 160000, 360*s)}},
		"Azure counts whole seconds": {`
			x-ratelimit-limit-tokens: 1000
			x-ratelimit-remaining-tokens: 0
			x-ratelimit-reset-tokens: 17`,
			[]pacer.Allowance{tokens(0, 1000, 17*s)}},
		"Azure says that it does not say": {`
			x-ratelimit-limit-tokens: -1
			x-ratelimit-remaining-tokens: -1
			x-ratelimit-reset-tokens: 0`, nil},
		"Groq's requests are those of a day": {`
			x-ratelimit-limit-requests: 14400
			x-ratelimit-remaining-requests: 14370
			x-ratelimit-reset-requests: 2m59.56s
			x-ratelimit-remaining-tokens: 17997
			x-ratelimit-reset-tokens: 7.66s`,
			[]pacer.Allowance{requests(14370, 14400, 179560*ms), tokens(17997, 0, 7660*ms)}},
		"Anthropic tells dates": {`
			anthropic-ratelimit-requests-limit: 50
			anthropic-ratelimit-requests-remaining: 49
			anthropic-ratelimit-requests-reset: 2026-11-30T12:00:01Z
			anthropic-ratelimit-tokens-limit: 40000
			anthropic-ratelimit-tokens-remaining: 100
			anthropic-ratelimit-tokens-reset: 2026-11-30T12:01:00Z
			anthropic-ratelimit-input-tokens-remaining: 50
			anthropic-ratelimit-input-tokens-reset: 2026-11-30T12:01:00Z`,
			[]pacer.Allowance{requests(49, 50, s), tokens(100, 40000, 60*s)}},
		"Anthropic has no output left": {`
			anthropic-ratelimit-tokens-remaining: 100
			anthropic-ratelimit-tokens-reset: 2026-11-30T12:01:00Z
			anthropic-ratelimit-output-tokens-limit: 8000
			anthropic-ratelimit-output-tokens-remaining: 0
			anthropic-ratelimit-output-tokens-reset: 2026-11-30T12:00:20Z`,
			[]pacer.Allowance{tokens(0, 8000, 20*s)}},
		"an Anthropic subscription that is used up": {`
			anthropic-ratelimit-unified-status: rejected
			anthropic-ratelimit-unified-reset: 1796040030
			anthropic-ratelimit-unified-5h-utilization: 1.0`,
			[]pacer.Allowance{atOnce(requests(0, 0, 30*s))}},
		"an Anthropic subscription that is not": {`
			anthropic-ratelimit-unified-status: allowed
			anthropic-ratelimit-unified-reset: 1796040030
			anthropic-ratelimit-unified-5h-utilization: 0.4`, nil},
		"the week of a subscription outlasts its five hours": {`
			anthropic-ratelimit-unified-5h-status: rejected
			anthropic-ratelimit-unified-5h-reset: 1796040030
			anthropic-ratelimit-unified-7d-status: rejected
			anthropic-ratelimit-unified-7d-reset: 1796040090`,
			[]pacer.Allowance{atOnce(requests(0, 0, 90*s))}},
		"Mistral": {`
			x-ratelimitbysize-limit-minute: 500000
			x-ratelimitbysize-remaining-minute: 499900
			ratelimitbysize-reset: 38`,
			[]pacer.Allowance{atOnce(tokens(499900, 500000, 38*s))}},
		"Together": {`
			x-ratelimit-limit: 10
			x-ratelimit-remaining: 9
			x-ratelimit-reset: 0.1
			x-tokenlimit-limit: 3000
			x-tokenlimit-remaining: 2990
			x-tokenlimit-reset: 1`,
			[]pacer.Allowance{atOnce(requests(9, 10, 100*ms)), atOnce(tokens(2990, 3000, s))}},
		"OpenRouter refuses": {`
			x-ratelimit-limit: 20
			x-ratelimit-remaining: 0
			x-ratelimit-reset: 1796040005000`,
			[]pacer.Allowance{atOnce(requests(0, 20, 5*s))}},
		"a draft of the IETF": {`
			ratelimit-policy: "requests";q=100;w=60, "tokens";q=30000;w=60
			ratelimit: "requests";r=12;t=30, "tokens";r=0;t=5`,
			[]pacer.Allowance{atOnce(requests(12, 100, 30*s)), atOnce(tokens(0, 30000, 5*s))}},
		"the same on lines of their own, without quotes or policy": {`
			ratelimit: default;r=12;t=30
			ratelimit: burst;r=3;t=1`,
			[]pacer.Allowance{atOnce(requests(3, 0, s))}},
		"places are not a rate": {`ratelimit: "concurrent-requests";r=0;t=30`, nil},
		"a draft before that":   {`ratelimit: limit=100, remaining=12, reset=30`, []pacer.Allowance{atOnce(requests(12, 100, 30*s))}},
		"and before that": {`
			ratelimit-limit: 100, 100;w=60
			ratelimit-remaining: 12
			ratelimit-reset: 30`,
			[]pacer.Allowance{atOnce(requests(12, 100, 30*s))}},
		"of two the tighter": {`
			x-ratelimit-remaining-requests: 20
			x-ratelimit-reset-requests: 1s
			x-ratelimit-remaining: 3
			x-ratelimit-reset: 7`,
			[]pacer.Allowance{atOnce(requests(3, 0, 7*s))}},
		"a server whose clock is an hour ahead of ours": {`
			date: Mon, 30 Nov 2026 13:00:00 GMT
			anthropic-ratelimit-requests-remaining: 0
			anthropic-ratelimit-requests-reset: 2026-11-30T13:00:20Z`,
			[]pacer.Allowance{requests(0, 0, 20*s)}},
		"and one whose clock is an hour behind": {`
			date: Mon, 30 Nov 2026 11:00:00 GMT
			x-ratelimit-remaining: 0
			x-ratelimit-reset: 1796036405000
			x-tokenlimit-remaining: 0
			x-tokenlimit-reset: 7`,
			[]pacer.Allowance{atOnce(requests(0, 0, 5*s)), atOnce(tokens(0, 0, 7*s))}},
		"clocks that differ by five seconds": {`
			date: Mon, 30 Nov 2026 12:00:05 GMT
			x-ratelimit-remaining: 0
			x-ratelimit-reset: Mon, 30 Nov 2026 12:00:09 GMT`,
			[]pacer.Allowance{atOnce(requests(0, 0, 4*s))}},
		"clocks that differ by less, or an answer that was on its way for so long": {`
			date: Mon, 30 Nov 2026 11:59:56 GMT
			x-ratelimit-remaining: 0
			x-ratelimit-reset: Mon, 30 Nov 2026 12:00:09 GMT`,
			[]pacer.Allowance{atOnce(requests(0, 0, 9*s))}},
		"a date that is none": {`
			date: yesterday
			x-ratelimit-remaining: 0
			x-ratelimit-reset: 1796040005000`,
			[]pacer.Allowance{atOnce(requests(0, 0, 5*s))}},
		"tokens alone, as Together has them": {"x-tokenlimit-remaining: 5\nx-tokenlimit-reset: 1", []pacer.Allowance{atOnce(tokens(5, 0, s))}},
		"a subscription that is used up, in other letters": {`
			anthropic-ratelimit-unified-status:  allowed
			anthropic-ratelimit-unified-5h-status:  REJECTED
			anthropic-ratelimit-unified-5h-reset: 1796040030`,
			[]pacer.Allowance{atOnce(requests(0, 0, 30*s))}},
		"a policy in capital letters": {`
			ratelimit-policy: "Requests";q=100;w=60
			ratelimit: "Requests";r=12;t=30`,
			[]pacer.Allowance{atOnce(requests(12, 100, 30*s))}},
		"a draft without a time":           {"ratelimit: limit=100, remaining=0", nil},
		"a draft without a count":          {"ratelimit: limit=100, reset=30", nil},
		"a draft without either":           {"ratelimit: \"requests\";r=0, \"tokens\";t=5", nil},
		"a count that is no number":        {"x-ratelimit-remaining-requests: NaN\nx-ratelimit-reset-requests: 5s", nil},
		"a time that is no number":         {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: NaN", nil},
		"an epoch with a part of a second": {"x-ratelimit-remaining: 0\nx-ratelimit-reset: 1796040005.5", []pacer.Allowance{atOnce(requests(0, 0, 5500*ms))}},
		"a time of nothing":                {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 0", nil},
		"a duration of less than nothing":  {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: -5s", nil},
		"a month":                          {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 32d", []pacer.Allowance{requests(0, 0, 32*24*time.Hour)}},
		"more than a month":                {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 32d1s", nil},
		"days beyond counting":             {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 9000000000000d", nil},
		"days that wrap round":             {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 213504d", nil},
		"days of less than nothing":        {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: -1d48h", nil},
		"a count without a time":           {"x-ratelimit-remaining-requests: 0\nx-ratelimit-limit-requests: 10", nil},
		"a time without a count":           {"x-ratelimit-reset-requests: 5s", nil},
		"a time in the past":               {"anthropic-ratelimit-requests-remaining: 0\nanthropic-ratelimit-requests-reset: 2026-11-30T11:59:59Z", nil},
		"a time that is now":               {"anthropic-ratelimit-requests-remaining: 0\nanthropic-ratelimit-requests-reset: 2026-11-30T12:00:00Z", nil},
		"a time in another age":            {"x-ratelimit-remaining: 0\nx-ratelimit-reset: 99999999999", nil},
		"a time before all times":          {"x-ratelimit-remaining: 0\nx-ratelimit-reset: -5", nil},
		"an epoch in microseconds":         {"x-ratelimit-remaining: 0\nx-ratelimit-reset: 1796040005000000", nil},
		"a date as HTTP writes it":         {"x-ratelimit-remaining: 0\nx-ratelimit-reset: Mon, 30 Nov 2026 12:00:09 GMT", []pacer.Allowance{atOnce(requests(0, 0, 9*s))}},
		"days":                             {"x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1d2h3m", []pacer.Allowance{requests(0, 0, 26*time.Hour+3*time.Minute)}},
		"words":                            {"x-ratelimit-remaining-requests: many\nx-ratelimit-reset-requests: soon", nil},
		"not a number":                     {"x-ratelimit-remaining-requests: NaN\nx-ratelimit-reset-requests: NaN", nil},
		"endless":                          {"x-ratelimit-remaining-requests: Inf\nx-ratelimit-reset-requests: +Inf", nil},
		"a number too large to be one":     {"x-ratelimit-remaining-requests: 1e300\nx-ratelimit-reset-requests: 1s", nil},
		"a part of a request is none":      {"x-ratelimit-remaining-requests: 0.9\nx-ratelimit-reset-requests: 1s", []pacer.Allowance{requests(0, 0, s)}},
		"a limit that is not said":         {"x-ratelimit-limit-requests: -1\nx-ratelimit-remaining-requests: 4\nx-ratelimit-reset-requests: 1s", []pacer.Allowance{requests(4, 0, s)}},
		"a list that is only separators":   {"ratelimit: ,;,;=;,", nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, ratelimit.Parse(headers(tt.lines), now))
		})
	}
}

// What a simulated server writes, in the format of each provider, is understood.
func TestServers(t *testing.T) {
	for _, format := range engine.Formats() {
		t.Run(string(format), func(t *testing.T) {
			c, err := engine.Listen(engine.ServerConfig{Engine: engine.Config{Limits: engine.Limits{Requests: 10, Format: format}}})
			require.NoError(t, err)
			defer c.Close()
			resp, err := http.Post(c.BaseURL()+"/chat/completions", "application/json",
				strings.NewReader(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`))
			require.NoError(t, err)
			defer resp.Body.Close()
			got := ratelimit.Parse(resp.Header, time.Now())
			if format == engine.OpenRouter || format == engine.Silently {
				assert.Empty(t, got, "it tells only those it refuses")
				return
			}
			require.Len(t, got, 1)
			assert.Equal(t, 9, got[0].Remaining)
			assert.Equal(t, 10, got[0].Limit)
			assert.Positive(t, got[0].Reset)
			assert.False(t, got[0].Tokens)
		})
	}
}

// Whatever comes, nothing panics, and what is returned can be true.
func FuzzParse(f *testing.F) {
	f.Add("x-ratelimit-remaining-requests", "5", "x-ratelimit-reset-requests", "1s")
	f.Add("ratelimit", `"tokens";r=0;t=5`, "ratelimit-policy", `"tokens";q=30`)
	f.Add("anthropic-ratelimit-unified-status", "rejected", "anthropic-ratelimit-unified-reset", "1796040030")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		h := http.Header{}
		h.Add(k1, v1)
		h.Add(k2, v2)
		got := ratelimit.Parse(h, now)
		if len(got) > 2 {
			t.Fatalf("%d allowances", len(got))
		}
		for _, a := range got {
			if a.Remaining < 0 || a.Limit < 0 || a.Reset <= 0 || a.Reset > 33*24*time.Hour {
				t.Fatalf("%+v", a)
			}
		}
	})
}

func ExampleParse() {
	h := http.Header{}
	h.Set("X-Ratelimit-Limit-Requests", "60")
	h.Set("X-Ratelimit-Remaining-Requests", "0")
	h.Set("X-Ratelimit-Reset-Requests", "1m0s")

	p, _ := pacer.New(pacer.Config{})
	p.Heed(nil, ratelimit.Parse(h, time.Now())...)
	fmt.Println(p.TryAcquire() == nil) // one is back in a second
	// Output: true
}
