package pacer

import (
	"math"
	"time"
)

// A Reason is what a caller waits for.
type Reason string

const (
	ReasonCoolDown    Reason = "the end of a cool-down"
	ReasonReadmission Reason = "readmission after a cool-down"
	ReasonRate        Reason = "requests per minute"
	ReasonTokens      Reason = "tokens per minute"
	ReasonAllotted    Reason = "the limit that the server told"
	ReasonInFlight    Reason = "a request in flight to end"
	ReasonLoad        Reason = "the load on the server to ease"
)

// core is the pacer without its clock and its lock. Each method is one step at
// the time now, and times never go back. It has one rule: the next in the queue is
// admitted as soon as all of these gates are open.
//
//	gate       opens when
//	in flight  a permit is given back
//	load       a permit is given back, or the climber raises its limit
//	cool-down  it is over, and then at the pace of readmission
//	told       what the server said is left has come back
//	tokens     enough tokens of the last minute have expired or were not used
//	rate       a minute has passed since the RequestsPerMinute-th last admission,
//	           and the bucket has a token
//
// Each step that may open a gate ends in admitDue. A caller that admitDue cannot
// admit waits for the time next, or for another step.
type core struct {
	maxInFlight int // zero: no bound
	maxQueue    int // negative: no bound
	finishFirst bool
	rate        *meter
	tokens      *purse
	climb       *climber
	pause       pause
	told        told

	epoch    time.Time // when offsets begin: the first time that was asked for one
	inFlight int
	out      roll
	admitted int64 // so far
	queue    queue
	next     time.Time // when the next in the queue can go in; zero: not known, or the queue is empty
	why      Reason    // what the next in the queue waits for
	pace     pace
}

// A seat is what an admission has taken, and what was reported of the request.
type seat struct {
	began   time.Duration // since core.epoch
	at      time.Duration // as the meter counts
	booking booking
	number  int64 // among all admitted
	heard   heard
	silence silence

	older, newer *seat // of the roll
}

// exitFree ends a used permit without reading the clock, unless the time matters.
func (c *core) exitFree(s *seat) bool {
	if c.queue.len > 0 || c.climb != nil || c.tokens != nil {
		return false
	}
	c.inFlight--
	c.out.remove(s)
	return true
}

// enter admits a caller and fills its seat (w and err are nil), or puts it into the
// queue (w) to do so later, or refuses it (err). A zero deadline means none.
func (c *core) enter(now, deadline time.Time, d Demand, s *seat) (w *waiter, err error) {
	if c.tokens != nil && !c.tokens.fits(d.need()) {
		return nil, &TooLargeError{Tokens: d.Tokens, Max: int(c.tokens.limit)}
	}
	if c.try(now, d, s) {
		return nil, nil
	}
	if err := c.refusal(now, deadline, d); err != nil {
		c.admitDue(now) // takes back what gate reserved
		return nil, err
	}
	w = &waiter{demand: d, since: now, deadline: deadline, done: make(chan struct{}), seat: s}
	c.queue.push(w, rank(d, c.finishFirst))
	c.admitDue(now)
	return w, nil
}

// try admits a caller if all gates are open and the queue is empty. Otherwise what
// gate may have reserved stays reserved until the next admitDue.
func (c *core) try(now time.Time, d Demand, s *seat) bool {
	c.admitDue(now) // those that are due go first, even if the timer is late
	if c.queue.len > 0 {
		return false
	}
	if _, why := c.gate(now, d); why != "" {
		return false
	}
	c.admit(now, d, s)
	return true
}

func (c *core) refusal(now, deadline time.Time, d Demand) error {
	if c.maxQueue >= 0 && c.queue.len >= c.maxQueue {
		return &QueueFullError{Queued: c.queue.len, Max: c.maxQueue, For: c.why}
	}
	if deadline.IsZero() {
		return nil
	}
	return c.unfit(now, deadline, d, c.queue.ahead(d, rank(d, c.finishFirst)))
}

