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
// while we wait, or answers nothing at all, cuts. Where the facts are old, few or
// doubtful it is no advice.
func (m *Monitor) Advise(ctx context.Context, waiting []llmclient.InFlight) llmclient.Advice {
	m.mu.Lock()
	m.waiting, m.asked = slices.Clone(waiting), time.Now()
	m.mu.Unlock()
	m.refresh(ctx, m.cfg.Interval/2)
	v := m.Verdict()
	if !m.fresh(v.At) {
		return llmclient.Advice{}
	}
	advice := llmclient.Advice{Why: v.Line()}
	switch {
	case v.State == Lost && m.serves(waiting):
		// Others are served: the client tells by itself which of them was
		// forgotten, and does not hold it against the endpoint.
	case v.State == Lost, v.State.stopped() && v.Confidence >= Medium, v.State == Unreachable && m.dark(v.At):
		advice.State = llmclient.AdviceIdle
	case v.State.advances() && m.busy():
		advice.State = llmclient.AdviceBusy
	}
	return advice
}

// serves reports whether a call was answered that was sent after the oldest of
// those that wait, or whether an engine is at work.
func (m *Monitor) serves(waiting []llmclient.InFlight) bool {
	if m.busy() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.recent {
		e := &m.recent[i]
		for _, w := range waiting {
			if e.ok() && e.Started.After(w.Since) {
				return true
			}
		}
	}
	return false
}

// fresh reports whether there is a sample that is young enough to go by.
func (m *Monitor) fresh(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.servers {
		if n := len(s.window.list); n > 0 && now.Sub(s.window.list[n-1].At) <= staleAfter {
			return true
		}
	}
	return false
}

// busy reports whether an engine was seen to work between its last two samples.
func (m *Monitor) busy() bool {
	f := gather(View{Now: time.Now()}, m.samples())
	return f.moved()
}

// dark reports whether no server at all can be asked, twice in a row, and no
// call got a byte meanwhile.
func (m *Monitor) dark(now time.Time) bool {
	f := gather(m.view(), m.samples())
	since := now
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
