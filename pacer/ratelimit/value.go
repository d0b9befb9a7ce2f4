package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// farthest is how far away a reset may be at most to be believed.
const farthest = 32 * 24 * time.Hour

// count reads a number of requests or tokens. Some servers send a negative number if
// they do not count.
func count(s string) (int, bool) {
	s = strings.TrimSpace(s)
	if first, _, ok := strings.Cut(s, ","); ok {
		s = strings.TrimSpace(first) // in old drafts policies follow the number
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) || f > math.MaxInt32*1e6 {
		return 0, false
	}
	return int(min(f, math.MaxInt)), true
}

// span reads the time until a reset. It may be written as a duration (6m0s, 12ms), as
// seconds, as seconds or milliseconds since 1970, or as a date.
func span(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, false
	}
	d, ok := duration(s, now)
	return d, ok && d > 0 && d <= farthest
}

func duration(s string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		switch {
		case n >= 1e11 && n < 1e14: // milliseconds: from 1973 to 5138
			return time.UnixMilli(int64(n)).Sub(now), true
		case n >= 1e9 && n < 1e11: // seconds: from 2001 to 5138
			return time.Unix(int64(n), int64((n-math.Floor(n))*1e9)).Sub(now), true
		case n < 1e9:
			return time.Duration(n * float64(time.Second)), true
		}
		return 0, false
	}
	days := time.Duration(0)
	if before, after, ok := strings.Cut(s, "d"); ok {
		if n, err := strconv.Atoi(before); err == nil && n >= 0 && n <= 366 {
			days, s = time.Duration(n)*24*time.Hour, after
			if s == "" {
				return days, true
			}
		}
	}
	if d, err := time.ParseDuration(s); err == nil {
		if d < 0 || d > farthest {
			return 0, false
		}
		return days + d, true
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.Sub(now), true
	}
	if t, err := http.ParseTime(s); err == nil {
		return t.Sub(now), true
	}
	return 0, false
}
