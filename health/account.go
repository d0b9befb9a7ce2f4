package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// account holds what the servers say they have against what we know them to
// have. It is a rigorous one, as long as their schedulers are alive.
func (f *facts) account(old []llmclient.InFlight, since time.Time) (finding, bool) {
	has, ok := f.held()
	if !ok || f.partial() {
		return finding{}, false
	}
	overtaken, _ := f.overtaken(old)
	if short := f.missed(); short <= 0 || overtaken == 0 && short <= f.unseen() {
		return refuted("the engines have %s requests, and %d of ours must be with them", number(has), f.ours(f.sampled())), true
	}
	alive := f.moved() || f.stirred()
	for _, t := range f.engines {
		switch {
		case t.last.stalled():
			return refuted("a scheduler does not answer, and its gauges are not to be believed"), true
		case t.last.Scheduler == Reached:
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
		facts = append(facts, t.fact("", Running, Waiting, Inflight, Decoded, Generated))
	}
	facts = append(facts, f.calls(), f.whose(old))
	sure := Medium
	if overtaken > 0 || f.atRest() || int(has)*2 < ours {
		sure = High
	}
	if !alive {
		sure = Low // a scheduler that stopped at rest looks the same
		if overtaken > 0 {
			sure = Medium
		}
	}
	return holds(sure, f.oldest(old), facts...), true
}

// missed is how many of the calls that must be with the servers they do not have.
// A few that are missed at one moment are on their way; it takes two.
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

// partial reports whether more calls of ours were answered than the engines
// count: they are not all that there are, and what they have says nothing of
// what the others have.
func (f *facts) partial() bool {
	counted := 0.0
	since, until := time.Time{}, f.sampled()
	for _, t := range f.engines {
		if !t.compared() || !t.now.Readings.has(Requests) && !t.now.Readings.has(FirstTokens) {
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
		counted += max(t.grown(Requests, since), t.grown(FirstTokens, since))
	}
	answered := 0
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.Started.After(since) && e.At.Before(until.Add(-someTime)) {
			answered++
		}
	}
	return answered >= 5 && 1.5*counted < float64(answered)
}

// unseen is how many requests an engine may have without telling: one whose
// prompt is computed piece by piece is neither in SGLang's queue nor running.
func (f *facts) unseen() int {
	n := 0
	for _, t := range f.engines {
		if t.delta(Computed) > 0 && t.both(Bootstrap)+t.both(Inflight) == 0 && t.role != RoleDecode {
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

// ours is how many calls of ours the servers must have had when they were
// sampled. Gauges may be some seconds old, so it is the least of some moments,
// and what comes or goes just then does not count.
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
			// Of those that have ended only what was being answered is sure.
			if e := &f.Recent[i]; e.FirstOutput > 0 && m.Sub(e.Started) >= e.FirstOutput && e.At.Sub(m) >= step {
				n++
			}
		}
		least = min(least, n)
	}
	return least
}
