package ratelimit

import (
	"net/http"
	"strings"
	"time"

	"github.com/neverhang/neverhang/pacer"
)

// A family is three headers that belong together.
type family struct {
	limit, remaining, reset string
	tokens                  bool
	atOnce                  bool
	onlyEmpty               bool // used only when nothing is left
}

func suffixed(prefix, kind string, tokens bool) family {
	return family{limit: prefix + "limit-" + kind, remaining: prefix + "remaining-" + kind, reset: prefix + "reset-" + kind, tokens: tokens}
}

func anthropic(kind string, tokens, onlyEmpty bool) family {
	p := "anthropic-ratelimit-" + kind
	return family{limit: p + "-limit", remaining: p + "-remaining", reset: p + "-reset", tokens: tokens, onlyEmpty: onlyEmpty}
}

var families = [...]family{
	// OpenAI, Azure and Groq write times in different ways. All three fill up
	// evenly. Groq's requests are those of a day.
	suffixed("x-ratelimit-", "requests", false),
	suffixed("x-ratelimit-", "tokens", true),
	// Anthropic's tokens are the tightest of several limits. How much of the
	// output limit an answer will take is not known, so only an empty one is used.
	anthropic("requests", false, false),
	anthropic("tokens", true, false),
	anthropic("input-tokens", true, true),
	anthropic("output-tokens", true, true),
	// Mistral.
	{limit: "x-ratelimitbysize-limit-minute", remaining: "x-ratelimitbysize-remaining-minute", reset: "ratelimitbysize-reset", tokens: true, atOnce: true},
	// Together, and OpenRouter where it refuses.
	{limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset", atOnce: true},
	{limit: "x-tokenlimit-limit", remaining: "x-tokenlimit-remaining", reset: "x-tokenlimit-reset", tokens: true, atOnce: true},
	// Drafts of the IETF up to the seventh, and others like them.
	{limit: "ratelimit-limit", remaining: "ratelimit-remaining", reset: "ratelimit-reset", atOnce: true},
}

// Parse returns what the headers of an answer say is left, or nil if they say
// nothing of use. The time is when they came, for servers that send dates. If the
// answer's Date differs from it by more than clocks and the network explain, dates
// are compared with Date.
func Parse(h http.Header, now time.Time) []pacer.Allowance {
	if !speaks(h) {
		return nil // as most answers, which saves two dozen lookups
	}
	now = there(h, now)
	var of [2]best
	for i := range families {
		f := &families[i]
		remaining, ok := count(h.Get(f.remaining))
		if !ok || f.onlyEmpty && remaining > 0 {
			continue
		}
		reset, ok := span(h.Get(f.reset), now)
		if !ok {
			continue
		}
		limit, _ := count(h.Get(f.limit))
		of[index(f.tokens)].take(pacer.Allowance{
			Tokens: f.tokens, Remaining: remaining, Limit: limit, Reset: reset, AtOnce: f.atOnce,
		})
	}
	subscription(h, now, &of[0])
	structured(h, now, &of)

	var all []pacer.Allowance
	for _, b := range of {
		if b.set {
			all = append(all, b.Allowance)
		}
	}
	return all
}

// speaks reports whether any header is about limits. Names are in canonical form.
func speaks(h http.Header) bool {
	for name := range h {
		if strings.Contains(name, "Ratelimit") || strings.Contains(name, "Tokenlimit") {
			return true
		}
	}
	return false
}

// apart is the least difference of a Date that is not explained by its whole seconds
// and the time on the network.
const apart = 5 * time.Second

// there is the time by the server's clock.
func there(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil && date.Sub(now).Abs() >= apart {
		return date
	}
	return now
}

func index(tokens bool) int {
	if tokens {
		return 1
	}
	return 0
}

// best is the tightest of some allowances.
type best struct {
	pacer.Allowance
	set bool
}

func (b *best) take(a pacer.Allowance) {
	if b.set && (a.Remaining > b.Remaining || a.Remaining == b.Remaining && a.Reset <= b.Reset) {
		return
	}
	b.Allowance, b.set = a, true
}

// subscription reads Anthropic's headers for subscriptions. They give parts of a
// limit without its number, so only an empty limit is used.
func subscription(h http.Header, now time.Time, requests *best) {
	const prefix = "anthropic-ratelimit-unified-"
	for _, claim := range []string{"", "5h-", "7d-"} {
		if !strings.EqualFold(strings.TrimSpace(h.Get(prefix+claim+"status")), "rejected") {
			continue
		}
		if reset, ok := span(h.Get(prefix+claim+"reset"), now); ok {
			requests.take(pacer.Allowance{Reset: reset, AtOnce: true})
		}
	}
}

// structured reads the header of the newer drafts of the IETF,
//
//	RateLimit: "requests";r=12;t=30, "tokens";r=0;t=5
//	RateLimit-Policy: "requests";q=100;w=60, "tokens";q=30000;w=60
//
// and of the older ones, without a name:
//
//	RateLimit: limit=100, remaining=12, reset=30
func structured(h http.Header, now time.Time, of *[2]best) {
	values := h.Values("RateLimit")
	if len(values) == 0 {
		return
	}
	limits := make(map[string]int)
	for _, policy := range items(h.Values("RateLimit-Policy")) {
		if n, ok := count(policy.params["q"]); ok {
			limits[policy.name] = n
		}
	}
	flat := make(map[string]string)
	for _, item := range items(values) {
		key, value, named := strings.Cut(item.name, "=")
		if named {
			flat[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
			continue
		}
		name := strings.ToLower(item.name)
		if strings.Contains(name, "concurrent") {
			continue // not a rate
		}
		remaining, ok := count(item.params["r"])
		reset, ok2 := span(item.params["t"], now)
		if ok && ok2 {
			tokens := strings.Contains(name, "token")
			of[index(tokens)].take(pacer.Allowance{
				Tokens: tokens, Remaining: remaining, Limit: limits[item.name], Reset: reset, AtOnce: true,
			})
		}
	}
	remaining, ok := count(flat["remaining"])
	reset, ok2 := span(flat["reset"], now)
	if ok && ok2 {
		limit, _ := count(flat["limit"])
		of[0].take(pacer.Allowance{Remaining: remaining, Limit: limit, Reset: reset, AtOnce: true})
	}
}

// An item is one element of a list, with its parameters.
type item struct {
	name   string
	params map[string]string
}

// items splits lists into items. Names may be quoted, and have no commas.
func items(values []string) []item {
	var all []item
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, rest, _ := strings.Cut(part, ";")
			it := item{name: strings.Trim(strings.TrimSpace(name), `"`), params: make(map[string]string)}
			for p := range strings.SplitSeq(rest, ";") {
				if k, v, ok := strings.Cut(p, "="); ok {
					it.params[strings.ToLower(strings.TrimSpace(k))] = strings.Trim(strings.TrimSpace(v), `"`)
				}
			}
			all = append(all, it)
		}
	}
	return all
}
