package pacer

import (
	"math"
	"math/bits"
)

const (
	remembered = 16   // requests whose ends give the part that is lost lately
	goodFaith  = 2    // requests that count as answered before anything is known
	tolerable  = 0.1  // the part of lost requests that is no sign of load
	beyond     = 2.5  // standard deviations above the usual part that are not chance
	lessLoad   = 0.7  // of the load in doubt: requests at this or less show whether that helps
	evidence   = 20   // requests with less load that are enough for a verdict
	clearly    = 1.5  // standard deviations by which fewer must be lost with less load
	fading     = 100  // requests over which the usual part falls, if fewer are lost
	hopeless   = 0.55 // the part lost with less load from which that is still far too much
)

// blame tells requests that are lost by too much load from those that are lost at
// any load, such as by a proxy that refuses one in ten, or a worker of four that
// hangs. To do so it compares how many are lost with less load.
//
//	nothing in doubt  more are lost than usual        → in doubt, the limit is cut
//	in doubt          more are lost than usual, with
//	                  a load that is not much less      the limit is cut again
//	                  with less load
//	                    most are still lost           → in doubt from there, the limit is cut
//	                    clearly fewer are lost        → nothing in doubt: it was the load
//	                    as many are lost              → nothing in doubt: so many are usual
//	                                                    here, and the cut is taken back
//
// The usual part falls when fewer are lost.
type blame struct {
	usual float64 // the part that is lost at any load
	mean  float64 // of the part lost since usual was found, fading

	recent uint16 // how the last requests ended, one bit for each, set if lost
	known  int    // how many of the bits are in use

	from      float64 // in doubt: the load at which too many were lost; zero: nothing is in doubt
	high, low tally   // in doubt: requests with that load, and with less
}

// A tally counts requests, and those of them that were lost.
type tally struct{ all, lost int }

func (t *tally) hear(lost bool) {
	t.all++
	if lost {
		t.lost++
	}
}

func (t tally) part() float64 { return float64(t.lost) / float64(max(t.all, 1)) }

// A verdict is how a doubt ended.
type verdict int

const (
	undecided verdict = iota
	guilty            // it was the load
	worse             // it is the load, even with less
	innocent          // it was not the load
)

// hear notes how a request ended that began as one of n. It is fresh if it began
// after the limit was last cut.
func (b *blame) hear(n float64, lost, fresh bool) verdict {
	if fresh {
		b.recent <<= 1
		if lost {
			b.recent |= 1
		}
		b.known = min(b.known+1, remembered)
		b.fade(lost)
	}
	switch {
	case b.from == 0:
		return undecided
	case b.isLess(n):
		b.low.hear(lost)
	case n >= b.from: // successes with a little less load would make the load look harmless
		b.high.hear(lost)
	}
	return b.judge()
}

// fade lowers the usual part when fewer are lost.
func (b *blame) fade(lost bool) {
	if b.usual == 0 {
		return
	}
	b.mean -= b.mean / fading
	if lost {
		b.mean += 1.0 / fading
	}
	b.usual = min(b.usual, b.mean+beyond*math.Sqrt(b.usual*(1-b.usual)/(2*fading)))
}

// isLess reports whether a load of n is enough below that in doubt to compare.
func (b *blame) isLess(n float64) bool { return n <= math.Ceil(lessLoad*b.from) }

// lately counts how the last requests ended.
func (b *blame) lately() tally {
	return tally{all: b.known, lost: bits.OnesCount16(b.recent)}
}

// expected is the part that may be lost at any load.
func (b *blame) expected() float64 { return max(b.usual, tolerable) }

// spread is by how much chance may exceed the expected part, of n requests.
func (b *blame) spread(n int) float64 {
	p := b.expected()
	return beyond * math.Sqrt(p*(1-p)/float64(n))
}

// unusual reports whether more requests were lost lately than chance explains.
func (b *blame) unusual() bool {
	t := b.lately()
	t.all += goodFaith
	return t.part() > b.expected()+b.spread(t.all)
}

// suspect begins or goes on with a doubt: with n in flight too many are lost.
func (b *blame) suspect(n float64) {
	if b.from < n {
		b.from, b.high, b.low = n, b.lately(), tally{}
	}
	b.recent, b.known = 0, 0
}

// judge ends a doubt when enough is known.
func (b *blame) judge() verdict {
	if b.low.all < evidence {
		return undecided
	}
	high, low := b.high, b.low
	p := tally{high.all + low.all, high.lost + low.lost}.part()
	by := math.Sqrt(p * (1 - p) * (1/float64(max(high.all, 1)) + 1/float64(low.all)))
	b.from, b.recent, b.known = 0, 0, 0
	switch {
	case low.part() > hopeless:
		return worse
	case high.part()-low.part() > clearly*by:
		return guilty
	}
	b.usual, b.mean = p, p
	return innocent
}