// leave takes w out of the queue. If it was admitted meanwhile, its permit goes back
// unused.
func (c *core) leave(now time.Time, w *waiter) {
	switch {
	case w.lane != nil:
		c.queue.remove(w)
		c.admitDue(now)
	case w.err == nil:
		c.exit(now, w.seat, Result{}, false)
	}
}

// exit ends a permit.
func (c *core) exit(now time.Time, s *seat, r Result, used bool) {
	c.inFlight--
	if !used && c.rate != nil {
		c.rate.refund(now, s.at)
	}
	if c.tokens != nil {
		c.tokens.settle(now, s.booking, int64(r.spent(used)))
	}
	if c.climb != nil {
		if used {
			c.climb.ended(c.offset(now), s, r)
		} else {
			c.climb.returned(c.offset(now), s)
		}
	}
	c.out.remove(s)
	c.admitDue(now)
}

// firstOutput notes the first output of a request.
func (c *core) firstOutput(now time.Time, s *seat, after time.Duration) {
	if c.climb != nil {
		c.climb.first(c.offset(now), s, after)
		c.admitDue(now)
	}
}

// output notes further output of a request.
func (c *core) output(now time.Time, s *seat, pieces int) {
	if c.climb != nil {
		c.climb.output(c.offset(now), s, pieces)
		c.admitDue(now)
	}
}

// heed notes what the server said is left, in its answer to a request.
func (c *core) heed(now time.Time, number int64, allowances []Allowance) {
	for _, a := range allowances {
		c.told.heed(now, a, c.admitted-number)
	}
	c.admitDue(now)
}

// coolDown admits no caller for d, and refuses those that cannot wait that long.
func (c *core) coolDown(now time.Time, d time.Duration, jitter float64) {
	if !c.pause.extend(now, d, jitter) {
		return
	}
	if c.rate != nil {
		c.rate.unhold(now)
	}
	c.queue.each(func(w *waiter, ahead int) {
		if err := c.unfit(now, w.deadline, w.demand, ahead); err != nil {
			c.queue.remove(w)
			w.refuse(err)
		}
	})
	c.admitDue(now)
}

// admitDue admits the next in the queue as long as all gates are open.
func (c *core) admitDue(now time.Time) {
	for w := c.queue.next(); w != nil; w = c.queue.next() {
		if c.next, c.why = c.gate(now, w.demand); c.why != "" {
			return
		}
		c.queue.take(w)
		c.pace.step(now)
		c.admit(now, w.demand, w.seat)
		close(w.done)
	}
	c.next, c.why = time.Time{}, ""
	c.pace.rest()
	if c.rate != nil {
		c.rate.unhold(now)
	}
}

// gate names a gate that is shut, and when it opens if that is known. The rate is
// asked last, since asking reserves a token of its bucket.
func (c *core) gate(now time.Time, d Demand) (opens time.Time, why Reason) {
	if c.full() {
		return time.Time{}, ReasonInFlight
	}
	if c.climb != nil {
		if at, open := c.climb.opens(c.offset(now)); !open {
			if at == 0 {
				return time.Time{}, ReasonLoad
			}
			return c.epoch.Add(at), ReasonLoad
		}
	}
	if at, why := c.pause.opens(now); why != "" {
		return at, why
	}
	if at := c.told.opens(now, d.need()); at.After(now) {
		return at, ReasonAllotted
	}
	if c.tokens != nil {
		if at := c.tokens.opens(now, d.need()); at.After(now) {
			return at, ReasonTokens
		}
	}
	if c.rate != nil {
		if at := c.rate.opens(now); at.After(now) {
			return at, ReasonRate
		}
	}
	return time.Time{}, ""
}

// offset is a time as the climber and the seats count it.
func (c *core) offset(now time.Time) time.Duration {
	if c.epoch.IsZero() {
		c.epoch = now
	}
	return now.Sub(c.epoch)
}

func (c *core) full() bool { return c.maxInFlight > 0 && c.inFlight >= c.maxInFlight }

