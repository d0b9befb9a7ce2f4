package breaker

import (
	"container/list"
	"time"
)

const (
	firstPace = 10          // waiters let go per second right after it closed
	lapse     = time.Second // for so long a trial is kept for whom Wait let go
)

// line is those who wait, and whom we let go.
//
// Half-open, as many are let go as trials can be made, and each holds a ticket
// until a trial starts. A ticket lapses, because whoever was let go may be held
// up on the way to Acquire or not come at all, and the others must not depend
// on it. Closed, they go one by one: n others gone, the next follows
// 1/(firstPace+n) seconds later, so the pace grows with use, one a second for
// each. A herd would be the next outage.
type line struct {
	waiting list.List   // of *waiter, in order of arrival
	tickets []time.Time // when each lapses, in order
	next    time.Time   // closed: nobody goes before
	n       int         // closed: let go so far
}

// A waiter is one call of Wait. Its channel is closed when it has been let go or
// refused; err may be read after that.
type waiter struct {
	since    time.Time
	deadline time.Time // zero: none
	place    *list.Element
	ticket   bool
	done     chan struct{}
	err      error
}

// turned begins anew in another state.
func (l *line) turned(now time.Time) {
	l.tickets, l.next, l.n = nil, now, 0
}

// redeem takes the oldest ticket: a trial has started, by whomever.
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

// calm reports whether nobody has to wait for anything.
func (c *core) calm() bool { return c.state == Closed && c.line.waiting.Len() == 0 }

// wait returns nil and nil if the caller may go, an error if it will not wait,
// or its place in line.
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

// unfit refuses to wait for a cool-down that outlasts the caller.
func (c *core) unfit(now, deadline time.Time) error {
	if c.state != Open || deadline.IsZero() || c.retry.Before(deadline) {
		return nil
	}
	return &WaitError{Name: c.Name, Wait: c.retry.Sub(now), Left: deadline.Sub(now)}
}

// refuseUnfit tells those in line who cannot outwait the cool-down.
func (c *core) refuseUnfit(now time.Time) {
	for e := c.line.waiting.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if err := c.unfit(now, w.deadline); err != nil {
			c.line.finish(w, err)
		}
	}
}

// leave takes w out of line; if it has been let go meanwhile, another goes.
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

// letGo lets go whoever may go now, and sets next.
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
