package pacer

import (
	"math"
	"time"
)

// An Allowance is what a server said is left of one of its limits, such as in the
// headers of an answer, which package ratelimit reads.
type Allowance struct {
	// Tokens reports that the limit counts tokens, not requests.
	Tokens bool

	// Remaining is how much is left. Zero means nothing is.
	Remaining int

	// Limit is the most that there can be left. Zero means that the server did not
	// say.
	Limit int

	// Reset is how long it takes until all of Limit is left again. Zero means that
	// the server did not say.
	Reset time.Duration

	// AtOnce reports that all of it comes back at Reset. Otherwise it comes back
	// evenly, as in the token buckets of most providers, and no faster than Limit
	// in a minute: some publish the limit of a minute and use a smaller bucket.
	AtOnce bool
}

// maxTold bounds how long callers wait for what a server said. After that one
// request finds out what holds now.
const maxTold = 2 * time.Minute

// told is what the server said is left, of requests and of tokens. It makes callers
// wait before the server refuses, and never admits more than the other gates do.
type told struct {
	requests, tokens allotment
}

type allotment struct {
	on    bool
	left  float64
	asOf  time.Time
	rate  float64   // how much comes back in a second
	all   float64   // zero: not known
	until time.Time // when this expires
}

// heed takes what the server said in its answer to a request, after which so many
// others were admitted. The server may have counted those or not. It is assumed that
// it has not.
func (t *told) heed(now time.Time, a Allowance, later int64) {
	to := &t.requests
	if a.Tokens {
		to, later = &t.tokens, 0 // estimates of tokens are too coarse to subtract
	}
	if a.Remaining < 0 || a.Reset <= 0 {
		return // it says too little
	}
	n := allotment{on: true, left: float64(a.Remaining) - float64(later), asOf: now, all: float64(max(a.Limit, 0))}
	n.until = now.Add(min(a.Reset, maxTold))
	if back := float64(a.Limit) - float64(a.Remaining); back > 0 && !a.AtOnce {
		n.rate = min(back/a.Reset.Seconds(), float64(a.Limit)/60)
	}
	*to = n
}

// opens returns when a request of so many tokens fits.
func (t *told) opens(now time.Time, tokens int64) time.Time {
	at := t.requests.opens(now, 1)
	if tokens > 0 {
		if b := t.tokens.opens(now, float64(tokens)); b.After(at) {
			return b
		}
	}
	return at
}

func (t *told) spend(tokens int64) {
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
		n = min(n, a.all) // otherwise a large estimate would wait for ever
	}
	left := a.left + now.Sub(a.asOf).Seconds()*a.rate
	if left >= n-slack {
		return now
	}
	if wait := math.Ceil((n - left) / a.rate * float64(time.Second)); wait < float64(a.until.Sub(now)) {
		return now.Add(time.Duration(wait))
	}
	return a.until
}

func (a *allotment) spend(n float64) {
	if a.on {
		a.left -= n
	}
}
