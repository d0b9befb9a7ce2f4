package health

import (
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// attempt names an attempt under way.
type attempt struct {
	endpoint string
	caller   string
	call     uint64
}

// Note takes an event of a client. [Monitor.Attach] makes the client call it. It is
// quick, and never waits for a question.
func (m *Monitor) Note(e llmclient.Event) {
	if !m.concerns(e.Endpoint) {
		return
	}
	at := attempt{e.Endpoint, e.Caller, e.Call}
	switch e.Kind {
	case llmclient.EventAttempt:
		m.mu.Lock()
		m.open[at] = e.Time
		m.mu.Unlock()
		m.wake()
	case llmclient.EventFailed, llmclient.EventDone:
		m.mu.Lock()
		defer m.mu.Unlock()
		started, there := m.open[at]
		if e.Kind == llmclient.EventDone {
			delete(m.open, at)
			if e.Err != nil {
				return // its attempts have been noted
			}
		}
		if e.Kind == llmclient.EventFailed || !there {
			started = e.Time.Add(-e.After)
		}
		m.noteLocked(ended(e, started))
	}
}

func ended(e llmclient.Event, started time.Time) Ended {
	out := Ended{
		At: e.Time, Started: started, Call: e.Call, Caller: e.Caller, Endpoint: e.Endpoint, Model: e.Model,
		Clock: e.Clock, Phase: e.Phase, PromptBytes: e.PromptBytes, FirstOutput: e.FirstOutput, Outputs: e.Outputs,
	}
	if e.Err != nil {
		out.Kind = llmclient.ErrServer
		if err, ok := e.Err.(*llmclient.Error); ok {
			out.Kind, out.Status, out.Evidence = err.Kind, err.Status, err.Evidence != ""
		}
	}
	return out
}

func (m *Monitor) noteLocked(e Ended) {
	if len(m.recent) >= recentKept {
		m.recent = append(m.recent[:0], m.recent[len(m.recent)-recentKept/2:]...)
	}
	m.recent = append(m.recent, e)
}
