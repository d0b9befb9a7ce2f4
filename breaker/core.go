package breaker

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// core is the breaker without its clock and its lock: each method is one step
// at the time now. It puts on top of the counter what that lacks:
//
//	closed     Failures in a row, beyond chance, or a
//	           FailureRate                              → open
//	open       the cool-down is over                    → half-open
//	           a trial would be in vain (Postpone)      open for longer
//	half-open  as many successes as Trials              → closed
//	           a trial failed                           → open for twice as long, less its
//	                                                      silence (see rested)
//	           a trial is overdue, and was silent for
//	           less than the cool-down                  → open for the rest of it
//	           a trial is overdue otherwise             the next may start
//	           a trial is ignored                       the next may start
//
// The counter reads the clock itself, but nothing here depends on what it reads
// (see settings). It turns half-open whenever it is asked after more than a
// nanosecond of being open, so while open it is not asked. It is only called with
// the breaker's lock held; turn, which it calls with its own lock held too, must
// not call it back.
type core struct {
	Config
	counter *gobreaker.CircuitBreaker[struct{}]

	state      State
	epoch      int       // counts changes of state
	row        int       // closed: failures in a row
	opened     time.Time // open: since when
	retry      time.Time // open: until when
	latest     time.Time // open: the latest that retry may be postponed to
	failed     int       // trials that failed since it was closed
	writtenOff int       // those of them that were overdue
	trials     []*Pass   // half-open: those running
	last       Change
	changes    []Change // that OnChange has not got yet

	window window
	luck   luck

	runs  uint64        // runs of failures so far, with luck on
	run   atomic.Uint64 // the number of the present one; zero: there is none
	signs int           // running calls that have made progress since it began
	order order         // of the running calls, with luck on

	outlived int // open, half-open: calls from before that have succeeded since, up to fewOutlived

	line line
	next time.Time // when to look at the line again, at the latest; zero: nobody waits

	// What turn needs to know about the step that calls the counter.
	step struct {
		now, from time.Time // from: when the cool-down begins
		why       string
		number    int64 // of the call that ended
	}
}

func (c *core) init(cfg Config) {
	c.Config = cfg
	c.window.width = max(cfg.Window/time.Duration(len(c.window.parts)), 1)
	c.counter = gobreaker.NewCircuitBreaker[struct{}](settings(cfg, c.trip, c.turn))
}

// trip decides whether a failure opens a closed breaker. The counter calls it, as
// it calls turn.
func (c *core) trip(gobreaker.Counts) bool {
	if c.Failures > 0 && c.row >= c.Failures && (!c.luck.on || c.beyondChance()) {
		c.step.why = fmt.Sprintf("%d failures in a row", c.row)
		return true
	}
	if calls, fails := c.window.sum(c.step.now); c.FailureRate > 0 && calls >= c.MinCalls &&
		float64(fails) >= c.FailureRate*float64(calls+c.signs) {
		c.step.why = fmt.Sprintf("%d of %d calls failed in %v", fails, calls, c.Window)
		return true
	}
	return false
}

// rates reports whether the window is used.
func (c *core) rates() bool { return c.FailureRate > 0 || c.luck.on }

// beyondChance reports whether the present run of failures is hardly chance. Calls
// that began before the failed ones and are still running may yet succeed, since
// failures are often quicker than answers.
func (c *core) beyondChance() bool {
	calls, fails := c.window.sum(c.step.now)
	enough := c.luck.run(c.step.now, calls-c.row, fails-c.row)
	return c.row >= mostFailures || c.row >= enough && c.signs == 0 && c.row >= manyToOne*c.order.before(c.step.number)
}

// turn follows the counter into another state.
func (c *core) turn(_, to gobreaker.State) {
	c.last = Change{Name: c.Name, From: c.state, To: stateOf(to), At: c.step.now, Why: c.step.why}
	c.state = c.last.To
	c.trials = nil
	c.epoch++
	c.order.clear()
	c.endRun()
	c.window.clear()
	c.line.turned(c.step.now)
	switch c.state {
	case Open:
		c.luck.keep(c.step.now)
		c.opened = c.step.now
		c.retry = c.step.from.Add(c.cooldown())
		c.latest = c.retry.Add(c.MaxPostpone)
		c.last.Retry = c.retry
		c.refuseUnfit(c.step.now)
	case Closed:
		c.luck.closed(c.failed == 0)
		c.failed, c.writtenOff, c.outlived = 0, 0, 0
	}
	c.changes = append(c.changes, c.last)
}

