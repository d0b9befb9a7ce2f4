package engine

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Format is how a provider tells about rate limits.
type Format string

// The formats.
const (
	OpenAI     Format = "openai"
	Azure      Format = "azure"
	Anthropic  Format = "anthropic"
	Groq       Format = "groq"
	OpenRouter Format = "openrouter"
	IETF       Format = "ietf"
	Silently   Format = "none" // limits that no header tells of
)

// Formats returns all formats.
func Formats() []Format {
	return []Format{OpenAI, Azure, Anthropic, Groq, OpenRouter, IETF, Silently}
}

func (f Format) known() bool { return f == "" || slices.Contains(Formats(), f) }

// write sets the headers of a reply. now is the time of the day.
func (f Format) write(h http.Header, r *Rates, now time.Time) {
	if r == nil {
		return
	}
	refused := r.RetryAfter > 0
	if refused && f != Silently {
		h.Set("Retry-After", wholeSeconds(r.RetryAfter))
	}
	kinds := []struct {
		name             string
		limit, remaining int
		reset            time.Duration
	}{
		{"requests", r.LimitRequests, r.RemainingRequests, r.ResetRequests},
		{"tokens", r.LimitTokens, r.RemainingTokens, r.ResetTokens},
	}
	for _, k := range kinds {
		if k.limit <= 0 {
			continue
		}
		set := func(prefix, reset string) {
			h.Set(prefix+"limit-"+k.name, strconv.Itoa(k.limit))
			h.Set(prefix+"remaining-"+k.name, strconv.Itoa(k.remaining))
			h.Set(prefix+"reset-"+k.name, reset)
		}
		switch f {
		case OpenAI, "":
			set("X-Ratelimit-", k.reset.Round(time.Millisecond).String())
			if refused {
				h.Set("Retry-After-Ms", strconv.FormatInt(int64((r.RetryAfter+time.Millisecond-1)/time.Millisecond), 10))
			}
		case Groq:
			set("X-Ratelimit-", k.reset.Round(10*time.Millisecond).String())
		case Azure:
			set("X-Ratelimit-", wholeSeconds(k.reset))
			if refused {
				h.Set("Retry-After-Ms", strconv.FormatInt(int64((r.RetryAfter+time.Millisecond-1)/time.Millisecond), 10))
			}
		case Anthropic:
			p := "Anthropic-Ratelimit-"
			h.Set(p+k.name+"-limit", strconv.Itoa(k.limit))
			h.Set(p+k.name+"-remaining", strconv.Itoa(k.remaining))
			h.Set(p+k.name+"-reset", now.Add(k.reset).UTC().Format(time.RFC3339))
		case IETF:
			h.Add("Ratelimit-Policy", strconv.Quote(k.name)+";q="+strconv.Itoa(k.limit)+";w=60")
			h.Add("Ratelimit", strconv.Quote(k.name)+";r="+strconv.Itoa(k.remaining)+";t="+wholeSeconds(k.reset))
		case OpenRouter:
			// It tells only those it refuses, and of requests only.
			if refused && r.Of == k.name {
				h.Set("X-Ratelimit-Limit", strconv.Itoa(k.limit))
				h.Set("X-Ratelimit-Remaining", "0")
				h.Set("X-Ratelimit-Reset", strconv.FormatInt(now.Add(r.RetryAfter).UnixMilli(), 10))
			}
		}
	}
}

// wholeSeconds rounds up: who comes back a moment too early is refused again.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
