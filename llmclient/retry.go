package llmclient

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A retrier is a call's retries: how many there were, and how long to wait
// for the next.
type retrier struct {
	cfg     Retry
	back    *backoff.ExponentialBackOff
	used    int    // attempts that counted
	stalled int    // of them, ended by FirstOutput or Attempt
	last    *Error // what the last attempt met
}

func newRetrier(cfg Retry) retrier { return retrier{cfg: cfg} }

// allows counts a failed attempt and reports whether one more may follow.
func (r *retrier) allows(e *Error) bool {
	r.used++
	if e.Clock == ClockFirstOutput || e.Clock == ClockAttempt {
		r.stalled++
	}
	// A third wait of ten minutes would help nobody.
	return r.used < r.cfg.Attempts && r.stalled < 2
}

// wait returns how long to wait before the next attempt: the backoff, or what
// the endpoint asked for if that is longer, and then never less.
func (r *retrier) wait(after ruling) time.Duration {
	if r.back == nil {
		r.back = &backoff.ExponentialBackOff{
			InitialInterval:     r.cfg.Backoff,
			MaxInterval:         r.cfg.MaxBackoff,
			Multiplier:          2,
			RandomizationFactor: max(0, r.cfg.Jitter),
			MaxElapsedTime:      0, // not its default of 15 minutes: the Call clock bounds the call
			Stop:                backoff.Stop,
			Clock:               backoff.SystemClock,
		}
		r.back.Reset()
	}
	wait := r.back.NextBackOff()
	if after.hasAfter && after.after > 0 {
		// Everybody who was told the same time would come back at the same
		// time. Earlier than asked is never right, so the spread is upwards.
		spread := time.Duration(max(0, r.cfg.Jitter) * float64(min(after.after, time.Minute)))
		if spread > 0 {
			spread = rand.N(spread)
		}
		wait = max(wait, after.after+spread)
	}
	return wait
}
