package pacer

import "time"

// A waiter is one caller in the queue. Its channel is closed when it has been
// admitted or refused; at and err may be read after that.
type waiter struct {
	since    time.Time
	deadline time.Time // zero: none
	done     chan struct{}
	at       time.Duration
	err      error

	queued        bool
	before, after *waiter
}

func (w *waiter) grant(at time.Duration) {
	w.at = at
	close(w.done)
}

func (w *waiter) refuse(err error) {
	w.err = err
	close(w.done)
}

// A queue is a list of waiters in order of arrival, out of the middle of which
// one can leave. Not container/list: that would box and allocate each one.
type queue struct {
	first, last *waiter
	len         int
}

func (q *queue) push(w *waiter) {
	w.queued, w.before = true, q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.after = w
	}
	q.last = w
	q.len++
}

func (q *queue) remove(w *waiter) {
	if w.before == nil {
		q.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		q.last = w.before
	} else {
		w.after.before = w.before
	}
	w.queued, w.before, w.after = false, nil, nil
	q.len--
}
