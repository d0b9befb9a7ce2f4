package pacer

import (
	"math"
	"time"
)

// heard is what was reported of a request in flight.
type heard struct {
	area   float64       // of the climber, when it began, and then at its first output
	since  time.Duration // when that was
	pieces int           // reported by then
	wait   time.Duration
	last   time.Duration // when output was last reported
	among  float64       // how many were in flight when it began, with itself and ghosts

	lately struct { // the same, as of the last point made of it
		area   float64
		since  time.Duration
		pieces int
	}
	points int // how many points were made of it
}

// first notes a first output.
func (c *climber) first(now time.Duration, s *seat, after time.Duration) {
	c.advance(now)
	c.served(now, s)
	h := &s.heard
	if h.wait > 0 || h.pieces > 0 || after <= 0 {
		return
	}
	n := c.average(now, h)
	h.wait = after
	h.area, h.since, h.pieces, h.last = c.area, now, 1, now
	if n > 0 && c.usual(after.Seconds(), n) {
		c.ghosts.well(now, s.began)
	}
}

// usual reports whether a first output came as quickly as usual with n in flight.
func (c *climber) usual(wait, n float64) bool {
	if c.fit.known() {
		return c.log(wait, c.gap)-c.fit.expect(math.Log(max(n, 1))) < sudden
	}
	return c.wait > 0 && math.Log(wait/c.wait) < sudden
}

// output notes how many pieces of output there are so far.
func (c *climber) output(now time.Duration, s *seat, pieces int) {
	c.advance(now)
	c.served(now, s)
	h := &s.heard
	h.last = now
	if h.pieces == 0 {
		h.area, h.since, h.pieces = c.area, now, pieces
		return
	}
	// Climbing waits for the ends of answers, which show more. Seeking does not,
	// since an answer may take minutes.
	if !c.seeking {
		return
	}
	l := &h.lately
	if l.since < h.since {
		l.area, l.since, l.pieces = h.area, h.since, h.pieces
	}
	took := now - l.since
	if more := pieces - l.pieces; more >= manyOutputs && took > 0 && took >= seconds(c.cycle/4) {
		n, gap := (c.area-l.area)/took.Seconds(), took.Seconds()/float64(more)
		l.area, l.since, l.pieces = c.area, now, pieces
		c.point(now, s, n, h.wait.Seconds(), gap, false)
	}
}

// served notes that a request has given output.
func (c *climber) served(now time.Duration, s *seat) {
	c.deaf = false
	c.heardAt = now
	if s.heard.pieces == 0 {
		c.unheard.remove(s)
		if c.wait > 0 {
			c.unheard.forget(s.began - max(seconds(longBefore*c.wait), leastBefore))
		}
	}
	if s.began > c.overtook {
		c.overtook = s.began
	}
}

// ended notes how a request ended.
func (c *climber) ended(now time.Duration, s *seat, r Result) {
	c.advance(now)
	full := c.deaf && c.inFlight >= c.limit()
	c.inFlight--
	h := &s.heard
	c.unheard.remove(s)
	switch r.Outcome {
	case Refused:
		c.refused(now, s)
	case Abandoned:
		c.abandoned(now, s, r.Outputs)
	case Cancelled:
		c.cancelled(now, s, r.Outputs)
	case Answered:
		c.heardLost(now, s, false)
		c.learnLength(r.Outputs)
		more := r.Outputs - h.pieces
		switch {
		case r.Outputs == 0 && h.pieces <= 1 && !c.deaf:
			// Callers do not count pieces. Each answer stands for a typical one.
			c.point(now, s, c.average(now, h), h.wait.Seconds(), (now-h.since).Seconds()/c.typical, false)
		case more > 0:
			c.pieces(now, s, r.Outputs, false)
		}
		if r.Outputs > 0 {
			c.served(now, s)
		}
	}
	if full && c.deaf && (r.Outcome == Answered || r.Outcome == Unknown) {
		c.level++
	}
}

// learnLength notes how long an answer was.
func (c *climber) learnLength(pieces int) {
	if pieces > 0 {
		c.answers = min(c.answers+1, 50)
		c.typical += (float64(pieces) - c.typical) / c.answers
	}
}

// abandoned notes that a request was abandoned after so many pieces of output.
func (c *climber) abandoned(now time.Duration, s *seat, pieces int) {
	h := &s.heard
	pieces = max(pieces, h.pieces)
	took := (now - s.began).Seconds()
	if pieces == 0 && s.began < c.overtook {
		return // later ones are served: it was forgotten, which is no sign of load
	}
	c.ghosts.add(now)
	if float64(pieces) > c.typical {
		c.learnLength(pieces) // otherwise only short answers would count
	}
	more := pieces - h.pieces
	switch {
	case c.deaf || !(took > 0) || c.stalled(now, h):
	case pieces == 0:
		if took > c.wait { // otherwise it was given up too soon to show anything
			c.leftAlone(now, s, true)
			c.point(now, s, c.average(now, h), took, 0, true)
		}
	case more >= manyOutputs || more > 0 && h.pieces == 0:
		// If a typical answer would have ended in this time, this was a long one,
		// and shows nothing but its pace.
		gap := (now - h.since).Seconds() / float64(more)
		lost := (h.wait.Seconds()+c.typical*gap)*patient > took
		c.leftAlone(now, s, lost)
		c.pieces(now, s, pieces, lost)
	case c.heardAt <= h.since+seconds(c.gap):
		// It stood still, and so do all others.
		c.leftAlone(now, s, true)
		c.point(now, s, c.average(now, h), h.wait.Seconds(), (now - h.since).Seconds(), true)
	}
}

// stalled reports whether a request stood still while others went on. That is no
// sign of load, and its pace is of no use.
func (c *climber) stalled(now time.Duration, h *heard) bool {
	still := now - 2*outputEvery - seconds(10*c.gap)
	return h.last > 0 && h.last < still && c.heardAt >= still
}

// cancelled notes that a caller no longer wanted a request. It shows nothing about
// the server but its pace.
func (c *climber) cancelled(now time.Duration, s *seat, pieces int) {
	c.ghosts.add(now)
	if pieces-s.heard.pieces >= manyOutputs && !c.stalled(now, &s.heard) {
		c.pieces(now, s, pieces, false)
	}
}

// pieces makes a point of the pieces that came after the first one of s.
func (c *climber) pieces(now time.Duration, s *seat, pieces int, lost bool) {
	h := &s.heard
	if took := (now - h.since).Seconds(); took > 0 {
		c.point(now, s, c.average(now, h), h.wait.Seconds(), took/float64(pieces-h.pieces), lost)
	}
}

// average is how many were in flight on average since h was last set.
func (c *climber) average(now time.Duration, h *heard) float64 {
	took := (now - h.since).Seconds()
	if took <= 0 {
		return 0
	}
	return (c.area - h.area) / took
}
