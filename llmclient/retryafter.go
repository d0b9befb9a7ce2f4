package llmclient

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/pacer/ratelimit"
)

// maxRetryAfter bounds the waits that endpoints name, some of which are absurd. It
// also keeps durations from overflowing.
const maxRetryAfter = 365 * 24 * time.Hour

// parseRetryAfter returns how long the endpoint asks to wait in its headers:
// in milliseconds (Retry-After-Ms, Azure's X-Ms-Retry-After-Ms, AWS's
// X-Amz-Retry-After, which win), or in Retry-After. The latter has seconds or a date
// (RFC 9110, section 10.2.3). Some servers send fractions, units, other forms of
// dates, times since 1970, or several of these, of which the longest counts. A date
// is compared with the endpoint's own Date header if there is one, since clocks
// differ.
//
// ok is false if no header makes sense. A time that is past or negative is a wait of
// zero: the ordinary backoff applies.
func parseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64); err == nil && finite(ms) {
			return seconds(ms / 1000)
		}
	}
	there := now
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		there = date
	}
	take := func(text string) bool {
		d, read := waitText(text, now, there)
		wait, ok = max(wait, d), ok || read
		return read
	}
	for _, text := range h.Values("Retry-After") {
		if !take(text) { // dates have commas too
			for part := range strings.SplitSeq(text, ",") {
				take(part)
			}
		}
	}
	return wait, ok
}

// resetAfter returns how long it is until requests are allowed again, if rate-limit
// headers say that none are left now and when all are back. The first may be back
// sooner, but no header says when.
func resetAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, left := range ratelimit.Parse(h, now) {
		if left.Remaining == 0 && left.AtOnce && left.Reset > 0 {
			wait, ok = max(wait, left.Reset), true
		}
	}
	return wait, ok
}

// waitText reads a wait that is all of a text. there is the time where it was
// written.
func waitText(text string, now, there time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return waitNumber(s, now)
	}
	if d, rest, ok := spokenTime(text); ok && rest == "" {
		return d, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return 0, false
	}
	return seconds(at.Sub(there).Seconds())
}

// waitNumber reads a number of seconds, of seconds since 1970, or of
// milliseconds since then.
func waitNumber(s float64, now time.Time) (time.Duration, bool) {
	epoch := float64(now.UnixMilli()) / 1000
	switch {
	case !finite(s):
		return 0, false
	case s > epoch*500:
		return seconds(s/1000 - epoch)
	case s > epoch/2:
		return seconds(s - epoch)
	}
	return seconds(s)
}

// amount is one number with a unit, at the beginning of a text: of "7m12.5s",
// "26 seconds", "1 day", "2 hours and 5 minutes" the first.
var amount = regexp.MustCompile(`(?i)^[\s,]*(?:and\s+)?(\d+(?:\.\d+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?)`)

// spokenTime adds up the amounts with which a text begins, and returns what
// follows them.
func spokenTime(s string) (d time.Duration, rest string, ok bool) {
	var sum float64
	for {
		m := amount.FindStringSubmatchIndex(s)
		if m == nil {
			break
		}
		end := m[1]
		if end < len(s) && (s[end]|0x20 >= 'a' && s[end]|0x20 <= 'z' || s[end] == '.' && end+1 < len(s) && s[end+1] >= '0' && s[end+1] <= '9') {
			return 0, "", false // it goes on: what looked like a unit is none
		}
		n, err := strconv.ParseFloat(s[m[2]:m[3]], 64)
		if err != nil {
			return 0, "", false
		}
		sum, ok = sum+n*unit(s[m[4]:m[5]]), true
		s = s[end:]
	}
	if !ok {
		return 0, "", false
	}
	d, ok = seconds(sum)
	return d, s, ok
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
	case name[0] == 'h':
		return 3600
	case name[0] == 'd':
		return 24 * 3600
	}
	return 7 * 24 * 3600
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
