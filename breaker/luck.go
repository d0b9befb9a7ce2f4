package breaker

import (
	"math"
	"time"
)

// luck says how long a run of failures may be by chance, where a share of all calls
// fails. The share is taken from the calls before the run. The fewer these are, the
// more it is taken to be small, or what it was before the breaker last opened:
// otherwise an endpoint that half works would open the breaker again at once.
type luck struct {
	on    bool
	share float64   // of failures, as of the last run
	prior float64   // the share that is taken for granted
	until time.Time // when the prior expires
}

const (
	byChance   = 1e-4 // a run that is rarer is not chance
	priorCalls = 30   // the prior weighs as much as so many calls
	priorLasts = 5 * time.Minute

	manyToOne   = 4   // failures in a row for each earlier call that is still running
	fewOutlived = 3   // failed trials that calls from before the opening can make up for
	falseAlarm  = 0.4 // the least prior after the first trial has succeeded
)

// run is how many failures in a row are too many, after so many calls and failures.
func (l *luck) run(now time.Time, calls, fails int) int {
	if !now.Before(l.until) {
		l.prior = 0
	}
	l.share = (float64(max(fails, 0)) + priorCalls*l.prior) / float64(max(calls, 0)+priorCalls)
	return int(min(math.Ceil(math.Log(byChance)/math.Log(l.share)), mostFailures))
}

// keep makes the share before the run that opens the breaker the prior.
func (l *luck) keep(now time.Time) { l.prior, l.until = l.share, now.Add(priorLasts) }

// closed notes that trials have closed the breaker. If the first one did, chance may
// have opened it, and it takes a longer run to do so again.
func (l *luck) closed(atOnce bool) {
	if atOnce {
		l.prior = max(l.prior, falseAlarm)
	}
}
