package pacer

import (
	"math"
	"time"
)

const (
	firstPace  = 10               // readmissions per second right after a pause
	paceSpan   = 10 * time.Second // how long after a pause they are paced
	maxJitter  = time.Second
	jitterPart = 10 // of the pause, one part in so many
)

// pause is a cool-down and the slow start after it.
//
// After n readmissions the next one comes 1/(firstPace+n) seconds later. So the
// number of readmissions grows exponentially: 30 callers are in after 1.4 s, 1,000
// after 4.6 s, and no 50 ms see more than 5 % of those admitted by then, or one. The
// pace grows only with use. After a pause without waiters it stays low, which does
// not delay callers that come more than a tenth of a second apart.
type pause struct {
	on    bool      // a pause or a paced readmission is going on
	until time.Time // no caller is admitted before
	next  time.Time // when the next readmission may be
	calm  time.Time // when readmission is no longer paced
	n     int       // readmissions so far
}

// extend makes the pause last at least d from now, and reports whether that is
// longer than before. jitter is from 0 to 1.
func (p *pause) extend(now time.Time, d time.Duration, jitter float64) bool {
	until := now.Add(d)
	if !until.After(p.until) {
		return false
	}
	if !(jitter >= 0 && jitter <= 1) {
		jitter = 0
	}
	late := seconds(jitter * min(d/jitterPart, maxJitter).Seconds())
	next := until.Add(late)
	*p = pause{on: true, until: until, next: next, calm: next.Add(paceSpan)}
	return true
}

// opens returns what the next readmission waits for, and until when.
func (p *pause) opens(now time.Time) (time.Time, Reason) {
	switch {
	case !p.on:
		return time.Time{}, ""
	case now.Before(p.until):
		return p.next, ReasonCoolDown
	case now.Before(p.next):
		return p.next, ReasonReadmission
	case !now.Before(p.calm):
		p.on = false
	}
	return time.Time{}, ""
}

// spend counts one readmission.
func (p *pause) spend(now time.Time) {
	if p.on {
		p.next = now.Add(p.gap(p.n))
		p.n++
	}
}

// gap is the time between the n-th readmission and the one after it.
func (*pause) gap(n int) time.Duration { return time.Second / time.Duration(firstPace+n) }

// earliest is a lower bound for when a caller with so many others ahead is admitted.
func (p *pause) earliest(now time.Time, ahead int) (time.Time, Reason) {
	at, why := p.opens(now)
	if why == "" {
		if !p.on {
			return now, ""
		}
		at = now
	}
	// The sum of 1/(a+i) over the gaps is at least the logarithm of the ends.
	a := float64(firstPace + p.n)
	paced := at.Add(seconds(math.Log((a + float64(ahead)) / a)))
	if paced.After(p.calm) {
		paced = p.calm
	}
	if paced.After(at) {
		at = paced
		if why == "" {
			why = ReasonReadmission
		}
	}
	return at, why
}
