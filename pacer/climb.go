package pacer

import (
	"math"
	"time"
)

// These were found by measuring: see docs/pacing.md.
const (
	defaultStart = 8
	growth       = 1.5  // of the limit, from one round of seeking to the next
	fastGrowth   = 2.0  // while requests hardly notice
	careful      = 1.05 // near where the limit was last cut
	dither       = 0.12 // of the limit, up and down
	gain         = 0.3  // how far a step of climbing goes
	longestStep  = 0.15
	leastStep    = 0.1  // of log n, for a slope to be seen between two rounds
	top          = 0.95 // the slope that climbing aims at; 1 is the top
	topQueued    = 0.35 // the same, if most of the time is waiting for the first output
	enough       = 0.15 // seeking ends this much below that slope
	hardly       = 0.3  // the slope below which requests hardly notice
	absurd       = 2.5  // a slope that no load explains
	cut          = 0.5  // what is left of the limit when the server is suddenly slow
	afterRefusal = 0.7  // what is left of the limit when the server refuses
	fewest       = 4    // slowness and losses do not cut the limit below this
	used         = 0.75 // of the limit must be in flight for it to be raised

	waitWeight  = 2    // how much the time to first output counts, against the rest of an answer
	loss        = 1    // what a lost answer adds to log T
	patient     = 1.3  // an abandoned request was long if a typical answer takes so much less
	lookBack    = 5    // points that must agree on a sudden change
	manyOutputs = 8    // pieces of output that make a point
	fewPoints   = 3    // the fewest points of a round
	noisyPoints = 8    // the same, if most of the time is waiting
	firstGuess  = 100  // pieces of output of an answer, until one has been seen
	outOfNoise  = 1.7  // standard deviations that a sudden change exceeds
	unclear     = 0.5  // if waiting is more than this part of T, the server may be queueing
	shortWait   = 0.05 // seconds to a first output that are not taken for a queue
	mostLost    = 0.5  // of a round: the limit is cut
	manyLost    = 0.25
	mostPoints  = 10_000 // of a round; more say the same
	longestTurn = time.Hour
)

// sudden is how much log T changes when the server is not what it was.
var sudden = math.Log(1.5)

// climber finds out how many requests the server does best at a time. It
// climbs the hill of goodput. If n requests in flight take the time T for a
// typical answer, the server does n/T of them a second, and more of them in
// flight are worth it as long as T grows slower than n does:
//
//	slope = d log T / d log n    0: it hardly notices     more is better
//	                             1: the top               more in flight is only more waiting
//	                             2: it trips over itself  fewer get more done
//
// T is the time to the first output and, for each piece of the typical answer, the
// time between pieces, so answers may differ in length by any factor. The time to
// the first output counts twice: it may be a wait in the server's queue, and ours is
// a better place to wait. n is the average over the time in which T was measured. To
// see a slope, n has to vary, so the limit goes a little up and down all the time.
//
//	seeking   the limit grows by half or doubles with each round of points, as
//	          long as it is used and the slope is low             → climbing
//	climbing  each round is a step along the slope
//	          the slope is very low                               → seeking
//	          points are all suddenly slower                      → seeking, from half
//	          points are all suddenly faster                      → seeking
//	either    the server refuses                                  → seeking, from seven tenths
//	          most of a round was lost                            → seeking, from half
//
// The limit grows only when it is used. If callers report no output, it grows
// whenever it is full, so it does not limit for long.
//
// All times are offsets from core.epoch.
type climber struct {
	level float64 // the limit, but for rounding and dither

	inFlight int
	area     float64 // request-seconds so far
	last     time.Duration

	seeking bool
	compare bool    // seeking: there was a round before
	before  point   // seeking: what that round showed
	ceiling float64 // where the limit was last cut; zero: nowhere
	grown   bool    // the limit has grown since then

	round   []point
	scratch []float64
	began   time.Duration // of the round
	askers  int           // requests that began in the round and gave points
	raised  float64       // by how much the limit was raised for the round
	settled time.Duration // since when the limit has been about the same

	up    bool          // the dither is up now, or down
	turns time.Duration // when it turns

	fit       fit
	recent    []float64 // how far the last points were from the expected T
	typical   float64   // mean number of pieces of an answer
	answers   float64   // how many answers that mean is of, bounded
	gap, wait float64   // seconds between pieces and to the first, lately
	cycle     float64   // seconds for an answer, lately
	ghosts    ghosts
	unheard   unheard
	blame     blame
	calm      point // what the last round with few losses showed
	cutAt     time.Duration

	overtook time.Duration // the latest begin of a request that has given output
	heardAt  time.Duration // when any output was last reported

	deaf     bool          // no output was ever reported
	trickled time.Duration // when one was last admitted beyond the limit, while deaf
}

func newClimber(start int) *climber {
	return &climber{level: float64(start), raised: float64(start), seeking: true, deaf: true, typical: firstGuess}
}

func (c *climber) advance(now time.Duration) {
	if now > c.last {
		c.area += float64(c.busy()) * (now - c.last).Seconds()
		c.last = now
	}
	c.ghosts.advance(now)
}

// busy is how many requests the server works on, as far as we know. Forgotten ones
// do not count, except that a quarter of those in flight always does: the server may
// only let others go first.
func (c *climber) busy() int {
	return c.inFlight - min(c.unheard.forgotten, 3*c.inFlight/4)
}

// limit is how many requests may be in flight.
func (c *climber) limit() int {
	l := c.level
	if !c.seeking {
		d := max(0.5, dither*l)
		if !c.up {
			d = -d
		}
		l += d
	}
	return int(min(max(1, math.Round(l)), math.MaxInt32))
}

// opens reports whether one more request may start. If not, at is when that may be
// even if none ends; zero means not known.
func (c *climber) opens(now time.Duration) (at time.Duration, open bool) {
	c.advance(now)
	l := c.limit()
	if busy := c.busy(); busy < l {
		// Ghosts take places, but not all: only other requests show whether the
		// server still works on them.
		if busy+c.ghosts.len() < l || busy < 1+l/4 {
			return now, true
		}
		return c.ghosts.next(), false
	}
	if !c.deaf {
		return 0, false
	}
	// No output was reported yet, perhaps since answers take long. One more request
	// every second does no harm, and starts 45 agents within a minute.
	if at := c.trickled + time.Second; now < at {
		return at, false
	}
	return now, true
}

func (c *climber) started(now time.Duration, s *seat) {
	c.advance(now)
	if c.deaf && c.inFlight >= c.limit() {
		c.level++ // it was admitted beyond the limit
	}
	c.inFlight++
	c.unheard.add(s)
	c.trickled = now
	s.heard = heard{area: c.area, since: now, among: float64(c.busy() + c.ghosts.len())}
}

// returned takes back a start.
func (c *climber) returned(now time.Duration, s *seat) {
	c.advance(now)
	c.inFlight--
	c.unheard.remove(s)
}
