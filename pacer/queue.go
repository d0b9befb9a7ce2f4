package pacer

import (
	"slices"
	"time"
)

// patience is how many waiters of higher levels may go before one of a lower level.
const patience = 8

// A waiter is one caller in the queue. Its channel is closed when it is admitted or
// refused. After that its seat and err may be read.
type waiter struct {
	demand   Demand
	since    time.Time
	deadline time.Time // zero: none
	done     chan struct{}
	seat     *seat // filled when it is admitted
	err      error

	lane          *lane // nil: no longer in the queue
	before, after *waiter
}

func (w *waiter) refuse(err error) {
	w.err = err
	close(w.done)
}

// A queue is levels of priority, the highest first. Each level is a round of lanes,
// one for each agent, in which the agent's requests are in order of arrival. The next
// is the first waiter of the first lane of the level whose turn it is. Then its lane
// goes to the end of the round. It is the highest level's turn, unless another was
// passed over too often.
//
// Not container/list: that would box and allocate each waiter.
type queue struct {
	levels []*level
	len    int
	spare  *level // an empty one with a lane, so that a mostly empty queue allocates neither
}

type level struct {
	rank        int
	first, last *lane
	lanes       map[string]*lane
	passed      int // how many of higher levels went while some waited here, up to patience
}

type lane struct {
	level         *level
	agent         string
	first, last   *waiter
	len           int
	before, after *lane
}

// rank is the rank of a demand's level.
func rank(d Demand, finishFirst bool) int {
	// In half steps, so that Finishing decides within a priority only.
	r := min(max(d.Priority, -1<<30), 1<<30) * 2
	if d.Finishing && finishFirst {
		r++
	}
	return r
}

func (q *queue) push(w *waiter, rank int) {
	l := q.level(rank).lane(w.demand.Agent)
	w.lane, w.before = l, l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.after = w
	}
	l.last = w
	l.len++
	q.len++
}

// next returns the waiter that goes next, or nil.
func (q *queue) next() *waiter {
	if q.len == 0 {
		return nil
	}
	turn := q.levels[0]
	for _, l := range q.levels[1:] {
		if l.passed >= patience {
			turn = l
		}
	}
	return turn.first.first
}

// take removes w, which is next, and ends its agent's turn.
func (q *queue) take(w *waiter) {
	l := w.lane
	v := l.level
	v.passed = 0
	for _, below := range q.levels {
		if below.rank < v.rank {
			below.passed++
		}
	}
	if l != v.last {
		v.unlink(l)
		v.link(l)
	}
	q.remove(w)
}

// remove takes w out, wherever it is.
func (q *queue) remove(w *waiter) {
	l := w.lane
	if w.before == nil {
		l.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		l.last = w.before
	} else {
		w.after.before = w.before
	}
	w.lane, w.before, w.after = nil, nil, nil
	l.len--
	q.len--
	if l.len > 0 {
		return
	}
	v := l.level
	if v.first == v.last {
		// The level is empty, except for its last lane.
		q.levels = slices.Delete(q.levels, slices.Index(q.levels, v), slices.Index(q.levels, v)+1)
		q.spare = v
		return
	}
	v.unlink(l)
	delete(v.lanes, l.agent)
}

// each calls f for all waiters, with how many are certain to go before: one of each
// other lane, and those ahead in its own. f may remove the waiter, which then counts
// no longer.
func (q *queue) each(f func(w *waiter, ahead int)) {
	for _, v := range slices.Clone(q.levels) {
		for l := v.first; l != nil; {
			next := l.after
			ahead := 0
			for w := l.first; w != nil; {
				after := w.after
				others := len(v.lanes) - 1
				if ahead == 0 {
					others = 0 // it may be the next
				}
				f(w, ahead+others)
				if w.lane != nil {
					ahead++
				}
				w = after
			}
			l = next
		}
	}
}

// ahead is how many are certain to go before a caller that joins now.
func (q *queue) ahead(d Demand, rank int) int {
	for _, v := range q.levels {
		if v.rank != rank {
			continue
		}
		if l := v.lanes[d.Agent]; l != nil {
			return l.len + len(v.lanes) - 1
		}
		return len(v.lanes)
	}
	return 0
}

// likely is how many are likely to go before w.
func (q *queue) likely(w *waiter) (n int) {
	own := 0 // how many are ahead in its lane, and so many rounds come before its turn
	for x := w.before; x != nil; x = x.before {
		own++
	}
	for _, v := range q.levels {
		reached := false
		for l := v.first; l != nil; l = l.after {
			switch {
			case v.rank > w.lane.level.rank:
				n += l.len
			case v.rank < w.lane.level.rank:
			case l == w.lane:
				n += own
				reached = true
			case reached:
				n += min(l.len, own)
			default:
				n += min(l.len, own+1)
			}
		}
	}
	return n
}

// level returns the level of a rank, and makes it if there is none.
func (q *queue) level(rank int) *level {
	i, ok := slices.BinarySearchFunc(q.levels, rank, func(l *level, rank int) int { return rank - l.rank })
	if ok {
		return q.levels[i]
	}
	v := q.spare
	if v == nil {
		v = &level{lanes: make(map[string]*lane, 1)}
	}
	q.spare = nil
	v.rank, v.passed = rank, 0
	q.levels = slices.Insert(q.levels, i, v)
	return v
}

// lane returns the lane of an agent, and makes it at the end of the round if there
// is none.
func (v *level) lane(agent string) *lane {
	if l := v.lanes[agent]; l != nil {
		return l
	}
	if l := v.first; l != nil && l.len == 0 {
		// The lane of a spare level.
		delete(v.lanes, l.agent)
		l.agent = agent
		v.lanes[agent] = l
		return l
	}
	l := &lane{level: v, agent: agent}
	v.lanes[agent] = l
	v.link(l)
	return l
}

func (v *level) link(l *lane) {
	l.before = v.last
	if v.last == nil {
		v.first = l
	} else {
		v.last.after = l
	}
	v.last = l
}

func (v *level) unlink(l *lane) {
	if l.before == nil {
		v.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		v.last = l.before
	} else {
		l.after.before = l.before
	}
	l.before, l.after = nil, nil
}
