package llmclient

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
)

func TestSaidRetryAfter(t *testing.T) {
	text := func(s string) string {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": s}})
		return string(b)
	}
	for name, tc := range map[string]struct {
		body string
		want time.Duration
	}{
		"nothing":                           {`{"error":{"message":"x"}}`, 0},
		"seconds":                           {`{"error":{"message":"x","retry_after":12}}`, 12 * time.Second},
		"seconds as a text":                 {`{"error":{"message":"x","retry_after":"12"}}`, 12 * time.Second},
		"seconds with a unit":               {`{"error":{"message":"x","retry_after":"15s"}}`, 15 * time.Second},
		"milliseconds":                      {`{"error":{"message":"x","retry_after_ms":1500}}`, 1500 * time.Millisecond},
		"milliseconds as a text":            {`{"error":{"message":"x","retryAfterMs":"1500"}}`, 1500 * time.Millisecond},
		"beside the error":                  {`{"error":"x","retryAfter":7}`, 7 * time.Second},
		"Google":                            {`{"error":{"message":"x","details":[{"@type":"y"},{"retryDelay":"31.5s"}]}}`, 31500 * time.Millisecond},
		"Google, in a list":                 {`[{"error":{"message":"x","details":[{"retryDelay":"31s"}]}}]`, 31 * time.Second},
		"Google, quotaResetDelay":           {`{"error":{"code":429,"message":"You have exhausted your capacity on this model.","details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quotaResetDelay":"2h1m22.46s"}}]}}`, 2*time.Hour + time.Minute + 22460*time.Millisecond},
		"Google, quotaResetTimeStamp":       {`{"error":{"message":"x","details":[{"metadata":{"quotaResetTimeStamp":"2026-11-30T13:00:00Z"}}]}}`, time.Hour},
		"Codex":                             {`{"error":{"type":"usage_limit_reached","message":"x","resets_in_seconds":13872}}`, 13872 * time.Second},
		"Codex, a moment":                   {`{"error":{"type":"usage_limit_reached","message":"x","resets_at":1796043600}}`, time.Hour},
		"LiteLLM, a moment":                 {`{"error":{"message":"x","reset_at":"2026-11-30T12:00:45Z"}}`, 45 * time.Second},
		"a moment that has passed":          {`{"error":{"message":"x","resets_at":1796030000}}`, 0},
		"Hugging Face":                      {`{"error":"Model x is currently loading","estimated_time":20.0}`, 20 * time.Second},
		"OpenRouter":                        {`{"error":{"message":"x","availability":{"retry_after":12}}}`, 12 * time.Second},
		"OpenRouter, a provider's words":    {`{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"Quota. Please retry in 31s.\"}}"}}}`, 31 * time.Second},
		"OpenRouter, a provider's members":  {`{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"details\":[{\"retryDelay\":\"31s\"}]}}"}}}`, 31 * time.Second},
		"OpenRouter, a provider's object":   {`{"error":{"message":"Provider returned error","metadata":{"raw":{"error":{"retry_after":31}}}}}`, 31 * time.Second},
		"OpenRouter, headers":               {`{"error":{"message":"x","metadata":{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1796040029000"}}}}`, 29 * time.Second},
		"headers with a time":               {`{"error":{"message":"x","metadata":{"headers":{"retry-after":"9"}}}}`, 9 * time.Second},
		"LiteLLM quotes JSON":               {text("litellm.RateLimitError: VertexAIException - {\n  \"error\": {\n    \"details\": [{\"retryDelay\": \"31s\"}]\n  }\n}. Received Model Group=x"), 31 * time.Second},
		"LiteLLM quotes bytes of Python":    {text(`litellm.RateLimitError: b'{\n  "error": {\n    "details": [{"retryDelay": "31s"}]\n  }\n}\n'`), 31 * time.Second},
		"Groq":                              {text("Please try again in 7m12.5s. Visit"), 432500 * time.Millisecond},
		"Azure":                             {text("Please retry after 26 seconds."), 26 * time.Second},
		"GitHub Models":                     {text("Rate limit of 10 per 60s exceeded for UserByModelByMinute. Please wait 41 seconds before retrying."), 41 * time.Second},
		"GitHub Models, a day":              {text("Rate limit of 8 per 86400s exceeded for UserByModelByDay. Please wait 41123 seconds before retrying."), 41123 * time.Second},
		"Gemini's quota":                    {text("Your quota will reset after 2h13m4s."), 2*time.Hour + 13*time.Minute + 4*time.Second},
		"a limit that resets":               {text("Limit exhausted, it resets in 5 hours and 3 minutes"), 5*time.Hour + 3*time.Minute},
		"Django":                            {`{"detail":"Request was throttled. Expected available in 18.0 seconds."}`, 18 * time.Second},
		"a day":                             {text("Daily limit. Please try again in 1 day."), 24 * time.Hour},
		"about a minute":                    {text("please wait about 1 minute"), time.Minute},
		"the second of a text":              {text("Please retry after a while; you can try again in 20s."), 20 * time.Second},
		"the longest of a text":             {text("Please wait 5 seconds. Then retry after 20s, or wait for 10s."), 20 * time.Second},
		"the longest of words and members":  {`{"error":{"message":"try again in 20s","retry_after":5}}`, 20 * time.Second},
		"the other way round":               {`{"error":{"message":"try again in 5s","retry_after":20}}`, 20 * time.Second},
		"a rate is no wait":                 {text("Rate limit of 10 per 60s exceeded"), 0},
		"what has been waited is no wait":   {text("gave up: we waited 600s in the queue"), 0},
		"Anthropic, of a budget":            {text("You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."), 12 * time.Hour},
		"LiteLLM, of a minute":              {text("Rate limit exceeded. Current limit: 2, Remaining: 0. Limit resets at: 2026-11-30 12:00:57 UTC"), 57 * time.Second},
		"a moment east of here":             {text("Your limit will reset at 2026-11-30 21:00:00 +0800."), time.Hour},
		"a moment with all that belongs":    {text("Please try again after 2026-11-30T14:30:00.123+01:30"), time.Hour},
		"a moment that is long over":        {text("Your limit will reset at 2026-11-29 21:00:00 UTC"), 0},
		"a moment that there is not":        {text("Your limit will reset at 2026-13-41 29:61:00 UTC"), 0},
		"a clock without a zone, far away":  {text("Weekly limit exhausted. Your limit will reset at 2026-12-05 12:00:00"), 5 * 24 * time.Hour},
		"likewise in Chinese":               {text("已达到每周使用上限。您的限额将在 2026-12-05 12:00:00 重置。"), 5 * 24 * time.Hour},
		"a day without a clock, far away":   {text("Your quota resets on 2026-12-05."), 4*24*time.Hour + 12*time.Hour},
		"a day without a clock":             {text("Your quota resets on 2026-12-01."), 0},
		"a member without a zone, far away": {`{"error":{"message":"x","reset_at":"2026-12-05T12:00:00.123456"}}`, 5 * 24 * time.Hour},
		"a member without a zone":           {`{"error":{"message":"x","reset_at":"2026-11-30T20:00:00.123456"}}`, 0},
		"a member with words for its zone":  {`{"error":{"message":"x","reset_at":"2026-11-30 12:00:45 UTC"}}`, 45 * time.Second},
		"a day until which it lasts":        {text("Too many requests. The free tier of this model is available until 2026-12-31."), 0},
		"a date of something else":          {text("The model gpt-x of 2026-12-05 is not available"), 0},
		"a clock without a zone is none":    {text("Your limit will reset at 2026-12-01 05:38:28"), 0},
		"a unit that is none":               {text("try again in 9.9.9s"), 0},
		"a number without a unit":           {text("retry in 3"), 0},
		"a number below zero":               {`{"error":{"message":"x","retry_after":-4}}`, 0},
		"neither a number nor a time":       {`{"error":{"message":"x","retry_after":true}}`, 0},
		"what the request had":              {`{"error":{"message":"x","input":{"retry_after":99}}}`, 0},
		"too deep":                          {strings.Repeat(`{"error":`, 9) + `{"retry_after":9}` + strings.Repeat(`}`, 9), 0},
		"as deep as it may be":              {strings.Repeat(`{"error":`, 6) + `{"retry_after":9}` + strings.Repeat(`}`, 6), 9 * time.Second},
		"more than anybody has waited":      {`{"error":{"message":"x","retry_after":1e300}}`, maxRetryAfter},
		"beyond what is read of a long one": {text(strings.Repeat("x ", maxWords/2) + "try again in 5s"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := chat.ParseError([]byte(tc.body))
			if e == nil {
				e = &chat.ServerError{Raw: json.RawMessage(tc.body)}
			}
			d, ok := saidRetryAfter(e, then)
			assert.Equal(t, tc.want, d)
			assert.Equal(t, tc.want > 0, ok)
		})
	}
	d, ok := saidRetryAfter(nil, then)
	assert.Zero(t, d)
	assert.False(t, ok)
}

