package pacer

import (
	"time"
)

const (
	firstGhost = 5 * time.Second // how long an abandoned request counts at first
	leastGhost = time.Second
	mostGhost  = 5 * time.Minute
)

// ghosts are abandoned requests that the server may still work on. Each counts
// against the limit for a time that is learned:
//
//	a request that began later gets its first    the oldest ghost is gone, and the
//	output as quickly as ever                    next count for about as long
//	the server refuses or is slow just after     the next count for twice as long
//	a ghost has expired
type ghosts struct {
	left   []time.Duration // when each was abandoned, in order
	expire []time.Duration // when each expires
	weigh  time.Duration   // how long the next one counts
	last   time.Duration   // when one last expired; zero: none has, or ill has been told since
}

func (g *ghosts) add(now time.Duration) {
	if g.weigh == 0 {
		g.weigh = firstGhost
	}
	g.left = append(g.left, now)
	g.expire = append(g.expire, now+g.weigh)
}

func (g *ghosts) advance(now time.Duration) {
	// Later ones may be due sooner, if weigh has become shorter. That matters too
	// little to sort them.
	for len(g.expire) > 0 && now >= g.expire[0] {
		g.last = g.expire[0]
		g.pop()
	}
}

func (g *ghosts) pop() {
	g.left, g.expire = g.left[1:], g.expire[1:]
}

// well notes that a request which began at a time got its first output as quickly as
// ever.
func (g *ghosts) well(now, began time.Duration) {
	if len(g.left) == 0 || g.left[0] >= began {
		return
	}
	age := now - g.left[0]
	g.pop()
	g.weigh = max(leastGhost, g.weigh-(g.weigh-age)/4)
}

// ill notes that the server has less room than it should.
func (g *ghosts) ill(now time.Duration) {
	if g.last == 0 || now-g.last > g.weigh {
		return
	}
	g.last = 0
	g.weigh = min(2*g.weigh, mostGhost)
}

// next is when the next one expires. There must be one.
func (g *ghosts) next() time.Duration { return g.expire[0] }

func (g *ghosts) len() int { return len(g.left) }
