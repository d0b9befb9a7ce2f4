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
	InFlight    Reason = "a request in flight to end"
)

// core is the pacer without its clock and its lock. Each method is one step at
// the time now, and times never go back. It has one rule:
//
//	the first in the queue goes in as soon as all of these are open
//	    in flight     a permit is given back
//	    cool-down     its end, then the pace of readmission
//	    rate          a minute after the RequestsPerMinute-th last admission
//	                  and a token of the bucket
//
// A step that may open a gate ends in admitDue. What admitDue cannot let in is
// waiting for next, or for a step.
type core struct {
	maxInFlight int // zero: no bound
	maxQueue    int // negative: no bound
	rate        *meter
	pause       pause

	inFlight int
	queue    queue
	next     time.Time // when the first in the queue can go in; zero: unknown, or nobody waits
	why      Reason    // what it waits for
}

// enterFree admits a caller without asking for the time, if nothing here
// depends on time. Then only a full house has a queue.
func (c *core) enterFree() bool {
	if c.rate != nil || c.pause.on || c.full() {
		return false
	}
	c.inFlight++
	return true
}

// exitFree ends a used permit without asking for the time, if nobody waits.
func (c *core) exitFree() bool {
	if c.queue.len > 0 {
		return false
	}
	c.inFlight--
	return true
}

// enter admits a caller (w and err are nil), puts it into the queue (w), or
// refuses it. A zero deadline is none.
func (c *core) enter(now, deadline time.Time) (w *waiter, at time.Duration, err error) {
	if at, ok := c.try(now); ok {
		return nil, at, nil
	}
	if err := c.refusal(now, deadline); err != nil {
		c.admitDue(now) // takes back what gate reserved
		return nil, 0, err
	}
	w = &waiter{since: now, deadline: deadline, done: make(chan struct{})}
	c.queue.push(w)
	c.admitDue(now)
	return w, 0, nil
}

// try admits a caller if all gates are open and nobody waits. If not, what gate
// may have reserved stays so until the next admitDue.
func (c *core) try(now time.Time) (at time.Duration, ok bool) {
	c.admitDue(now) // whose time has come goes first, also if the timer is late
	if c.queue.len > 0 {
		return 0, false
	}
	if _, why := c.gate(now); why != "" {
		return 0, false
	}
	return c.admit(now), true
}

func (c *core) refusal(now, deadline time.Time) error {
	if c.maxQueue >= 0 && c.queue.len >= c.maxQueue {
		return &QueueFullError{Queued: c.queue.len, Max: c.maxQueue, For: c.why}
	}
	return c.unfit(now, deadline, c.queue.len)
}

// leave takes w out of the queue. If it has been admitted in the meantime,
// its permit goes back unused.
func (c *core) leave(now time.Time, w *waiter) {
	switch {
	case w.queued:
		c.queue.remove(w)
		c.admitDue(now)
	case w.err == nil:
		c.exit(now, w.at, false)
	}
}

// exit ends a permit.
func (c *core) exit(now time.Time, at time.Duration, used bool) {
	c.inFlight--
	if !used && c.rate != nil {
		c.rate.refund(now, at)
	}
	c.admitDue(now)
}

// coolDown lets nobody in for d, and tells those who cannot wait that long.
func (c *core) coolDown(now time.Time, d time.Duration, jitter float64) {
	c.admitDue(now)
	if !c.pause.extend(now, d, jitter) {
		return
	}
	if c.rate != nil {
		c.rate.unhold(now)
	}
	ahead := 0
	for w := c.queue.first; w != nil; {
		after := w.after
		if err := c.unfit(now, w.deadline, ahead); err != nil {
			c.queue.remove(w)
			w.refuse(err)
		} else {
			ahead++
		}
		w = after
	}
	c.admitDue(now)
}

// admitDue lets in the first in the queue as long as all gates are open.
func (c *core) admitDue(now time.Time) {
	for w := c.queue.first; w != nil; w = c.queue.first {
		if c.next, c.why = c.gate(now); c.why != "" {
			return
		}
		c.queue.remove(w)
		w.grant(c.admit(now))
	}
	c.next, c.why = time.Time{}, ""
	if c.rate != nil {
		c.rate.unhold(now)
	}
}

// gate names the gate that is shut, and when it will open if that is known.
// The order matters: the bucket is asked last, since asking it reserves.
func (c *core) gate(now time.Time) (opens time.Time, why Reason) {
	if c.full() {
		return time.Time{}, InFlight
	}
	if at, why := c.pause.opens(now); why != "" {
		return at, why
	}
	if c.rate != nil {
		if at := c.rate.opens(now); at.After(now) {
			return at, Rate
		}
	}
	return time.Time{}, ""
}

func (c *core) full() bool { return c.maxInFlight > 0 && c.inFlight >= c.maxInFlight }

func (c *core) admit(now time.Time) time.Duration {
	c.inFlight++
	c.pause.spend(now)
	if c.rate == nil {
		return 0
	}
	return c.rate.spend(now)
}

// unfit refuses a caller with so many others ahead if time alone, however
// soon permits come back, admits it no earlier than at its deadline.
func (c *core) unfit(now, deadline time.Time, ahead int) error {
	if deadline.IsZero() {
		return nil
	}
	at, why := c.pause.earliest(now, ahead)
	if c.rate != nil {
		if t := c.rate.earliest(now, ahead); t.After(at) {
			at, why = t, Rate
		}
	}
	if at.Before(deadline) || !at.After(now) {
		return nil
	}
	return &WaitError{Wait: at.Sub(now), Left: deadline.Sub(now), For: why}
}

func (c *core) stats(now time.Time) Stats {
	s := Stats{InFlight: c.inFlight, Queued: c.queue.len, WaitingFor: c.why, Next: c.next}
	if w := c.queue.first; w != nil {
		s.Longest = now.Sub(w.since)
	}
	if c.pause.until.After(now) {
		s.CoolDownUntil = c.pause.until
	}
	return s
}

// seconds turns s into a duration, whatever s is.
func seconds(s float64) time.Duration {
	ns := s * float64(time.Second)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
