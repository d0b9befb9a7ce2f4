package breaker

import "time"

// window counts the calls of the last Window in ten parts. A part is dropped as a
// whole, so that between nine tenths of the Window and all of it is counted.
//
// Reading the clock costs as much as all the rest of a successful call. So up to 16
// successes are gathered, and counted with the time at which the clock is read
// next. An error of that makes the breaker open later, not sooner.
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

// succeed counts a successful call, and reports whether settle is due.
func (w *window) succeed() (settle bool) {
	w.gathered++
	return w.gathered >= mostGathered
}

// fail counts a failed call.
func (w *window) fail(now time.Time) {
	p := w.part(now)
	p.calls++
	p.fails++
}

// settle counts the gathered successes.
func (w *window) settle(now time.Time) {
	if w.gathered > 0 {
		w.part(now).calls += w.gathered
		w.gathered = 0
	}
}

// sum counts the calls and failures in the window.
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
