package breaker

import "time"

// window counts the calls of the last while, in ten parts: a part is forgotten
// as a whole, so that what is counted is between nine tenths of the window and
// all of it.
type window struct {
	width  time.Duration // of a part
	origin time.Time
	parts  [10]part
}

type part struct {
	number       int64 // since the origin, from 1; zero: never used
	calls, fails int
}

// add counts a call.
func (w *window) add(now time.Time, failed bool) {
	p := w.part(now)
	p.calls++
	if failed {
		p.fails++
	}
}

// sum is what is in the window.
func (w *window) sum(now time.Time) (calls, fails int) {
	number := w.number(now)
	for _, p := range w.parts {
		if p.number > 0 && number-p.number < int64(len(w.parts)) {
			calls, fails = calls+p.calls, fails+p.fails
		}
	}
	return calls, fails
}

// clear forgets all.
func (w *window) clear() { w.parts = [len(w.parts)]part{} }

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
