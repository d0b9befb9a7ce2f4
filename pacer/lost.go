package pacer

import (
	"math"
	"time"
)

// refused notes a request that the server had no room for.
func (c *climber) refused(now time.Duration, s *seat) {
	c.deaf = false
	c.heardLost(now, s, true)
	if c.tooMany(now, s) {
		c.fall(now, afterRefusal*c.level)
	}
}

// leftAlone notes a request that our side gave up, and whether it counts as lost.
func (c *climber) leftAlone(now time.Duration, s *seat, lost bool) {
	c.heardLost(now, s, lost)
	if lost && c.tooMany(now, s) {
		c.fall(now, max(min(c.level, fewest), afterRefusal*c.level))
	}
}

// heardLost notes whether a request was lost, perhaps by too much load.
func (c *climber) heardLost(now time.Duration, s *seat, lost bool) {
	from := c.blame.from
	switch c.blame.hear(s.heard.among, lost, s.began >= c.cutAt) {
	case worse:
		c.cutAt = now
		c.ghosts.ill(now)
		c.blame.suspect(c.level)
		c.fall(now, max(min(c.level, fewest), cut*c.level))
	case innocent:
		if c.level < from && !c.slower() {
			c.level, c.ceiling = from, 0
			c.seek(now)
		}
	}
}

// tooMany reports whether more requests are lost than usual, with s as the last one,
// and sets the level to the load at which that is so. It does so once for all
// requests that began before the last cut.
func (c *climber) tooMany(now time.Duration, s *seat) bool {
	if s.began < c.cutAt || !c.blame.unusual() {
		return false
	}
	n := min(c.level, float64(c.busy()+1+c.ghosts.len()))
	switch {
	case n <= 1:
		return false // the limit cannot be lower
	case c.blame.from > 0 && c.blame.isLess(n):
		return false // first it must show whether the last cut helps
	}
	c.blame.suspect(n)
	c.cutAt = now
	c.ghosts.ill(now)
	c.level = n
	return true
}

// slower reports whether requests take so much longer than with few losses that
// fewer of them would get as much done.
func (c *climber) slower() bool {
	if c.calm.n == 0 {
		return false
	}
	dx := math.Log(c.level / c.calm.n)
	return dx > leastStep && c.log(c.wait, c.gap)-c.y(c.calm) > c.aim()*dx
}
