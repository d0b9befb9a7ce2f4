package pacer

import (
	"math"
	"slices"
	"time"
)

// fall cuts the limit, and remembers where that was: near there the limit grows with
// care. A server that recovers gets faster by itself meanwhile, which looks as if
// more load did no harm.
func (c *climber) fall(now time.Duration, to float64) {
	if c.grown || c.ceiling == 0 {
		c.ceiling = c.level
	}
	c.grown = false
	c.level = max(1, to)
	c.seek(now)
}

// seek begins to seek, without points.
func (c *climber) seek(now time.Duration) {
	c.seeking, c.compare = true, false
	c.anew(now)
}

// climb ends seeking.
func (c *climber) climb(now time.Duration) {
	c.seeking = false
	c.turns = 0
	c.anew(now)
}

// anew forgets the round's points, after a step that makes a difference.
func (c *climber) anew(now time.Duration) {
	c.settled = now
	c.began, c.round, c.askers = now, c.round[:0], 0
	c.raised = c.level
	c.fit = fit{origin: now}
	c.recent = c.recent[:0]
}

// changed acts on a server that is suddenly slower or faster.
func (c *climber) changed(now time.Duration, off float64) bool {
	c.recent = append(c.recent, off)
	if len(c.recent) < lookBack {
		return false
	}
	if len(c.recent) > lookBack {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	much := max(sudden, outOfNoise*math.Sqrt(c.fit.noise))
	switch m := median(slices.Clone(c.recent)); {
	case m > much:
		c.ghosts.ill(now)
		c.fall(now, max(min(c.level, fewest), c.level*cut))
	case m < -much:
		c.seek(now)
	default:
		return false
	}
	return true
}

// decide ends the round if there are enough points, and takes the next step.
func (c *climber) decide(now time.Duration) {
	if n := len(c.round); n < max(fewPoints, int(min(math.Round(c.level), mostPoints))) || n < noisyPoints && c.noisy() {
		return
	}
	// Some requests that were admitted for this round may still wait for the
	// server. Without them the others would look too good.
	if c.seeking && float64(c.askers) < min(c.raised, c.level)/2 {
		return
	}
	if !c.seeking && now < c.turns {
		return
	}
	lost := lostPart(c.round)
	inUse := c.middle(func(p *point) float64 { return p.n }) >= used*max(1, c.level-0.5)
	p := point{}
	if inUse {
		p = c.typicalPoint()
		if lost <= tolerable {
			c.calm = p
		}
	}
	c.began, c.round, c.askers = now, c.round[:0], 0
	switch {
	case lost > mostLost:
		c.fall(now, max(min(c.level, fewest), c.level*cut))
	case !inUse:
		c.turn(now)
	case !c.seeking:
		c.step(now, p)
	case lost > manyLost:
		c.fall(now, 0.8*c.level)
		c.climb(now)
	default:
		c.grow(now, p)
	}
}

// noisy reports whether it takes more than a few points to trust them.
func (c *climber) noisy() bool { return c.queued() || lostPart(c.round) > 0 }

// turn switches the dither between up and down. Each half takes the time of two
// answers, since what a queue does shows late.
func (c *climber) turn(now time.Duration) {
	if !c.seeking {
		c.up = !c.up
		c.turns = now + min(seconds(2*c.cycle), longestTurn)
	}
}

// step is one of climbing.
func (c *climber) step(now time.Duration, p point) {
	by := min(max(gain*(c.aim()-c.fit.slope), -longestStep), longestStep)
	c.level = max(1, c.level*math.Exp(by))
	c.grown = c.grown || by > 0
	c.turn(now)
	if c.fit.isBelow(hardly) && !c.queued() {
		c.seeking = true
		c.change(now, p, growth)
	}
}

// grow is a step of seeking, or its end.
func (c *climber) grow(now time.Duration, p point) {
	by := growth
	if !c.compare && c.queued() {
		// That may be the server's queue: then fewer do as well.
		by = 1 / growth
	}
	if c.compare {
		dx := math.Log(p.n / c.before.n)
		if math.Abs(dx) < leastStep {
			dx = math.Copysign(leastStep, dx)
		}
		slope := (c.y(p) - c.y(c.before)) / dx
		if dx < 0 && slope > absurd {
			// It got quicker by itself, as new servers and connections do.
			c.change(now, p, max(c.before.n/p.n, 1))
			return
		}
		if slope > c.aim()-enough {
			if slope > c.aim() && dx > 0 {
				c.level = max(1, c.before.n)
			}
			c.climb(now)
			return
		}
		if slope < hardly && !c.queued() && dx > leastStep {
			if by = fastGrowth; c.blame.lately().lost > 0 {
				by = growth
			}
		}
	}
	c.change(now, p, by)
}

// change is a step of seeking from where p was measured.
func (c *climber) change(now time.Duration, p point, by float64) {
	c.compare, c.before = true, p
	c.grown = c.grown || by > 1
	was := c.level
	c.level = max(1, was*by)
	if by > 1 {
		c.level = max(c.level, was+1)
	}
	if c.ceiling > 0 && was >= c.ceiling {
		c.ceiling = 0 // the server takes as many again
	}
	if near := 0.8 * c.ceiling; c.ceiling > 0 && c.level > near {
		c.level = max(min(c.level, near), was*careful, was+0.5)
	}
	c.anew(now)
	c.raised = max(0, c.level-was)
}
