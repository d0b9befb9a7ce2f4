package llmclient

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// then is the time at which the headers and bodies of these tests come.
var then = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func headerOf(lines ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(lines); i += 2 {
		h.Add(lines[i], lines[i+1])
	}
	return h
}

func TestRetryAfterHeaders(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		want   time.Duration
		ok     bool
	}{
		"none":                            {headerOf(), 0, false},
		"seconds":                         {headerOf("Retry-After", "20"), 20 * time.Second, true},
		"a fraction":                      {headerOf("Retry-After", "0.5"), 500 * time.Millisecond, true},
		"milliseconds":                    {headerOf("Retry-After-Ms", "1500"), 1500 * time.Millisecond, true},
		"milliseconds win":                {headerOf("Retry-After-Ms", "1500", "Retry-After", "2"), 1500 * time.Millisecond, true},
		"milliseconds, Azure":             {headerOf("X-Ms-Retry-After-Ms", "20000"), 20 * time.Second, true},
		"milliseconds, AWS":               {headerOf("X-Amz-Retry-After", "1200"), 1200 * time.Millisecond, true},
		"a date":                          {headerOf("Retry-After", "Mon, 30 Nov 2026 12:00:30 GMT"), 30 * time.Second, true},
		"a date by the server's clock":    {headerOf("Retry-After", "Mon, 30 Nov 2026 10:00:30 GMT", "Date", "Mon, 30 Nov 2026 10:00:00 GMT"), 30 * time.Second, true},
		"a date in RFC 3339":              {headerOf("Retry-After", "2026-11-30T12:00:30Z"), 30 * time.Second, true},
		"the same with a zone, a part":    {headerOf("Retry-After", "2026-11-30T13:00:30.5+01:00"), 30500 * time.Millisecond, true},
		"a date that has passed":          {headerOf("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), 0, true},
		"seconds since 1970":              {headerOf("Retry-After", "1796040030"), 30 * time.Second, true},
		"milliseconds since 1970":         {headerOf("Retry-After", "1796040030500"), 30500 * time.Millisecond, true},
		"a unit":                          {headerOf("Retry-After", "30s"), 30 * time.Second, true},
		"as Go prints it":                 {headerOf("Retry-After", "1m0s"), time.Minute, true},
		"a day":                           {headerOf("Retry-After", "1 day"), 24 * time.Hour, true},
		"the same twice in one line":      {headerOf("Retry-After", "20, 20"), 20 * time.Second, true},
		"two in one line":                 {headerOf("Retry-After", "5, 20s"), 20 * time.Second, true},
		"two lines":                       {headerOf("Retry-After", "20", "Retry-After", "5"), 20 * time.Second, true},
		"two dates in one line":           {headerOf("Retry-After", "Mon, 30 Nov 2026 12:00:30 GMT", "Retry-After", "1"), 30 * time.Second, true},
		"less than nothing":               {headerOf("Retry-After", "-1"), 0, true},
		"a word":                          {headerOf("Retry-After", "soon"), 0, false},
		"a unit that is none":             {headerOf("Retry-After", "30 somethings"), 0, false},
		"more than a duration can hold":   {headerOf("Retry-After", "1e300 "), maxRetryAfter, true},
		"no number":                       {headerOf("Retry-After", "NaN"), 0, false},
		"more days than are meant to be":  {headerOf("Retry-After", "9999999999999999 days"), maxRetryAfter, true},
		"hours are handed on as they are": {headerOf("Retry-After", "43200"), 12 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, ok := parseRetryAfter(tc.header, then)
			assert.Equal(t, tc.want, d)
			assert.Equal(t, tc.ok, ok)
		})
	}
}

func TestResetAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		want   time.Duration
		ok     bool
	}{
		"none":                            {headerOf(), 0, false},
		"OpenRouter, milliseconds":        {headerOf("X-RateLimit-Limit", "50", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796083200000"), 12 * time.Hour, true},
		"an IETF draft":                   {headerOf("RateLimit-Limit", "50", "RateLimit-Remaining", "0", "RateLimit-Reset", "43200"), 12 * time.Hour, true},
		"the newer one":                   {headerOf("RateLimit", `"requests";r=0;t=30`), 30 * time.Second, true},
		"something is left":               {headerOf("RateLimit-Remaining", "1", "RateLimit-Reset", "43200"), 0, false},
		"no reset":                        {headerOf("RateLimit-Remaining", "0"), 0, false},
		"a reset that has passed":         {headerOf("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1796040000000"), 0, false},
		"the longer of two":               {headerOf("RateLimit", `"requests";r=0;t=30, "tokens";r=0;t=50`), 50 * time.Second, true},
		"the other is not used up":        {headerOf("RateLimit", `"requests";r=0;t=30, "tokens";r=7;t=50`), 30 * time.Second, true},
		"it comes back bit by bit, Groq":  {headerOf("X-RateLimit-Remaining-Requests", "0", "X-RateLimit-Reset-Requests", "2h"), 0, false},
		"an Anthropic subscription":       {headerOf("Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", "1796043600"), time.Hour, true},
		"farther than anybody has waited": {headerOf("RateLimit-Remaining", "0", "RateLimit-Reset", "99999999"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, ok := resetAfter(tc.header, then)
			assert.Equal(t, tc.want, d)
			assert.Equal(t, tc.ok, ok)
		})
	}
}

// Which of several times counts.
func TestTheTimeToComeBack(t *testing.T) {
	status := answeredWith
	remaining := []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "43200"}
	judge(t, map[string]judgement{
		"rate headers of a 429 without a time": {status(429, `{"error":{"message":"x"}}`, remaining...), waits(isThrottle, 12*time.Hour)},
		"Retry-After beats them":               {status(429, `{"error":{"message":"x"}}`, append(remaining, "Retry-After", "3")...), waits(isThrottle, 3*time.Second)},
		"the body beats them":                  {status(429, `{"error":{"message":"try again in 3s"}}`, remaining...), waits(isThrottle, 3*time.Second)},
		"a day that rate headers bound":        {status(429, `{"error":{"message":"Rate limit exceeded: free-models-per-day.","code":429}}`, remaining...), waits(isThrottle, 12*time.Hour)},
		"rate headers of a 503":                {status(503, `{"error":{"message":"x"}}`, remaining...), isBusy},
		"a header of zero leaves the body":     {status(429, `{"error":{"message":"try again in 3s"}}`, "Retry-After", "0"), waits(isThrottle, 3*time.Second)},
		"a header of zero alone":               {status(429, `{"error":{"message":"x"}}`, "Retry-After", "0"), waits(isThrottle, 0)},
		"a model that is loading":              {status(503, `{"error":"Model x is currently loading","estimated_time":20.0}`), waits(isBusy, 20*time.Second)},
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e300", "NaN", "Inf", "0x10", "Wed, 21 Oct 2015 07:28:00 GMT", "Sun, 06 Nov 9994 08:49:37 GMT", " 5 ", "5s", "1m0s", "20, 20", "2026-11-30T12:00:30Z", "1 day and 2 hours"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, ms, after, date string) {
		h := http.Header{}
		h.Set("Retry-After-Ms", ms)
		h.Set("Retry-After", after)
		h.Set("Date", date)
		d, ok := parseRetryAfter(h, time.Now())
		assert.GreaterOrEqual(t, d, time.Duration(0))
		assert.LessOrEqual(t, d, maxRetryAfter)
		if !ok {
			assert.Zero(t, d)
		}
	})
}
