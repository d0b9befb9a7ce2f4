package llmclient

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A retrier counts a call's attempts and returns the waits between them.
type retrier struct {
	cfg     *Retry
	random  func() float64
	used    int     // attempts that counted
	stalled int     // of them, those that took long and brought no output
	paid    float64 // for the present attempt
	paidTo  *budget // the endpoint's
	last    *Error  // what the last attempt met
}

func newRetrier(cfg *Retry, random func() float64) retrier { return retrier{cfg: cfg, random: random} }

// allows counts a failed attempt and reports whether one more may follow. The first
// attempt at another endpoint (elsewhere) does not count as a further one.
func (r *retrier) allows(e *Error, elsewhere bool) bool {
	if !elsewhere || r.cfg.Attempts <= 1 {
		r.used++
	}
	switch {
	case e.Evidence != "":
	case e.Kind == ErrRunaway, e.Clock == ClockFirstOutput, e.Clock == ClockAttempt, e.Clock == ClockSilence && e.Partial == nil, e.outlasted:
		r.stalled++
	}
	// A third wait of ten minutes makes sense only at an endpoint that the call has
	// not asked yet.
	return r.used < r.cfg.Attempts && (r.stalled < 2 || elsewhere)
}

// backoffs returns what spaces the attempts at one endpoint, without jitter.
func (r *retrier) backoffs() *backoff.ExponentialBackOff {
	back := &backoff.ExponentialBackOff{
		InitialInterval: r.cfg.Backoff,
		MaxInterval:     r.cfg.MaxBackoff,
		Multiplier:      2,
		MaxElapsedTime:  0, // not its default of 15 minutes: the Call clock bounds the call
		Stop:            backoff.Stop,
		Clock:           backoff.SystemClock,
	}
	back.Reset()
	return back
}

// wait returns how long to wait before the next attempt there: the backoff, or the
// time that the endpoint asked for if that is longer. It is never less than that.
func (r *retrier) wait(at *route, after ruling) time.Duration {
	if at.back == nil {
		at.back = r.backoffs()
	}
	jitter := max(0, r.cfg.Jitter)
	wait := at.back.NextBackOff()
	if jitter > 0 {
		wait += time.Duration(jitter * (2*r.random() - 1) * float64(wait))
	}
	if after.hasAfter && after.after > 0 {
		// All clients that were told the same time would come back at that
		// time. Earlier than asked is never right, so the spread is upwards.
		spread := jitter * float64(min(after.after, time.Minute))
		if spread > 0 {
			spread *= r.random()
		}
		wait = max(wait, after.after+time.Duration(spread))
	}
	return wait
}
