package llmclient

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
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
