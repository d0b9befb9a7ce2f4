package pacer

import (
	"math"
	"time"
)

// A Reason says what a caller waits for.
type Reason string

const (
	CoolDown    Reason = "the end of a cool-down"
	Readmission Reason = "readmission after a cool-down"
	Rate        Reason = "requests per minute"
	Tokens      Reason = "tokens per minute"
	Allotted    Reason = "the limit that the server told"
	InFlight    Reason = "a request in flight to end"
	Load        Reason = "the load on the server to ease"
)

// core is the pacer without its clock and its lock. Each method is one step at
// the time now, and times never go back. It has one rule:
//
//	the next in the queue goes in as soon as all of these are open
//	    in flight     a permit is given back
//	    load          a permit is given back, or the climber raises its limit
//	    cool-down     its end, then the pace of readmission
//	    told          what the server said is left has come back
//	    tokens        enough of the last minute's have expired or were not used
//	    rate          a minute after the RequestsPerMinute-th last admission
//	                  and a token of the bucket
//
// A step that may open a gate ends in admitDue. What admitDue cannot let in is
// waiting for next, or for a step.
type core struct {
	maxInFlight int // zero: no bound
	maxQueue    int // negative: no bound
	finishFirst bool
	rate        *meter
	tokens      *purse
	climb       *climber
	pause       pause
	told        told

	epoch    time.Time // of offsets: when it was first asked anything about time
	inFlight int
	out      roll
	admitted int64 // so far
	queue    queue
	next     time.Time // when the next in the queue can go in; zero: unknown, or nobody waits
	why      Reason    // what it waits for
	pace     pace
}

// A seat is what an admission has taken, and what was heard of it.
type seat struct {
	began   time.Duration // since core.epoch
	at      time.Duration // as the meter counts
	booking booking
	number  int64 // among all admitted
	heard   heard
	silence silence

	older, newer *seat // of the roll
}

// exitFree ends a used permit without asking for the time, if nothing depends
// on it.
func (c *core) exitFree(s *seat) bool {
	if c.queue.len > 0 || c.climb != nil || c.tokens != nil {
		return false
	}
	c.inFlight--
	c.out.remove(s)
	return true
}

// enter admits a caller and fills its seat (w and err are nil), puts it into the
// queue (w), where that is done later, or refuses it. A zero deadline is none.
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

// try admits a caller if all gates are open and nobody waits. If not, what gate
// may have reserved stays so until the next admitDue.
func (c *core) try(now time.Time, d Demand, s *seat) bool {
	c.admitDue(now) // whose time has come goes first, also if the timer is late
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

// leave takes w out of the queue. If it has been admitted in the meantime,
// its permit goes back unused.
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

// firstOutput hears of the first output of a request.
func (c *core) firstOutput(now time.Time, s *seat, after time.Duration) {
	if c.climb != nil {
		c.climb.first(c.offset(now), s, after)
		c.admitDue(now)
	}
}

// output hears of further output of a request.
func (c *core) output(now time.Time, s *seat, pieces int) {
	if c.climb != nil {
		c.climb.output(c.offset(now), s, pieces)
		c.admitDue(now)
	}
}

// heed hears what the server said is left, in its answer to a request.
func (c *core) heed(now time.Time, number int64, allowances []Allowance) {
	for _, a := range allowances {
		c.told.heed(now, a, c.admitted-number)
	}
	c.admitDue(now)
}

// coolDown lets nobody in for d, and tells those who cannot wait that long.
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

// admitDue lets in the next in the queue as long as all gates are open.
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

// gate names the gate that is shut, and when it will open if that is known.
// The order matters: the bucket is asked last, since asking it reserves.
func (c *core) gate(now time.Time, d Demand) (opens time.Time, why Reason) {
	if c.full() {
		return time.Time{}, InFlight
	}
	if c.climb != nil {
		if at, open := c.climb.opens(c.offset(now)); !open {
			if at == 0 {
				return time.Time{}, Load
			}
			return c.epoch.Add(at), Load
		}
	}
	if at, why := c.pause.opens(now); why != "" {
		return at, why
	}
	if at := c.told.opens(now, d.need()); at.After(now) {
		return at, Allotted
	}
	if c.tokens != nil {
		if at := c.tokens.opens(now, d.need()); at.After(now) {
			return at, Tokens
		}
	}
	if c.rate != nil {
		if at := c.rate.opens(now); at.After(now) {
			return at, Rate
		}
	}
	return time.Time{}, ""
}

// offset is a moment as the climber and seats count.
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

// unfit refuses a caller with so many others ahead if time alone, however
// soon permits come back, admits it no earlier than at its deadline.
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

// earliest is a lower bound for when a caller goes in who has so many others
// ahead.
func (c *core) earliest(now time.Time, d Demand, ahead int) (time.Time, Reason) {
	at, why := c.pause.earliest(now, ahead)
	if c.tokens != nil {
		if t := c.tokens.opens(now, d.need()); t.After(at) {
			at, why = t, Tokens
		}
	}
	if c.rate != nil {
		if t := c.rate.earliest(now, ahead); t.After(at) {
			at, why = t, Rate
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
	// Whoever has waited longest is the first of some lane.
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

// pace is how fast the line has been moving.
type pace struct {
	last time.Time     // somebody went in, and others waited
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

// rest is when nobody waits any more.
func (p *pace) rest() { p.last = time.Time{} }

// forecast is how long it takes for n to go in, less than nothing if they are late.
func (p *pace) forecast(now time.Time, n int) time.Duration {
	if p.gap == 0 {
		return 0
	}
	return seconds(p.gap.Seconds()*float64(n)) - now.Sub(p.last)
}

// seconds turns s into a duration, whatever s is.
func seconds(s float64) time.Duration {
	ns := s * float64(time.Second)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
