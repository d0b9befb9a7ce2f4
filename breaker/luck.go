package breaker

import (
	"math"
	"time"
)

// luck says how long a run of failures may be by chance, where some calls fail
// all the time. The share of these is taken from the calls before the run. Where
// there are few it is taken to be small, or what it was before the breaker last
// opened: an endpoint that half works would open it again at once.
type luck struct {
	on    bool
	share float64 // of failures, when it was last asked
	prior float64
	until time.Time // the prior is of use
}

const (
	byChance   = 1e-4 // a run that is as rare is none of chance
	priorCalls = 30   // that weigh as much as what is taken for granted
	priorLasts = 5 * time.Minute

	manyToOne   = 4   // failures in a row to each call that is still out
	fewOutlived = 3   // failed trials that calls which outlived the opening make up for
	falseAlarm  = 0.4 // the least prior when the first trial has succeeded
)

// run is how many failures in a row are too many, after so many calls of which
// so many have failed.
func (l *luck) run(now time.Time, calls, fails int) int {
	if !now.Before(l.until) {
		l.prior = 0
	}
	l.share = (float64(max(fails, 0)) + priorCalls*l.prior) / float64(max(calls, 0)+priorCalls)
	return int(min(math.Ceil(math.Log(byChance)/math.Log(l.share)), mostFailures))
}

// keep keeps the share that calls had before the run that opens the breaker.
func (l *luck) keep(now time.Time) { l.prior, l.until = l.share, now.Add(priorLasts) }

// closed is told that trials have closed the breaker, perhaps at once: then it may
// have been chance that opened it, and it takes more to do so again.
func (l *luck) closed(atOnce bool) {
	if atOnce {
		l.prior = max(l.prior, falseAlarm)
	}
}