// A quote in a quote in a quote is not unwound for ever.
func TestQuotesWithinQuotesAreBounded(t *testing.T) {
	body := `{"error":{"message":"x","retry_after":9}}`
	quote := func() {
		b, err := json.Marshal(map[string]any{"error": map[string]any{"message": "x", "metadata": map[string]any{"raw": body}}})
		require.NoError(t, err)
		body = string(b)
	}
	said := func() time.Duration {
		d, _ := saidRetryAfter(&chat.ServerError{Raw: json.RawMessage(body)}, then)
		return d
	}
	quote()
	quote()
	assert.Equal(t, 9*time.Second, said())
	quote()
	assert.Zero(t, said())
}

func FuzzSaidRetryAfter(f *testing.F) {
	f.Add(`{"error":{"message":"try again in 1m0s","details":[{"retryDelay":"7s"}]}}`)
	f.Add(`{"error":{"metadata":{"raw":"{\"error\":{}}","headers":{"X-RateLimit-Reset":"1e9","X-RateLimit-Remaining":"0"}}}}`)
	f.Add(`{"resets_at":1796043600,"error":"wait 99999999999999 weeks {"}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := chat.ParseError([]byte(body))
		if e == nil {
			e = &chat.ServerError{Message: body}
		}
		d, ok := saidRetryAfter(e, then)
		assert.Equal(t, ok, d > 0)
		assert.LessOrEqual(t, d, maxRetryAfter)
		for _, status := range []int{400, 403, 413, 429, 500, 503} {
			classify(outcome{status: status, server: e}, then)
		}
		classify(outcome{status: 200, server: e, inside: true}, then)
	})
}
