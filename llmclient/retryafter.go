package llmclient

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// maxRetryAfter is the longest wait that is believed to be meant. It also
// keeps numbers out of the range in which durations overflow.
const maxRetryAfter = 365 * 24 * time.Hour

// parseRetryAfter returns how long the endpoint asks to wait. It knows the
// header Retry-After-Ms (milliseconds, which wins) and Retry-After (RFC 9110,
// section 10.2.3: seconds, here also with a fraction, or a date). A date is
// held against the endpoint's own Date where there is one, since clocks differ.
//
// ok is false if there is no header that makes sense. What lies in the past,
// or is negative, is a wait of zero: the endpoint has nothing to ask, and the
// ordinary backoff applies.
func parseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && finite(ms) {
		return seconds(ms / 1000)
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0, false
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		epoch := float64(now.Unix())
		switch {
		case !finite(s):
			return 0, false
		case s > epoch*500: // a time in milliseconds since 1970
			return seconds(s/1000 - epoch)
		case s > epoch/2: // a time in seconds since 1970
			return seconds(s - epoch)
		}
		return seconds(s)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return seconds(at.Sub(now).Seconds())
}

// Messages name a time in these ways: OpenAI's and Groq's "Please try again in
// 7m12.5s", Azure's "retry after 26 seconds", and "1 minute".
var (
	spokenAt = regexp.MustCompile(`(?i)(?:try again|retry|wait) (?:in |after |for )`)
	amount   = regexp.MustCompile(`(?i)^[\s,]*(\d+(?:\.\d+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)`)
)

// spokenTime adds up the amounts with which a text begins.
func spokenTime(s string) (time.Duration, bool) {
	var sum float64
	some := false
	for {
		m := amount.FindStringSubmatchIndex(s)
		if m == nil {
			break
		}
		end := m[1]
		if end < len(s) && (s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z' || s[end] == '.' && end+1 < len(s) && s[end+1] >= '0' && s[end+1] <= '9') {
			return 0, false // it goes on: what looked like a unit is none
		}
		n, err := strconv.ParseFloat(s[m[2]:m[3]], 64)
		if err != nil {
			return 0, false
		}
		sum, some = sum+n*unit(s[m[4]:m[5]]), true
		s = s[end:]
	}
	if !some {
		return 0, false
	}
	return seconds(sum)
}

// unit returns what an amount is counted in, in seconds.
func unit(name string) float64 {
	switch name = strings.ToLower(name); {
	case name == "ms", strings.HasPrefix(name, "milli"):
		return 1e-3
	case name[0] == 's':
		return 1
	case name[0] == 'm':
		return 60
	}
	return 3600
}

// saidRetryAfter returns how long the endpoint asks to wait in the body of an
// error: gateways drop headers, and Google has none. The members are
// retryDelay (Google, a duration), retry_after_ms, and retry_after (seconds).
func saidRetryAfter(e *chat.ServerError) (time.Duration, bool) {
	var body any
	if json.Unmarshal(e.Raw, &body) == nil {
		if wait, ok := memberRetryAfter(body, 0); ok {
			return wait, true
		}
	}
	at := spokenAt.FindStringIndex(e.Message)
	if at == nil {
		return 0, false
	}
	return spokenTime(e.Message[at[1]:])
}

// memberRetryAfter looks for a time among the members of an error, which wrap
// one another.
func memberRetryAfter(v any, depth int) (time.Duration, bool) {
	if depth > 6 {
		return 0, false
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if wait, ok := memberRetryAfter(x, depth+1); ok {
				return wait, true
			}
		}
	case map[string]any:
		for _, m := range [...]struct {
			name  string
			scale float64
		}{{"retry_after_ms", 1e-3}, {"retry_after", 1}, {"retryAfter", 1}, {"retry_after_seconds", 1}} {
			n, ok := v[m.name].(float64)
			if text, is := v[m.name].(string); is {
				var err error
				n, err = strconv.ParseFloat(text, 64)
				ok = err == nil && finite(n)
			}
			if ok && n > 0 {
				return seconds(n * m.scale)
			}
		}
		if s, ok := v["retryDelay"].(string); ok {
			if d, err := time.ParseDuration(s); err == nil && d > 0 {
				return d, true
			}
		}
		for _, name := range []string{"error", "availability", "metadata", "details"} {
			if wait, ok := memberRetryAfter(v[name], depth+1); ok {
				return wait, true
			}
		}
	}
	return 0, false
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// seconds converts before it scales: a large number must not overflow into a
// negative wait.
func seconds(s float64) (time.Duration, bool) {
	switch {
	case s <= 0:
		return 0, true
	case s >= maxRetryAfter.Seconds():
		return maxRetryAfter, true
	}
	return time.Duration(s * float64(time.Second)), true
}
