package breaker

import "time"

// window counts the calls of the last while, in ten parts: a part is forgotten
// as a whole, so that what is counted is between nine tenths of the window and
// all of it.
//
// To look at the clock costs as much as all the rest of a call that succeeds. So
// successes are gathered first, a few of them, and count as if they had come
// when the clock is next looked at: if that is wrong, then on the calm side.
type window struct {
	width  time.Duration // of a part
	origin time.Time
	parts  [10]part

	gathered int // successes
}

// mostGathered is how many successes are gathered at a time.
const mostGathered = 16

type part struct {
	number       int64 // since the origin, from 1; zero: never used
	calls, fails int
}

// succeed counts a call that succeeded, and reports whether it is time to
// settle.
func (w *window) succeed() (settle bool) {
	w.gathered++
	return w.gathered >= mostGathered
}

// fail counts a call that failed.
func (w *window) fail(now time.Time) {
	p := w.part(now)
	p.calls++
	p.fails++
}

// settle counts what was gathered.
func (w *window) settle(now time.Time) {
	if w.gathered > 0 {
		w.part(now).calls += w.gathered
		w.gathered = 0
	}
}

// sum is what is in the window.
func (w *window) sum(now time.Time) (calls, fails int) {
	w.settle(now)
	number := w.number(now)
	for _, p := range w.parts {
		if number-p.number < int64(len(w.parts)) {
			calls, fails = calls+p.calls, fails+p.fails
		}
	}
	return calls, fails
}

// clear forgets all.
func (w *window) clear() { w.parts, w.gathered = [len(w.parts)]part{}, 0 }

func (w *window) number(now time.Time) int64 {
	if w.origin.IsZero() {
		w.origin = now
	}
	return int64(max(now.Sub(w.origin), 0)/w.width) + 1
}

func (w *window) part(now time.Time) *part {
	number := w.number(now)
	p := &w.parts[number%int64(len(w.parts))]
	if p.number != number {
		*p = part{number: number}
	}
	return p
}
