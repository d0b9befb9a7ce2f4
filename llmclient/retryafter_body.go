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

// saidRetryAfter returns how long the endpoint asks to wait in the body of an error,
// since gateways drop headers and Google sends none. The time may stand in members,
// in words, and in a provider's error that is quoted; the longest counts.
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

// members looks at members that name a time, and into known members that wrap others.
// It does not look into all, since one may hold the request.
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
		} else if d, ok = waitText(v, s.now, s.now); !ok {
			s.moment(namedMoment.FindStringSubmatch(v))
		}
	}
	s.take(d, ok)
}

// headers takes a provider's headers, which gateways show in the body.
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

// spokenAt matches the words before a time to wait for: "Please try again in
// 7m12.5s", "retry after 26 seconds", "Please wait 41 seconds", "reset after 2h".
var spokenAt = regexp.MustCompile(`(?i)\b(?:(?:try(?:ing)? again|retry(?:ing)?|resets?|available(?: again)?|wait) (?:in|after|for)|wait)(?: about| approximately| at least| another)? `)

// Moments at which to come back, as they are named to people: "You will regain
// access on 2026-12-01 at 00:00 UTC", "Limit resets at: 2026-12-01 21:54:18 UTC".
// Times of day without a date are in an unknown zone and are ignored.
const (
	momentWords = `(\d{4}-\d\d-\d\d)(?:(?:T| at | )(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?)?`
	momentAfter = `(?i)(?:\b(?:resets?|regain access|again|retry)(?: (?:on|at|after|from))?:?|将(?:在|于)) ?`
)

var (
	namedMoment  = regexp.MustCompile(`^` + momentWords + `$`)
	spokenMoment = regexp.MustCompile(momentAfter + momentWords)
)

// moment takes a moment that has been found. Without a zone it may be wrong by half a
// day and more, so it counts only if it is more than a day away: no call waits that
// long, and the error says so.
func (s *saidTimes) moment(found []string) {
	if found == nil {
		return
	}
	date, clock, zone := found[1], found[2], found[3]
	layout := time.DateOnly
	switch len(clock) {
	case len("15:04"):
		layout += " 15:04"
	case len("15:04:05"):
		layout += " 15:04:05"
	}
	least := time.Duration(0)
	switch {
	case zone == "":
		least = 24 * time.Hour
	case zone[0] == '+' || zone[0] == '-':
		layout += " -0700"
		zone = " " + strings.Replace(zone, ":", "", 1)
	default:
		zone = ""
	}
	at, err := time.Parse(layout, strings.TrimSpace(date+" "+clock)+zone)
	if d := at.Sub(s.now); err == nil && d > least {
		s.take(seconds(d.Seconds()))
	}
}

// text takes the times in a message, and in an error that is quoted there.
func (s *saidTimes) text(text string) {
	text = text[:min(len(text), maxWords)]
	for _, at := range spokenAt.FindAllStringIndex(text, -1) {
		d, _, ok := spokenTime(text[at[1]:])
		s.take(d, ok)
	}
	for _, found := range spokenMoment.FindAllStringSubmatch(text, -1) {
		s.moment(found)
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
