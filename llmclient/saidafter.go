package llmclient

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// saidRetryAfter returns how long the endpoint asks to wait in the body of an
// error: gateways drop headers, and Google has none. It may say so in members,
// in words, and in the error of a provider that it quotes; the longest counts.
func saidRetryAfter(e *chat.ServerError, now time.Time) (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	s := saidTimes{now: now}
	var body any
	if len(e.Raw) <= errorBytes && json.Unmarshal(e.Raw, &body) == nil {
		s.members(body, 0)
	}
	s.text(e.Message)
	return s.longest, s.longest > 0
}

// saidTimes collects the waits that an error names.
type saidTimes struct {
	now     time.Time
	longest time.Duration
	quotes  int // how many errors quote the one that is looked at
}

func (s *saidTimes) take(d time.Duration, ok bool) {
	if ok {
		s.longest = max(s.longest, d)
	}
}

const (
	maxSaidDepth = 6 // how deep the members of an error are looked into
	maxQuotes    = 2 // a gateway before a gateway quotes a quote
)

// members looks at members that name a time, and into those that wrap others:
// not into any, as one may be the request.
func (s *saidTimes) members(v any, depth int) {
	if depth > maxSaidDepth {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			s.members(x, depth+1)
		}
	case map[string]any:
		for name, x := range v {
			switch plainName(name) {
			case "retryafter", "retryafterseconds", "retrydelay", "quotaresetdelay", "estimatedtime",
				"resetsinseconds", "resetinseconds", "resetsat", "resetat", "quotaresettimestamp":
				s.value(x, 1)
			case "retryafterms", "resetinms":
				s.value(x, 1e-3)
			case "headers":
				s.headers(x)
			case "raw":
				if text, ok := x.(string); ok {
					s.text(text)
				}
				s.members(x, depth+1)
			case "error", "errors", "availability", "metadata", "details", "detail", "ratelimit", "data":
				s.members(x, depth+1)
			}
		}
	}
}

// value takes a number, or a text with a number, a duration or a date.
func (s *saidTimes) value(v any, scale float64) {
	var d time.Duration
	var ok bool
	switch v := v.(type) {
	case float64:
		d, ok = waitNumber(v*scale, s.now)
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			d, ok = waitNumber(n*scale, s.now)
		} else {
			d, ok = waitText(v, s.now, s.now)
		}
	}
	s.take(d, ok)
}

// headers takes those of a provider, which gateways show in the body.
func (s *saidTimes) headers(v any) {
	all, _ := v.(map[string]any)
	h := make(http.Header, len(all))
	for name, value := range all {
		if text, ok := value.(string); ok {
			h.Set(name, text)
		}
	}
	s.take(parseRetryAfter(h, s.now))
	s.take(resetAfter(h, s.now))
}

// spokenAt is what stands before a time to wait for: "Please try again in
// 7m12.5s", "retry after 26 seconds", "Please wait 41 seconds", "reset after 2h".
var spokenAt = regexp.MustCompile(`(?i)\b(?:(?:try(?:ing)? again|retry(?:ing)?|resets?|available(?: again)?|wait) (?:in|after|for)|wait)(?: about| approximately| at least| another)? `)

// text takes the times in what is said to a person, and in an error that is
// quoted there.
func (s *saidTimes) text(text string) {
	text = text[:min(len(text), maxWords)]
	for _, at := range spokenAt.FindAllStringIndex(text, -1) {
		d, _, ok := spokenTime(text[at[1]:])
		s.take(d, ok)
	}
	_, quoted, ok := strings.Cut(text, "{")
	if !ok || s.quotes == maxQuotes {
		return
	}
	quoted = "{" + quoted
	var body any
	if json.NewDecoder(strings.NewReader(quoted)).Decode(&body) != nil {
		// As Python prints bytes: its line ends are escaped once more.
		quoted = strings.ReplaceAll(quoted, `\n`, " ")
		if json.NewDecoder(strings.NewReader(quoted)).Decode(&body) != nil {
			return
		}
	}
	s.quotes++
	s.members(body, 0)
	s.quotes--
}