// cooldown is how long to stay open after the trials that have failed so far.
func (c *core) cooldown() time.Duration { return doubled(c.Cooldown, c.failed, c.MaxCooldown) }

func (c *core) trialLimit() time.Duration {
	most := time.Duration(math.MaxInt64)
	if c.TrialLimit < most/maxTrialGrowth {
		most = c.TrialLimit * maxTrialGrowth
	}
	return doubled(c.TrialLimit, c.writtenOff, most)
}

// tell gives the counter a verdict. The cool-down that may follow begins at from.
// The counter hears only of ended calls that may change something. Which calls are
// running is kept here, so that successful ones cost the counter nothing.
func (c *core) tell(v Verdict, now, from time.Time, why string) {
	c.step.now, c.step.from, c.step.why = now, from, why
	switch {
	case v == Failure:
		if c.row++; c.row == 1 && c.luck.on {
			c.runs++
			c.run.Store(c.runs)
		}
		_, _ = c.counter.Execute(failed)
	case v == Success && (c.state != Closed || c.row > 0):
		c.endRun()
		_, _ = c.counter.Execute(succeeded)
	}
}

func (c *core) endRun() {
	c.row, c.signs = 0, 0
	c.run.Store(0)
}

// sign notes that the call p has made progress in the run of that number. While
// calls make progress an endpoint is not dead, however many others fail.
func (c *core) sign(p *Pass, run uint64) {
	if !p.settled && p.epoch == c.epoch && run == c.run.Load() && p.sign.Swap(run) != run {
		c.signs++
	}
}

// ended notes that p has ended.
func (c *core) ended(p *Pass) {
	if p.epoch != c.epoch {
		return
	}
	c.order.end(p.number)
	if run := p.sign.Load(); run != 0 && run == c.run.Load() {
		c.signs--
	}
}

func succeeded() (struct{}, error) { return struct{}{}, nil }
func failed() (struct{}, error)    { return struct{}{}, errFailed }

// advance makes the changes that are due at a time.
func (c *core) advance(now time.Time) {
	for _, p := range slices.Clone(c.trials) {
		if c.state == HalfOpen && !now.Before(p.heard.Add(p.limit)) {
			c.writeOff(now, p)
		}
	}
	if c.state == Open && !now.Before(c.retry) {
		c.step.now, c.step.why = now, "the cool-down is over"
		if c.counter.State() == gobreaker.StateOpen {
			c.retry = now.Add(minCooldown) // the counter opened an instant later than we think
		}
	}
	c.letGo(now)
}

// writeOff settles an overdue trial.
func (c *core) writeOff(now time.Time, p *Pass) {
	p.settled = true
	c.drop(p)
	c.failed++
	c.writtenOff++
	// The endpoint has had no trial during its silence, mostly for longer than a
	// cool-down.
	v := Failure
	if p.heard.Add(c.cooldown()).Sub(now) < minCooldown {
		v = Ignored
	}
	c.tell(v, now, p.heard, fmt.Sprintf("a trial made no progress for %v", p.limit))
}

func (c *core) drop(p *Pass) {
	if i := slices.Index(c.trials, p); i >= 0 {
		c.trials = slices.Delete(c.trials, i, i+1)
	}
}

// acquire lets a call through or refuses it. While closed, now is not used.
func (c *core) acquire(b *Breaker, now time.Time) (*Pass, error) {
	if c.state != Closed {
		c.advance(now)
	}
	if c.state == Open { // not the counter: asking it makes it half-open
		return nil, c.refusal(now, c.retry)
	}
	if c.state == HalfOpen && c.free() <= 0 {
		return nil, c.refusal(now, c.overdue())
	}
	p := &Pass{breaker: b, epoch: c.epoch}
	if c.luck.on {
		p.number = c.order.begin()
	}
	if c.state == HalfOpen {
		p.trial, p.heard, p.limit = true, now, c.trialLimit()
		c.trials = append(c.trials, p)
		c.line.redeem()
	}
	return p, nil
}

