package breaker

import (
	"container/list"
	"time"
)

const (
	firstPace = 10          // waiters per second at first, after the breaker closed
	lapse     = time.Second // how long a trial is kept for a caller back from Wait
)

// line is the queue of callers in Wait.
//
// While half-open, as many callers may go as trials can start. Each gets a ticket,
// which ends when a trial starts, or lapses after a second: the caller may be held
// up before Acquire, and the others must not depend on it. When closed, callers go
// one by one: after n of them the next follows 1/(firstPace+n) seconds later, so
// that the pace grows. If all went at once, the herd would cause the next outage.
type line struct {
	waiting list.List   // of *waiter, in order of arrival
	tickets []time.Time // when each lapses, in order
	next    time.Time   // closed: when the next may go
	n       int         // closed: how many have gone
}

// A waiter is one call of Wait. Its channel is closed when it may go or is refused.
// After that err may be read.
type waiter struct {
	since    time.Time
	deadline time.Time // zero: none
	place    *list.Element
	ticket   bool
	done     chan struct{}
	err      error
}

// turned starts over in another state.
func (l *line) turned(now time.Time) {
	l.tickets, l.next, l.n = nil, now, 0
}

// redeem removes the oldest ticket, since a trial has started.
func (l *line) redeem() {
	if len(l.tickets) > 0 {
		l.tickets = l.tickets[1:]
	}
}

func (l *line) first() *waiter {
	if e := l.waiting.Front(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

// finish takes w out of the line and ends its wait.
func (l *line) finish(w *waiter, err error) {
	l.waiting.Remove(w.place)
	w.place = nil
	w.err = err
	close(w.done)
}

// calm reports whether no caller has to wait.
func (c *core) calm() bool { return c.state == Closed && c.line.waiting.Len() == 0 }

// wait returns the caller's place in line, nil and nil if it may go at once, or an
// error if waiting makes no sense.
func (c *core) wait(now, deadline time.Time) (*waiter, error) {
	c.advance(now)
	if err := c.unfit(now, deadline); err != nil {
		return nil, err
	}
	w := &waiter{since: now, deadline: deadline, done: make(chan struct{})}
	w.place = c.line.waiting.PushBack(w)
	c.letGo(now)
	if w.place == nil { // let go already
		return nil, nil
	}
	return w, nil
}

// unfit refuses a caller whose deadline comes before the end of the cool-down.
func (c *core) unfit(now, deadline time.Time) error {
	if c.state != Open || deadline.IsZero() || c.retry.Before(deadline) {
		return nil
	}
	return &WaitError{Name: c.Name, Wait: c.retry.Sub(now), Left: deadline.Sub(now)}
}

// refuseUnfit refuses those in line whose deadline comes first.
func (c *core) refuseUnfit(now time.Time) {
	for e := c.line.waiting.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if err := c.unfit(now, w.deadline); err != nil {
			c.line.finish(w, err)
		}
	}
}

// leave takes w out of line. If it was let go meanwhile, the next one goes.
func (c *core) leave(now time.Time, w *waiter) {
	switch {
	case w.place != nil:
		c.line.waiting.Remove(w.place)
		w.place = nil
	case w.ticket:
		c.line.redeem()
	}
	c.advance(now)
}

// letGo lets callers go that may go now, and sets next.
func (c *core) letGo(now time.Time) {
	l := &c.line
	switch c.state {
	case Closed:
		for w := l.first(); w != nil && !now.Before(l.next); w = l.first() {
			l.finish(w, nil)
			l.next = now.Add(time.Second / time.Duration(firstPace+l.n))
			l.n++
		}
		c.next = l.next
	case HalfOpen:
		for len(l.tickets) > 0 && !now.Before(l.tickets[0]) {
			l.redeem()
		}
		free := c.free()
		for w := l.first(); w != nil && len(l.tickets) < free; w = l.first() {
			w.ticket = true
			l.finish(w, nil)
			l.tickets = append(l.tickets, now.Add(lapse))
		}
		c.next = c.overdue()
		if len(l.tickets) > 0 && (c.next.IsZero() || l.tickets[0].Before(c.next)) {
			c.next = l.tickets[0]
		}
	case Open:
		c.next = c.retry
	}
	if l.waiting.Len() == 0 {
		c.next = time.Time{}
	}
}
