package pacer

import (
	"math"
	"slices"
	"time"
)

// A point is what was measured with n in flight.
type point struct {
	n         float64
	wait, gap float64 // seconds to the first output, and between pieces
	lost      bool    // there was no answer
}

// point learns that with n in flight, since the last report of s, the first output
// took wait seconds and the gap between pieces was gap seconds.
func (c *climber) point(now time.Duration, s *seat, n, wait, gap float64, lost bool) {
	c.deaf = false
	if !(n > 0) || !(wait+gap > 0) {
		return
	}
	p := point{n: max(n, 1), wait: wait, gap: gap, lost: lost}
	recently(&c.gap, gap)
	recently(&c.wait, wait)
	recently(&c.cycle, wait+c.typical*gap)
	if s.heard.since < c.settled {
		return // it began before the round
	}
	if !c.seeking {
		x, y := math.Log(p.n), c.y(p)
		if c.fit.known() && c.changed(now, y-c.fit.expect(x)) {
			return
		}
		c.fit.learn(x, y, (now-c.fit.origin).Seconds()/c.cycle, 3*c.level+20)
	}
	if s.began >= c.began || !c.seeking {
		// While seeking, only requests count that ran with as many as there are now.
		if len(c.round) < mostPoints {
			c.round = append(c.round, p)
		}
		if s.heard.points == 0 {
			c.askers++
		}
	}
	s.heard.points++
	c.decide(now)
}

// log is log T.
func (c *climber) log(wait, gap float64) float64 {
	return math.Log(max(waitWeight*wait+c.typical*gap, 1e-9))
}

// y is log T of a point, and more if it was lost.
func (c *climber) y(p point) float64 {
	y := c.log(p.wait, p.gap)
	if p.lost {
		y += loss
	}
	return y
}

// waiting is the part of T that is waiting for the first output.
func (c *climber) waiting() float64 {
	return c.wait / max(c.wait+c.typical*c.gap, 1e-9)
}

// queued reports whether requests may be in a queue of the server: they wait for most
// of the time, and for longer than shortWait.
func (c *climber) queued() bool { return c.waiting() > unclear && c.wait > shortWait }

// aim is the slope to climb to. It is lower if requests may be in a queue of the
// server: what a queue does shows late, so that slopes look smaller than they are.
func (c *climber) aim() float64 {
	if c.wait <= shortWait {
		return top
	}
	queued := min(max((c.waiting()-0.2)/0.4, 0), 1)
	return top - (top-topQueued)*queued
}

// recently smooths what was measured lately.
func recently(of *float64, v float64) {
	switch {
	case v <= 0:
	case *of == 0:
		*of = v
	default:
		*of += (v - *of) / 10
	}
}

// typicalPoint is the median of the round, in each of its values.
func (c *climber) typicalPoint() point {
	return point{
		n:    c.middle(func(p *point) float64 { return p.n }),
		wait: c.middle(func(p *point) float64 { return p.wait }),
		gap:  c.middle(func(p *point) float64 { return p.gap }),
	}
}

// middle is the median of a value of the round's points.
func (c *climber) middle(of func(p *point) float64) float64 {
	c.scratch = c.scratch[:0]
	for i := range c.round {
		c.scratch = append(c.scratch, of(&c.round[i]))
	}
	return median(c.scratch)
}

// lostPart is the part of the round's points that were lost.
func lostPart(points []point) float64 {
	lost := 0
	for i := range points {
		if points[i].lost {
			lost++
		}
	}
	return float64(lost) / float64(len(points))
}

// median returns the median, and sorts v.
func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