func (c *core) admit(now time.Time, d Demand, s *seat) {
	c.inFlight++
	c.admitted++
	s.began, s.number = c.offset(now), c.admitted
	c.out.add(s)
	c.pause.spend(now)
	c.told.spend(d.need())
	if c.climb != nil {
		c.climb.started(s.began, s)
	}
	if c.tokens != nil {
		s.booking = c.tokens.take(now, d.need())
	}
	if c.rate != nil {
		s.at = c.rate.spend(now)
	}
}

// unfit refuses a caller with so many others ahead if it could not be admitted
// before its deadline, even if permits came back at once.
func (c *core) unfit(now, deadline time.Time, d Demand, ahead int) error {
	if deadline.IsZero() {
		return nil
	}
	at, why := c.earliest(now, d, ahead)
	if at.Before(deadline) || !at.After(now) {
		return nil
	}
	return &WaitError{Wait: at.Sub(now), Left: deadline.Sub(now), For: why}
}

// earliest is a lower bound for when a caller with so many others ahead is admitted.
func (c *core) earliest(now time.Time, d Demand, ahead int) (time.Time, Reason) {
	at, why := c.pause.earliest(now, ahead)
	if c.tokens != nil {
		if t := c.tokens.opens(now, d.need()); t.After(at) {
			at, why = t, ReasonTokens
		}
	}
	if c.rate != nil {
		if t := c.rate.earliest(now, ahead); t.After(at) {
			at, why = t, ReasonRate
		}
	}
	return at, why
}

func (c *core) place(now time.Time, w *waiter) Place {
	c.admitDue(now)
	p := Place{Waited: now.Sub(w.since)}
	if w.lane == nil {
		return p
	}
	p.Ahead, p.For = c.queue.likely(w), c.why
	at, _ := c.earliest(now, w.demand, p.Ahead)
	if c.next.After(at) {
		at = c.next
	}
	p.Expected = max(at.Sub(now), c.pace.forecast(now, p.Ahead+1))
	return p
}

func (c *core) stats(now time.Time) Stats {
	s := Stats{
		InFlight: c.inFlight, Limit: c.maxInFlight, Queued: c.queue.len, WaitingFor: c.why, Next: c.next,
	}
	if c.climb != nil {
		c.climb.advance(c.offset(now))
		if l := c.climb.limit(); s.Limit == 0 || l < s.Limit {
			s.Limit = l
		}
		s.Abandoned = c.climb.ghosts.len()
		s.Forgotten = c.climb.unheard.forgotten
	}
	if c.out.oldest != nil {
		s.Oldest = c.offset(now) - c.out.oldest.began
	}
	if c.tokens != nil {
		s.TokensBooked = int(c.tokens.booked(now))
	}
	// The one that has waited longest is the first of some lane.
	for _, v := range c.queue.levels {
		for l := v.first; l != nil; l = l.after {
			s.Longest = max(s.Longest, now.Sub(l.first.since))
		}
	}
	if c.pause.until.After(now) {
		s.CoolDownUntil = c.pause.until
	}
	return s
}

// pace is how fast the queue has been moving.
type pace struct {
	last time.Time     // when a waiter was last admitted; zero: the queue was empty since
	gap  time.Duration // between two of those, smoothed
}

func (p *pace) step(now time.Time) {
	if !p.last.IsZero() {
		gap := now.Sub(p.last)
		if p.gap == 0 {
			p.gap = gap
		}
		p.gap += (gap - p.gap) / 8
	}
	p.last = now
}

// rest notes that the queue is empty.
func (p *pace) rest() { p.last = time.Time{} }

// forecast is how long it takes to admit n waiters, negative if they are late.
func (p *pace) forecast(now time.Time, n int) time.Duration {
	if p.gap == 0 {
		return 0
	}
	return seconds(p.gap.Seconds()*float64(n)) - now.Sub(p.last)
}

// seconds turns s into a duration, with the largest one as the bound.
func seconds(s float64) time.Duration {
	ns := s * float64(time.Second)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
