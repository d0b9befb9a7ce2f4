package pacer

import (
	"sync/atomic"
	"time"
)

// An Outcome is how a request ended, as far as the pacer has to know.
type Outcome int

const (
	// Unknown: the permit comes back, and nothing is learned.
	Unknown Outcome = iota

	// Answered: the server answered, to its end.
	Answered

	// Refused: the server had no room, as with an HTTP 503.
	Refused

	// Throttled: the account is over a rate, as with most of HTTP's 429s. It
	// says nothing about how much the server can do at a time.
	Throttled

	// Failed: it failed in another way, which is for a breaker to judge.
	Failed

	// Abandoned: our side gave it up after a timeout. The server may still work on
	// it, or keep its slot, so the request counts against the limit for a while.
	// How long is learned from how the server does after that.
	Abandoned

	// Cancelled: the caller no longer wanted it. It counts against the limit for a
	// while as an abandoned one does, but is no sign of a slow server.
	Cancelled
)

func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomes) {
		return "no outcome"
	}
	return outcomes[o]
}

var outcomes = [...]string{"unknown", "answered", "refused", "throttled", "failed", "abandoned", "cancelled"}

// A Result is how a request ended. A zero field means that it is not known.
type Result struct {
	Outcome Outcome

	// Outputs is the number of pieces of output in all, in the unit of
	// [Permit.Output].
	Outputs int

	// Tokens is what the request has used of TokensPerMinute. Negative means that
	// nothing was used. Zero leaves the reservation as it is, unless the request
	// was Refused, Throttled, or Failed before any output: then it is given back.
	Tokens int
}

// spent is what to settle a reservation with: negative for nothing, zero for as much
// as was reserved.
func (r Result) spent(used bool) int {
	switch {
	case !used:
		return -1
	case r.Tokens != 0:
		return r.Tokens
	case r.Outcome == Refused, r.Outcome == Throttled, r.Outcome == Failed && r.Outputs == 0:
		return -1
	}
	return 0
}

// A Permit lets one request start. It counts as in flight until the first call of
// Done, Release or Return, from any goroutine. Later calls of any method do
// nothing.
type Permit struct {
	pacer *Pacer
	ended atomic.Bool
	due   atomic.Int64 // until when Output does nothing, in nanoseconds since pacer.born

	seat seat // guarded by pacer.mu once the permit is out
}

// FirstOutput reports the first output, with the time to first output since the
// request was sent. Do not call it for models that think unseen before they write:
// how long they think says nothing about the server.
func (p *Permit) FirstOutput(after time.Duration) {
	if p.out() {
		p.pacer.tell(p, func(c *core, now time.Time) { c.firstOutput(now, &p.seat, after) })
	}
}

// Output reports how many pieces of output there have been so far, in a unit that
// the caller can count, such as tokens or events of a stream. The pacer learns the
// time between pieces from it. It may be called for each piece: all but two calls a
// second cost next to nothing.
func (p *Permit) Output(pieces int) {
	if pieces <= 0 || !p.out() {
		return
	}
	now := int64(time.Since(p.pacer.born)) // not UnixNano: clocks are set back
	if due := p.due.Load(); now < due || !p.due.CompareAndSwap(due, now+int64(outputEvery)) {
		return
	}
	p.pacer.tell(p, func(c *core, now time.Time) { c.output(now, &p.seat, pieces) })
}

const outputEvery = 500 * time.Millisecond

// Done gives back the permit of a request that was sent, and reports how it ended.
// Its place in flight is free at once, unless it was abandoned or cancelled. Its
// place in the minute is used.
func (p *Permit) Done(r Result) {
	if p.end() {
		r.Outputs = max(r.Outputs, 0)
		p.pacer.giveBack(p, r, true)
	}
}

// Release is Done with an Unknown outcome.
func (p *Permit) Release() { p.Done(Result{}) }

// Return gives back a permit whose request was not sent. Its places in the minute,
// of requests and of tokens, are free again as well.
func (p *Permit) Return() {
	if p.end() {
		p.pacer.giveBack(p, Result{}, false)
	}
}

func (p *Permit) out() bool { return p != nil && p.pacer != nil && !p.ended.Load() }

func (p *Permit) end() bool { return p != nil && p.pacer != nil && !p.ended.Swap(true) }
