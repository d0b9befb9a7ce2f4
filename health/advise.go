package health

import (
	"context"
	"slices"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// Advise tells a client whether the server works on the calls that wait. It is
// made for [llmclient.Config.Adviser].
//
// Busy and advancing holds default limits back. A service that works on nothing
// while we wait, or answers nothing at all, cuts. One that serves others, and has
// fewer requests than we have with it, has lost those that were overtaken. Where
// the facts are old, few or doubtful it is no advice.
func (m *Monitor) Advise(ctx context.Context, waiting []llmclient.InFlight) llmclient.Advice {
	m.mu.Lock()
	m.waiting, m.asked = slices.Clone(waiting), time.Now()
	m.mu.Unlock()
	m.refresh(ctx, m.cfg.Interval/2)
	v, f := m.judge()
	if !f.fresh() {
		return llmclient.Advice{}
	}
	why := v.Line()
	switch {
	case v.State.stopped() && f.serves(waiting):
		// It is not the service that has stopped, and whose calls are with the
		// part that has is known of those alone that others have overtaken.
		if calls := f.forgotten(waiting); len(calls) > 0 {
			return llmclient.Advice{State: llmclient.AdviceLost, Calls: calls, Why: why}
		}
	case v.State == Lost, v.State.stopped() && v.Confidence >= Medium, v.State == Unreachable && f.dark():
		return llmclient.Advice{State: llmclient.AdviceIdle, Why: why}
	case v.State.advances() && f.moved():
		return llmclient.Advice{State: llmclient.AdviceBusy, Why: why}
	}
	return llmclient.Advice{Why: why}
}

// serves reports whether a call was answered just now that was sent after the
// oldest of those that wait, or whether an engine is at work.
func (f *facts) serves(waiting []llmclient.InFlight) bool {
	if f.moved() {
		return true
	}
	for i := range f.lately {
		e := &f.lately[i]
		for _, w := range waiting {
			if e.ok() && e.Started.After(w.Since) && f.Now.Sub(e.At) < lately/3 {
				return true
			}
		}
	}
	return false
}

// forgotten are those of the calls that wait which others of like size have
// overtaken, the oldest first and no more than the engines have too few.
func (f *facts) forgotten(waiting []llmclient.InFlight) (calls []uint64) {
	list := slices.Clone(waiting)
	slices.SortStableFunc(list, func(a, b llmclient.InFlight) int { return a.Since.Compare(b.Since) })
	most := len(list)
	if f.told() && !f.stuck() {
		most = f.missed()
	}
	for _, w := range list {
		if n, _ := f.overtaken([]llmclient.InFlight{w}); n > 0 && len(calls) < most {
			calls = append(calls, w.Call)
		}
	}
	return calls
}

// stuck reports whether an engine has requests and computes nothing: then its
// account includes what it will never answer.
func (f *facts) stuck() bool {
	return slices.ContainsFunc(f.engines, func(t *trail) bool { return wedgedTrail(f, t).holds || t.last.stalled() })
}

// fresh reports whether there is a sample that is young enough to go by.
func (f *facts) fresh() bool {
	return slices.ContainsFunc(f.trails, func(t *trail) bool { return t.last != nil })
}

// dark reports whether no server at all can be asked, twice in a row, and no
// call got a byte meanwhile.
func (f *facts) dark() bool {
	since := f.Now
	for _, t := range f.trails {
		if t.last == nil || t.missed < 2 {
			return false
		}
		if t.missedSince.Before(since) {
			since = t.missedSince
		}
	}
	for _, c := range f.Calls {
		if c.LastByte.After(since) {
			return false
		}
	}
	return len(f.trails) > 0 && !f.headway.After(since)
}
