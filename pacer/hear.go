package pacer

import (
	"math"
	"time"
)

// heard is what is known of a request under way.
type heard struct {
	area   float64       // of the climber, when it began, and then at its first output
	since  time.Duration // when that was
	pieces int           // heard of by then
	wait   time.Duration
	last   time.Duration // when output was last heard of
	among  float64       // how many were in flight when it began, with it and those that were left

	lately struct { // the same, when a point was last made on the way
		area   float64
		since  time.Duration
		pieces int
	}
	points int // made of it
}

// first hears of a first output.
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

// usual reports whether a first output came as quickly as ever, with n in
// flight.
func (c *climber) usual(wait, n float64) bool {
	if c.fit.known() {
		return c.log(wait, c.gap)-c.fit.expect(math.Log(max(n, 1))) < sudden
	}
	return c.wait > 0 && math.Log(wait/c.wait) < sudden
}

// output hears of pieces of output so far.
func (c *climber) output(now time.Duration, s *seat, pieces int) {
	c.advance(now)
	c.served(now, s)
	h := &s.heard
	h.last = now
	if h.pieces == 0 {
		h.area, h.since, h.pieces = c.area, now, pieces
		return
	}
	// Climbing has time to wait for the ends of answers, which tell more.
	// Seeking has not: an answer may take minutes.
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

// served is told that a request has given output.
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

// ended hears how a request ended.
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
			// Nobody counts. Then any answer stands for the typical one.
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

// learnLength hears how long an answer was.
func (c *climber) learnLength(pieces int) {
	if pieces > 0 {
		c.answers = min(c.answers+1, 50)
		c.typical += (float64(pieces) - c.typical) / c.answers
	}
}

// abandoned hears that we left a request, with so many pieces of output.
func (c *climber) abandoned(now time.Duration, s *seat, pieces int) {
	h := &s.heard
	pieces = max(pieces, h.pieces)
	took := (now - s.began).Seconds()
	if pieces == 0 && s.began < c.overtook {
		return // those behind it are served: it was forgotten, and is not for want of room
	}
	c.ghosts.add(now)
	if float64(pieces) > c.typical {
		c.learnLength(pieces) // or only short answers would count
	}
	more := pieces - h.pieces
	switch {
	case c.deaf || !(took > 0) || c.stalled(now, h):
	case pieces == 0:
		if took > c.wait { // else it was given up before anything could be known
			c.leftAlone(now, s, true)
			c.point(now, s, c.average(now, h), took, 0, true)
		}
	case more >= manyOutputs || more > 0 && h.pieces == 0:
		// If a typical answer would have been there in time, this was a long
		// one, and says nothing but its pace.
		gap := (now - h.since).Seconds() / float64(more)
		lost := (h.wait.Seconds()+c.typical*gap)*patient > took
		c.leftAlone(now, s, lost)
		c.pieces(now, s, pieces, lost)
	case c.heardAt <= h.since+seconds(c.gap):
		// It stood still, and so does everybody else.
		c.leftAlone(now, s, true)
		c.point(now, s, c.average(now, h), h.wait.Seconds(), (now - h.since).Seconds(), true)
	}
}

// stalled reports whether a request has stood still while others did not: that
// says nothing of the load, and its pace until now is none.
func (c *climber) stalled(now time.Duration, h *heard) bool {
	still := now - 2*outputEvery - seconds(10*c.gap)
	return h.last > 0 && h.last < still && c.heardAt >= still
}

// cancelled hears that a caller wanted a request no longer, which says nothing
// about the server but how fast it was.
func (c *climber) cancelled(now time.Duration, s *seat, pieces int) {
	c.ghosts.add(now)
	if pieces-s.heard.pieces >= manyOutputs && !c.stalled(now, &s.heard) {
		c.pieces(now, s, pieces, false)
	}
}

// pieces makes a point of the pieces that came since the first of s.
func (c *climber) pieces(now time.Duration, s *seat, pieces int, lost bool) {
	h := &s.heard
	if took := (now - h.since).Seconds(); took > 0 {
		c.point(now, s, c.average(now, h), h.wait.Seconds(), took/float64(pieces-h.pieces), lost)
	}
}

// average is how many were in flight since h was last heard of.
func (c *climber) average(now time.Duration, h *heard) float64 {
	took := (now - h.since).Seconds()
	if took <= 0 {
		return 0
	}
	return (c.area - h.area) / took
}
