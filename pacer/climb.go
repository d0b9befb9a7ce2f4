package pacer

import (
	"math"
	"slices"
	"time"
)

// These came out of measuring; docs/pacing.md has the numbers.
const (
	defaultStart = 8
	growth       = 1.5  // of the limit, from one round of seeking to the next
	fastGrowth   = 2.0  // while requests hardly notice
	careful      = 1.05 // near where the server last refused
	dither       = 0.12 // of the limit, up and down
	gain         = 0.3  // how far a step of climbing goes
	longestStep  = 0.15
	top          = 0.95 // the slope that climbing aims at; 1 is the top
	topQueued    = 0.35 // the same, if most of the time is waiting for the first output
	enough       = 0.15 // seeking ends so much below it
	hardly       = 0.3  // the slope below which requests hardly notice
	cut          = 0.5  // what is left of the limit when the server is suddenly slow
	afterRefusal = 0.7  // what is left of it when the server refuses
	fewest       = 4    // to which slowness alone may cut it
	used         = 0.75 // of the limit; with fewer in flight it teaches nothing

	waitWeight  = 2   // what waiting for the first output counts, to the rest of an answer
	loss        = 1   // what an answer that was lost adds to log T
	patient     = 1.3 // an answer that takes so much less than we waited would have been there
	lookBack    = 5   // points that must agree on a sudden change
	manyOutputs = 8   // pieces of output that make a point
	fewPoints   = 3   // of a round, at least
	noisyPoints = 8   // the same, if most of the time is waiting
	firstGuess  = 100 // pieces of output of an answer, until one has been seen
	outOfNoise  = 1.7 // standard deviations that a sudden change exceeds
	unclear     = 0.5 // the part of T that waiting may be, to be clear about the server
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
// T is the time to the first output and, for each piece of the typical
// answer, the time between pieces, so that answers may differ in length by any
// factor. Waiting for the first output counts twice: if that is the server's
// queue, ours is a better place to wait. What is counted as n is the average
// over the time in which T was seen. To know the slope n has to vary, so the
// limit goes a little up and down all the time.
//
//	seeking   the limit grows by half or doubles with each round of points, as
//	          long as it is used and the slope is low             → climbing
//	climbing  each round is a step along the slope
//	          the slope is very low                               → seeking
//	          points are all suddenly slower                      → seeking, from half
//	          points are all suddenly faster                      → seeking
//	either    the server refuses                                  → seeking, from less than it had
//	          most of a round was lost                            → seeking, from half
//
// It grows only when it is used. With callers who tell nothing of how their
// requests go it grows whenever it is full, so that it is no limit for long.
type climber struct {
	level float64 // the limit, but for rounding and dither

	inFlight int
	area     float64 // request-seconds so far
	last     time.Time

	seeking bool
	compare bool    // seeking: there was a round before
	before  point   // seeking: what it showed
	ceiling float64 // where the server refused; zero: nowhere

	round   []point
	began   time.Time // of the round
	askers  int       // requests that began in it and gave points
	raised  float64   // by how much the limit was raised for it
	settled time.Time // since when the limit has been about what it is

	up    bool // half a dither up, or down
	turns time.Time

	fit       fit
	recent    []float64 // how far the last points were from what was expected
	typical   float64   // pieces of output of an answer
	answers   float64   // of which that is the mean, as far as it goes
	gap, wait float64   // seconds between pieces and to the first, lately
	cycle     float64   // seconds for an answer, lately
	ghosts    ghosts
	cutAt     time.Time

	overtook time.Time // when the latest request began that has given output
	heardAt  time.Time // when any output was last heard of

	deaf     bool      // nothing was ever heard of how requests go
	trickled time.Time // when it last let one in for want of news
}

// A point is what was seen with n in flight.
type point struct {
	x         float64 // log n
	wait, gap float64 // seconds to the first output, and between pieces
	lost      bool    // nobody got an answer
}

// heard is what is known of a request under way.
type heard struct {
	area   float64   // of the climber, when it began, and then at its first output
	since  time.Time // when that was
	pieces int       // heard of by then
	wait   time.Duration

	lately struct { // the same, when a point was last made on the way
		area   float64
		since  time.Time
		pieces int
	}
	points int // made of it
}

func newClimber(start int) *climber {
	return &climber{level: float64(start), raised: float64(start), seeking: true, deaf: true, typical: firstGuess}
}

func (c *climber) advance(now time.Time) {
	if c.last.IsZero() {
		c.last, c.trickled = now, now
		c.anew(now)
	}
	if now.After(c.last) {
		c.area += float64(c.inFlight) * now.Sub(c.last).Seconds()
		c.last = now
	}
	c.ghosts.advance(now)
}

// limit is how many may be in flight.
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

// opens reports whether one more may start, and if not, when that may be
// without one ending; zero is not known.
func (c *climber) opens(now time.Time) (at time.Time, open bool) {
	c.advance(now)
	l := c.limit()
	if c.inFlight < l {
		// Ghosts take places, but not all of them: somebody has to find out
		// whether they are still there.
		if c.inFlight+c.ghosts.len() < l || c.inFlight < 1+l/4 {
			return now, true
		}
		return c.ghosts.next(), false
	}
	if !c.deaf {
		return time.Time{}, false
	}
	// Nothing was heard of anybody yet. Perhaps answers take long: one more
	// every second does no harm and has 45 agents started within a minute.
	if at := c.trickled.Add(time.Second); now.Before(at) {
		return at, false
	}
	return now, true
}

func (c *climber) started(now time.Time, s *seat) {
	c.advance(now)
	if c.inFlight >= c.limit() {
		c.level++ // it was let in for want of news
	}
	c.inFlight++
	c.trickled = now
	s.heard = heard{area: c.area, since: now}
}

// returned takes back a start.
func (c *climber) returned(now time.Time) {
	c.advance(now)
	c.inFlight--
}

// first hears of a first output.
func (c *climber) first(now time.Time, s *seat, after time.Duration) {
	c.advance(now)
	c.served(now, s)
	h := &s.heard
	if h.wait > 0 || h.pieces > 0 || after <= 0 {
		return
	}
	n := c.average(now, h)
	h.wait = after
	h.area, h.since, h.pieces = c.area, now, 1
	if n > 0 && c.fit.known() && c.log(after.Seconds(), c.gap)-c.fit.expect(math.Log(max(n, 1))) < sudden {
		c.ghosts.well(now, s.began)
	}
}

// output hears of pieces of output so far.
func (c *climber) output(now time.Time, s *seat, pieces int) {
	c.advance(now)
	c.served(now, s)
	h := &s.heard
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
	if l.since.Before(h.since) {
		l.area, l.since, l.pieces = h.area, h.since, h.pieces
	}
	took := now.Sub(l.since)
	if more := pieces - l.pieces; more >= manyOutputs && took > 0 && took >= seconds(c.cycle/4) {
		n, gap := (c.area-l.area)/took.Seconds(), took.Seconds()/float64(more)
		l.area, l.since, l.pieces = c.area, now, pieces
		c.point(now, s, n, h.wait.Seconds(), gap, false)
	}
}

// served is told that a request has given output.
func (c *climber) served(now time.Time, s *seat) {
	c.deaf = false
	c.heardAt = now
	if s.began.After(c.overtook) {
		c.overtook = s.began
	}
}

// ended hears how a request ended.
func (c *climber) ended(now time.Time, s *seat, r Result) {
	c.advance(now)
	full := c.inFlight >= c.limit()
	c.inFlight--
	h := &s.heard
	switch r.Outcome {
	case Refused:
		c.refused(now, s)
	case Abandoned:
		c.abandoned(now, s, r.Outputs)
	case Answered:
		c.learnLength(r.Outputs)
		more := r.Outputs - h.pieces
		switch {
		case r.Outputs == 0 && h.pieces == 0 && !c.deaf:
			// Nobody counts. Then any answer stands for the typical one.
			c.point(now, s, c.average(now, h), 0, now.Sub(h.since).Seconds()/c.typical, false)
		case more > 0:
			c.pieces(now, s, r.Outputs, false)
		}
		if r.Outputs > 0 {
			c.served(now, s)
		}
	}
	if c.deaf && full && (r.Outcome == Answered || r.Outcome == Unknown) {
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
func (c *climber) abandoned(now time.Time, s *seat, pieces int) {
	h := &s.heard
	pieces = max(pieces, h.pieces)
	took := now.Sub(s.began).Seconds()
	if pieces == 0 && s.began.Before(c.overtook) {
		return // those behind it are served: it was forgotten, and is not for want of room
	}
	c.ghosts.add(now)
	if float64(pieces) > c.typical {
		c.learnLength(pieces) // or only short answers would count
	}
	more := pieces - h.pieces
	switch {
	case c.deaf || !(took > 0):
	case pieces == 0:
		if took > c.wait { // else it was cancelled before anything could be known
			c.point(now, s, c.average(now, h), took, 0, true)
		}
	case more >= manyOutputs || more > 0 && h.pieces == 0:
		// If a typical answer would have been there in time, this was a long
		// one, and says nothing but its pace.
		gap := now.Sub(h.since).Seconds() / float64(more)
		c.pieces(now, s, pieces, (h.wait.Seconds()+c.typical*gap)*patient > took)
	case !c.heardAt.After(h.since.Add(seconds(c.gap))):
		// It stood still, and so does everybody else.
		c.point(now, s, c.average(now, h), h.wait.Seconds(), now.Sub(h.since).Seconds(), true)
	}
}

// pieces makes a point of the pieces that came since the first of s.
func (c *climber) pieces(now time.Time, s *seat, pieces int, lost bool) {
	h := &s.heard
	if took := now.Sub(h.since).Seconds(); took > 0 {
		c.point(now, s, c.average(now, h), h.wait.Seconds(), took/float64(pieces-h.pieces), lost)
	}
}

// average is how many were in flight since h was last heard of.
func (c *climber) average(now time.Time, h *heard) float64 {
	took := now.Sub(h.since).Seconds()
	if took <= 0 {
		return 0
	}
	return (c.area - h.area) / took
}

// refused is once for all that began before the last time.
func (c *climber) refused(now time.Time, s *seat) {
	if s.began.Before(c.cutAt) {
		return
	}
	c.cutAt = now
	c.deaf = false
	c.ghosts.ill(now)
	c.ceiling = min(c.level, float64(c.inFlight+1))
	c.level = max(1, afterRefusal*c.ceiling)
	c.seek(now)
}

// seek begins to seek, with nothing known.
func (c *climber) seek(now time.Time) {
	c.seeking, c.compare = true, false
	c.anew(now)
}

// climb ends seeking.
func (c *climber) climb(now time.Time) {
	c.seeking = false
	c.turns = time.Time{}
	c.anew(now)
}

// anew forgets all points, after a step that makes a difference.
func (c *climber) anew(now time.Time) {
	c.settled = now
	c.began, c.round, c.askers = now, c.round[:0], 0
	c.raised = c.level
	c.fit = fit{origin: now}
	c.recent = c.recent[:0]
}

// point learns that with n in flight, since s was last heard of, the first
// output took so many seconds and the gap between pieces was so many.
func (c *climber) point(now time.Time, s *seat, n, wait, gap float64, lost bool) {
	c.deaf = false
	if !(n > 0) || !(wait+gap > 0) {
		return
	}
	p := point{x: math.Log(max(n, 1)), wait: wait, gap: gap, lost: lost}
	recently(&c.gap, gap)
	recently(&c.wait, wait)
	recently(&c.cycle, wait+c.typical*gap)
	if s.heard.since.Before(c.settled) {
		return // of what was before
	}
	if !c.seeking {
		y := c.y(p)
		if c.fit.known() && c.changed(now, y-c.fit.expect(p.x)) {
			return
		}
		c.fit.learn(p.x, y, now.Sub(c.fit.origin).Seconds()/c.cycle, 3*c.level+20)
	}
	if !s.began.Before(c.began) || !c.seeking {
		// Seeking, only those count that have found as many as there are now.
		c.round = append(c.round, p)
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

// waiting is the part of the time that is waiting for the first output.
func (c *climber) waiting() float64 {
	return c.wait / max(c.wait+c.typical*c.gap, 1e-9)
}

// aim is the slope to climb to. Where the time is mostly waiting that is less:
// what queues do shows late, and makes slopes look smaller than they are.
func (c *climber) aim() float64 {
	queued := min(max((c.waiting()-0.2)/0.4, 0), 1)
	return top - (top-topQueued)*queued
}

// recently smooths what was seen lately.
func recently(of *float64, v float64) {
	switch {
	case v <= 0:
	case *of == 0:
		*of = v
	default:
		*of += (v - *of) / 10
	}
}

// changed sees to a server that is not what it was.
func (c *climber) changed(now time.Time, off float64) bool {
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
		c.level = max(min(c.level, fewest), c.level*cut)
	case m < -much:
	default:
		return false
	}
	c.seek(now)
	return true
}

// decide ends the round if there are points enough, and takes the next step.
func (c *climber) decide(now time.Time) {
	need := fewPoints
	if c.waiting() > unclear {
		need = noisyPoints
	}
	if len(c.round) < max(need, int(math.Round(c.level))) {
		return
	}
	// Of those who were let in for this round some may still wait for the
	// server: the others would look well without them.
	if c.seeking && float64(c.askers) < min(c.raised, c.level)/2 {
		return
	}
	if !c.seeking && now.Before(c.turns) {
		return
	}
	p, lost := middle(c.round)
	c.began, c.round, c.askers = now, c.round[:0], 0
	switch {
	case lost > 0.5:
		c.level = max(1, c.level*cut)
		c.seek(now)
	case math.Exp(p.x) < used*max(1, c.level-0.5):
		c.turn(now)
	case !c.seeking:
		c.step(now, p)
	case lost > 0.25:
		c.level = max(1, 0.8*c.level)
		c.climb(now)
	default:
		c.grow(now, p)
	}
}

// turn is the other half of the dither.
func (c *climber) turn(now time.Time) {
	if !c.seeking {
		c.up = !c.up
		c.turns = now.Add(seconds(c.cycle))
	}
}

// step is one of climbing.
func (c *climber) step(now time.Time, p point) {
	by := min(max(gain*(c.aim()-c.fit.slope), -longestStep), longestStep)
	c.level = max(1, c.level*math.Exp(by))
	c.turn(now)
	if c.fit.slope < hardly && c.waiting() < unclear {
		c.seeking, c.compare, c.before = true, true, p
		c.began, c.round, c.askers, c.raised = now, c.round[:0], 0, 0
	}
}

// grow is a step of seeking, or its end.
func (c *climber) grow(now time.Time, p point) {
	by := growth
	if !c.compare && c.waiting() > unclear {
		// Perhaps that is the server's queue: then fewer do as well.
		by = 1 / growth
	}
	if c.compare {
		dx := p.x - c.before.x
		if math.Abs(dx) < 0.05 {
			dx = math.Copysign(0.05, dx)
		}
		slope := (c.y(p) - c.y(c.before)) / dx
		if slope > c.aim()-enough {
			if slope > c.aim() && dx > 0 {
				c.level = max(1, math.Exp(c.before.x))
			}
			c.climb(now)
			return
		}
		if slope < hardly && c.waiting() < unclear {
			by = fastGrowth
		}
	}
	c.compare, c.before = true, p
	was := c.level
	c.level = max(1, was*by)
	if by > 1 {
		c.level = max(c.level, was+1)
	}
	if c.ceiling > 0 && was >= c.ceiling {
		c.ceiling = 0 // it takes as many again
	}
	if near := 0.8 * c.ceiling; c.ceiling > 0 && c.level > near {
		c.level = max(min(c.level, near), was*careful, was+0.5)
	}
	c.anew(now)
	c.raised = max(0, c.level-was)
}

// middle is the point that has half of them on each side, each way, and the
// part of them that was lost.
func middle(points []point) (m point, lost float64) {
	v := make([]float64, len(points))
	of := func(f func(p point) float64) float64 {
		for i, p := range points {
			v[i] = f(p)
		}
		return median(v)
	}
	m.x = of(func(p point) float64 { return p.x })
	m.wait = of(func(p point) float64 { return p.wait })
	m.gap = of(func(p point) float64 { return p.gap })
	for _, p := range points {
		if p.lost {
			lost++
		}
	}
	return m, lost / float64(len(points))
}

// median returns the middle one, and puts v in order.
func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