func (c *core) refusal(now, retry time.Time) *OpenError {
	since := c.last.At
	return &OpenError{Name: c.Name, State: c.state, Since: since, For: now.Sub(since), Retry: retry,
		RetryIn: retry.Sub(now)}
}

// succeed takes a success on p without reading the clock, unless the time matters.
func (c *core) succeed(p *Pass) (done bool) {
	if c.state != Closed {
		return false
	}
	if p.epoch != c.epoch {
		return true
	}
	if c.rates() && c.window.succeed() {
		return false
	}
	c.tell(Success, time.Time{}, time.Time{}, "")
	return true
}

// judge takes the first verdict on p, unless p was written off or let through in
// another state. While open no verdict counts.
func (c *core) judge(now time.Time, p *Pass, v Verdict) {
	c.advance(now)
	if p.settled || p.epoch != c.epoch {
		if v == Success && !p.trial {
			c.outlived = min(c.outlived+1, fewOutlived)
		}
		return
	}
	from, why := now, "" // trip sets why
	if v == Success && c.state == Closed {
		c.window.settle(now)
	}
	if v == Failure && c.rates() {
		c.window.fail(now)
	}
	if slices.Contains(c.trials, p) {
		c.drop(p)
		switch v {
		case Failure:
			if c.outlived > 0 {
				c.outlived-- // calls have succeeded since it opened: part of the endpoint works
			} else {
				c.failed++
			}
			why = "a trial failed"
			from = c.rested(now, p.heard)
		case Success:
			why = "trials succeeded"
		}
	}
	c.step.number = p.number
	c.tell(v, now, from, why)
	c.letGo(now)
}

// rested is when the cool-down after a failed trial begins. A trial that was silent
// before it failed, for less than the cool-down, has given the endpoint a pause
// already: the silence counts as a part of the cool-down, up to a plain Cooldown. So
// the next trial starts one cool-down after the last sign of life, not after the
// failure. A longer silence is followed by a whole cool-down.
func (c *core) rested(now, heard time.Time) time.Time {
	silence, pause := now.Sub(heard), c.cooldown()
	if silence >= pause {
		return now
	}
	return now.Add(-min(silence, c.Cooldown, pause-c.Cooldown))
}

// progress notes progress of the trial p.
func (c *core) progress(now time.Time, p *Pass) {
	c.advance(now)
	p.heard = now
}

// hurry shortens the cool-down to what it would be without failed trials.
func (c *core) hurry(now time.Time) {
	if at := c.opened.Add(c.Cooldown); c.state == Open && at.Before(c.retry) {
		c.retry = at
	}
	c.advance(now)
}

// postpone lengthens the cool-down to end no sooner than d from now, or a plain
// Cooldown from now if that is less.
func (c *core) postpone(now time.Time, d time.Duration) {
	c.advance(now)
	if c.state != Open {
		return
	}
	at := now.Add(min(d, c.Cooldown))
	if at.After(c.latest) {
		at = c.latest
	}
	if at.After(c.retry) {
		c.retry = at
		c.refuseUnfit(now)
	}
}

// overdue is when the first of the running trials will be written off.
func (c *core) overdue() (at time.Time) {
	for _, p := range c.trials {
		if due := p.heard.Add(p.limit); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// free is how many more trials may start.
func (c *core) free() int {
	return c.Trials - int(c.counter.Counts().TotalSuccesses) - len(c.trials)
}

func (c *core) stats(now time.Time) Stats {
	s := Stats{State: c.state, Since: c.last.At, Waiting: c.line.waiting.Len(), WrittenOff: c.writtenOff, Last: c.last}
	switch c.state {
	case Closed:
		s.Failures = c.row
		s.Calls, s.Failed = c.window.sum(now)
	case Open:
		s.Retry = c.retry
	case HalfOpen:
		s.Trials, s.Overdue = len(c.trials), c.overdue()
	}
	return s
}

// doubled is d, doubled n times, but not more than most.
func doubled(d time.Duration, n int, most time.Duration) time.Duration {
	for range n {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return d
}
