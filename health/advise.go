package health

import (
	"context"
	"slices"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// Advise tells a client whether the server works on the calls that wait. It is made
// for [llmclient.Config.Adviser]:
//
//   - [llmclient.AdviceBusy], which holds default limits back, if an engine did
//     work between its last two samples;
//   - [llmclient.AdviceIdle], which cuts the calls, if the service works on none of
//     them, or answers no question at all;
//   - [llmclient.AdviceLost], which cuts the calls it names, if the service serves
//     others, and calls of like size that were sent later have overtaken these;
//   - no advice if the facts are older than 30 s, too few or in doubt.
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
		// Only a part of the service has stopped. The calls with that part are
		// those that others have overtaken.
		if calls := f.forgotten(waiting); len(calls) > 0 {
			return llmclient.Advice{State: llmclient.AdviceLost, Calls: calls, Why: why}
		}
	case v.State == StateLost, v.State.stopped() && v.Confidence >= ConfidenceMedium,
		v.State == StateUnreachable && f.dark():
		return llmclient.Advice{State: llmclient.AdviceIdle, Why: why}
	case v.State.advances() && f.moved():
		return llmclient.Advice{State: llmclient.AdviceBusy, Why: why}
	}
	return llmclient.Advice{Why: why}
}

// serves reports whether an engine is at work, or whether a call was answered in
// the last 20 s that was sent after one of those that wait.
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

// forgotten returns the waiting calls that others of like size have overtaken, the
// oldest first. If the engines' gauges show how many calls are missing there, it
// returns no more than that.
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
// gauges count requests that it will never answer.
func (f *facts) stuck() bool {
	return slices.ContainsFunc(f.engines, func(t *trail) bool { return wedgedTrail(f, t).holds || t.last.stalled() })
}

// fresh reports whether there is a sample of the last 30 s.
func (f *facts) fresh() bool {
	return slices.ContainsFunc(f.trails, func(t *trail) bool { return t.last != nil })
}

// dark reports whether no server has answered twice in a row, and no call got a
// byte meanwhile.
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
