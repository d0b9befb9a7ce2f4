package pacer

import (
	"math"
	"time"
)

// refused hears of a request for which the server had no room.
func (c *climber) refused(now time.Duration, s *seat) {
	c.deaf = false
	c.heardLost(now, s, true)
	if c.tooMany(now, s) {
		c.fall(now, afterRefusal*c.level)
	}
}

// leftAlone hears of a request that we gave up, whether or not in vain.
func (c *climber) leftAlone(now time.Duration, s *seat, lost bool) {
	c.heardLost(now, s, lost)
	if lost && c.tooMany(now, s) {
		c.fall(now, max(min(c.level, fewest), afterRefusal*c.level))
	}
}

// heardLost hears whether a request was lost, perhaps for want of room.
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

// tooMany reports whether more are lost than is usual, s being the last of them,
// and makes the level that at which this is so. It says it once for all that began
// before it was last said.
func (c *climber) tooMany(now time.Duration, s *seat) bool {
	if s.began < c.cutAt || !c.blame.unusual() {
		return false
	}
	n := min(c.level, float64(c.busy()+1+c.ghosts.len()))
	switch {
	case n <= 1:
		return false // there is no less
	case c.blame.from > 0 && c.blame.isLess(n):
		return false // until it is known whether that helps
	}
	c.blame.suspect(n)
	c.cutAt = now
	c.ghosts.ill(now)
	c.level = n
	return true
}

// slower reports whether requests take so much longer than when all was well that
// fewer of them would get as much done.
func (c *climber) slower() bool {
	if c.calm.n == 0 {
		return false
	}
	dx := math.Log(c.level / c.calm.n)
	return dx > leastStep && c.log(c.wait, c.gap)-c.y(c.calm) > c.aim()*dx
}
