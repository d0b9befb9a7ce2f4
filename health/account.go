package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// account compares how many requests the servers have with how many calls of ours
// must be there. If they have fewer, some are lost. That is certain as long as
// their schedulers are alive.
func (f *facts) account(old []llmclient.InFlight, since time.Time) (finding, bool) {
	has, ok := f.held()
	if !ok || f.partial() {
		return finding{}, false
	}
	overtaken, _ := f.overtaken(old)
	if short := f.missed(); short <= 0 || overtaken == 0 && short <= f.unseen() {
		return refuted("the engines have %s requests, and %d of ours must be with them", number(has), f.ours(f.sampled())),
			true
	}
	alive := f.moved() || f.stirred()
	for _, t := range f.engines {
		switch {
		case t.last.stalled():
			return refuted("a scheduler does not answer, and its gauges are not to be believed"), true
		case t.last.Scheduler == ReachAnswered:
			alive = true
		}
	}
	if !alive && has > 0 {
		return untold("whether the engine makes tokens again: its numbers stand still, and may be old"), true
	}
	ours := f.ours(f.sampled())
	facts := []Fact{{At: f.Now, Text: fmt.Sprintf("%d calls are with the server, %d of them without a byte since before %s; all engines together have %s requests",
		ours, len(old), since.Format(time.TimeOnly), number(has))}}
	for _, t := range f.engines {
		facts = append(facts, t.fact("", MetricRunning, MetricWaiting, MetricInflight, MetricDecoded, MetricGenerated))
	}
	facts = append(facts, f.calls(), f.whose(old))
	sure := ConfidenceMedium
	if overtaken > 0 || f.atRest() || int(has)*2 < ours {
		sure = ConfidenceHigh
	}
	if !alive {
		sure = ConfidenceLow // a scheduler that stopped at rest looks the same
		if overtaken > 0 {
			sure = ConfidenceMedium
		}
	}
	return holds(sure, f.oldest(old), facts...), true
}

// missed is how many of our calls the servers must have and do not have. A few that
// are missing in one sample may be on their way, so it takes two samples. Three
// calls and half of all are enough in one.
func (f *facts) missed() int {
	now, ok := f.held()
	if !ok {
		return 0
	}
	ours := f.ours(f.sampled())
	short := ours - int(now)
	if short >= 3 && 2*short >= ours {
		return short
	}
	old, _ := f.old()
	first, second := short, 0
	for i := len(f.engines[0].all) - 2; i >= 0 && len(old) > 0; i-- {
		at := f.engines[0].all[i].At
		if at.Before(f.oldest(old)) {
			break
		}
		was, told := f.heldAt(func(t *trail) *Sample { return t.near(at, leastSpan/2) })
		if !told {
			continue
		}
		if short := f.ours(at) - int(was); short > first {
			first, second = short, first
		} else {
			second = max(second, short)
		}
	}
	return second
}

// partial reports whether more calls of ours were answered than the engines count,
// by half and 5 at least. Then there are engines that are not watched, and nothing
// is known of what those have.
func (f *facts) partial() bool {
	counted := 0.0
	since, until := time.Time{}, f.sampled()
	for _, t := range f.engines {
		if !t.compared() || !t.now.Readings.has(MetricRequests) && !t.now.Readings.has(MetricFirstTokens) {
			return false
		}
		if t.all[0].At.After(since) {
			since = t.all[0].At
		}
	}
	for _, t := range f.engines {
		if t.role == RoleDecode {
			continue
		}
		counted += max(t.grown(MetricRequests, since), t.grown(MetricFirstTokens, since))
	}
	answered := 0
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.Started.After(since) && e.At.Before(until.Add(-someTime)) {
			answered++
		}
	}
	return answered >= 5 && 1.5*counted < float64(answered)
}

// unseen is how many requests the engines may have that are in no gauge: SGLang
// counts a request whose prompt it computes in chunks neither as queued nor as
// running.
func (f *facts) unseen() int {
	n := 0
	for _, t := range f.engines {
		if t.delta(MetricComputed) > 0 && t.both(MetricBootstrap)+t.both(MetricInflight) == 0 && t.role != RoleDecode {
			n++
		}
	}
	return n
}

// sampled is when the older of the engines' newest samples was taken.
func (f *facts) sampled() time.Time {
	at := f.Now
	for _, t := range f.engines {
		if t.now != nil && t.now.At.Before(at) {
			at = t.now.At
		}
	}
	return at
}

// ours is how many calls of ours the servers must have had when they were sampled.
// Gauges may be up to 3 s old, so it is the least number of those 3 s. Calls that
// come or go within half a second of a moment do not count for it.
func (f *facts) ours(at time.Time) int {
	const step = 500 * time.Millisecond
	least := len(f.sent) + len(f.Recent)
	for back := time.Duration(0); back <= renewed; back += step {
		m, n := at.Add(-back), 0
		for _, c := range f.sent {
			if c.Phase >= llmclient.PhaseFirstOutput && m.Sub(c.Since) >= step {
				n++
			}
		}
		for i := len(f.Recent) - 1; i >= 0 && f.Recent[i].At.After(m); i-- {
			// Of those that have ended only an answer under way is sure.
			if e := &f.Recent[i]; e.FirstOutput > 0 && m.Sub(e.Started) >= e.FirstOutput && e.At.Sub(m) >= step {
				n++
			}
		}
		least = min(least, n)
	}
	return least
}
