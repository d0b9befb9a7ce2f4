package pacer

import (
	"time"
)

const (
	firstGhost = 5 * time.Second // what an abandoned request weighs on, until that is known better
	leastGhost = time.Second
	mostGhost  = 5 * time.Minute
)

// ghosts are requests that we left and that the server may still be at. Each
// keeps its weight for a time that is learned:
//
//	a request that began later gets its first output as quickly as ever   the oldest is gone,
//	                                                                      and the next will weigh
//	                                                                      for about as long
//	one has just expired and the server refuses, or is slow               the next weigh twice as long
type ghosts struct {
	left   []time.Duration // when we left, in order
	expire []time.Duration // when each loses its weight
	weigh  time.Duration
	last   time.Duration // when one last expired without a sign of life; zero: none has
}

func (g *ghosts) add(now time.Duration) {
	if g.weigh == 0 {
		g.weigh = firstGhost
	}
	g.left = append(g.left, now)
	g.expire = append(g.expire, now+g.weigh)
}

func (g *ghosts) advance(now time.Duration) {
	// Not in order, if the time they weigh has become shorter: none is worth
	// more than that.
	for len(g.expire) > 0 && now >= g.expire[0] {
		g.last = g.expire[0]
		g.pop()
	}
}

func (g *ghosts) pop() {
	g.left, g.expire = g.left[1:], g.expire[1:]
}

// well is told that a request which began at a time got its first output as
// quickly as ever.
func (g *ghosts) well(now, began time.Duration) {
	if len(g.left) == 0 || g.left[0] >= began {
		return
	}
	age := now - g.left[0]
	g.pop()
	g.weigh = max(leastGhost, g.weigh-(g.weigh-age)/4)
}

// ill is told that the server has less room than it should.
func (g *ghosts) ill(now time.Duration) {
	if g.last == 0 || now-g.last > g.weigh {
		return
	}
	g.last = 0
	g.weigh = min(2*g.weigh, mostGhost)
}

// next is when the next one loses its weight. There must be one.
func (g *ghosts) next() time.Duration { return g.expire[0] }

func (g *ghosts) len() int { return len(g.left) }
