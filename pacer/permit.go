package pacer

import (
	"sync/atomic"
	"time"
)

// An Outcome says what became of a request, as far as the pacer has to know.
type Outcome int

const (
	// Unknown says nothing: the permit comes back, and that is all.
	Unknown Outcome = iota

	// Answered: the server answered, to its end.
	Answered

	// Refused: the server had no room, as with an HTTP 503.
	Refused

	// Throttled: the account is over a rate, as with most of HTTP's 429s. It
	// says nothing about how much the server can do at a time.
	Throttled

	// Failed: it came to nothing in some other way, which is the breaker's
	// business.
	Failed

	// Abandoned: we ran out of patience while the server was at it. The server
	// may go on for a while, or keep the place taken without, so the request
	// keeps its weight for a time that is learned from how the server does
	// after that.
	Abandoned

	// Cancelled: the caller did not want it any more. It keeps its weight
	// like one that was abandoned, and is no sign of a slow server.
	Cancelled
)

func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomes) {
		return "no outcome"
	}
	return outcomes[o]
}

var outcomes = [...]string{"unknown", "answered", "refused", "throttled", "failed", "abandoned", "cancelled"}

// A Result is how a request ended. In each field zero means that it is not
// known.
type Result struct {
	Outcome Outcome

	// Outputs is how many pieces of output there were in all, in the unit of
	// [Permit.Output].
	Outputs int

	// Tokens is what the request has used of TokensPerMinute. Zero leaves the
	// reservation as it is, except where nothing will have been used: what was
	// Refused or Throttled, or Failed before any output, gives it back. A
	// negative number says that nothing was used.
	Tokens int
}

// spent is what to settle a reservation with: less than none for nothing, zero
// for what was reserved.
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

// A Permit lets one request start. It counts as in flight until the first call
// of Done, Release or Return, by whichever goroutine; further calls of any
// method do nothing.
type Permit struct {
	pacer *Pacer
	ended atomic.Bool
	due   atomic.Int64 // before this moment, in nanoseconds since pacer.born, Output has nothing to say

	seat seat // guarded by pacer.mu once the permit is out
}

// FirstOutput says that the first output has come, so long after the request
// was sent. Do not tell it of models that think unseen before they write: how
// long they do says nothing about the server.
func (p *Permit) FirstOutput(after time.Duration) {
	if p.out() {
		p.pacer.tell(p, func(c *core, now time.Time) { c.firstOutput(now, &p.seat, after) })
	}
}

// Output says how many pieces of output there have been so far, in whatever
// unit the caller can count: tokens, or events of a stream. What is learned
// from it is how fast they follow one another. It may be called for each
// piece; more than twice a second it does next to nothing.
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

// Done gives back the permit of a request that was sent, and says what became
// of it. Its place in flight is free at once, unless it was abandoned, and its
// place in the minute is spent.
func (p *Permit) Done(r Result) {
	if p.end() {
		r.Outputs = max(r.Outputs, 0)
		p.pacer.giveBack(p, r, true)
	}
}

// Release is Done for a caller who has nothing to say.
func (p *Permit) Release() { p.Done(Result{}) }

// Return gives back a permit that was not used: nothing was sent. Its places
// in the minute, of requests and of tokens, are free again too.
func (p *Permit) Return() {
	if p.end() {
		p.pacer.giveBack(p, Result{}, false)
	}
}

func (p *Permit) out() bool { return p != nil && p.pacer != nil && !p.ended.Load() }

func (p *Permit) end() bool { return p != nil && p.pacer != nil && !p.ended.Swap(true) }
