package pacer

import "time"

// An Allowance is what a server said is left of a limit, for example in the
// headers of an answer. Package ratelimit reads those.
type Allowance struct {
	// Tokens says that tokens are counted and not requests.
	Tokens bool

	// Remaining is how much is left. Zero means nothing is.
	Remaining int

	// Limit is how much there is when all of it is there. Zero means that the
	// server did not say.
	Limit int

	// Reset is how long it takes until all of it is there. Zero means that the
	// server did not say.
	Reset time.Duration

	// AtOnce says that all of it comes back at Reset. Without, it comes back
	// evenly, as it does in the buckets that most providers use.
	AtOnce bool
}

// maxTold bounds for how long what a server said keeps everybody waiting.
// After that one request finds out what holds now.
const maxTold = 2 * time.Minute

// told is what the server said is left, of requests and of tokens. It is what
// makes us wait before the server refuses, and never lets in more than our own
// limits do.
type told struct {
	requests, tokens allotment
}

type allotment struct {
	on    bool
	left  float64
	asOf  time.Time
	rate  float64   // that comes back a second
	all   float64   // zero: not known
	until time.Time // then this is void
}

func (t *told) on() bool { return t.requests.on || t.tokens.on }

// heed takes in what the server said when it looked at a request that was
// admitted when the count was since. What was admitted after that may or may
// not be part of it, and is taken not to be.
func (t *told) heed(now time.Time, a Allowance, all, since count) {
	to, later := &t.requests, all.requests-since.requests-1
	if a.Tokens {
		to, later = &t.tokens, 0 // a bill of tokens is too coarse to count twice
	}
	if a.Remaining < 0 || a.Reset <= 0 {
		return // nothing can be made of it
	}
	n := allotment{on: true, left: float64(a.Remaining) - float64(max(later, 0)), asOf: now, all: float64(max(a.Limit, 0))}
	n.until = now.Add(min(a.Reset, maxTold))
	if back := float64(a.Limit - a.Remaining); back > 0 && !a.AtOnce {
		n.rate = back / a.Reset.Seconds()
	}
	*to = n
}

// opens returns when a request of so many tokens fits.
func (t *told) opens(now time.Time, tokens int) time.Time {
	at := t.requests.opens(now, 1)
	if tokens > 0 {
		if b := t.tokens.opens(now, float64(tokens)); b.After(at) {
			return b
		}
	}
	return at
}

func (t *told) spend(tokens int) {
	t.requests.spend(1)
	t.tokens.spend(float64(tokens))
}

func (a *allotment) opens(now time.Time, n float64) time.Time {
	if !a.on {
		return now
	}
	if !now.Before(a.until) {
		a.on = false
		return now
	}
	if a.all > 0 {
		n = min(n, a.all) // an estimate is no reason to wait for ever
	}
	left := a.left + now.Sub(a.asOf).Seconds()*a.rate
	switch {
	case left >= n-slack:
		return now
	case a.rate <= 0:
		return a.until
	}
	if at := now.Add(seconds((n - left) / a.rate)); at.Before(a.until) {
		return at.Add(time.Nanosecond)
	}
	return a.until
}

func (a *allotment) spend(n float64) {
	if a.on {
		a.left -= n
	}
}
