package llmclient

import "time"

// A waiter is an attempt that has waited for output for long.
type waiter struct {
	a      *attempt
	m      meter
	clock  int
	waited time.Duration
}

// waiting lists the attempts that have waited at an endpoint for askAfter, and
// which evidence may cut.
func (c *Client) waiting(ep *endpoint, now time.Time) []waiter {
	var list []waiter
	for _, cl := range c.calls.all() {
		cl.mu.Lock()
		a := cl.current
		cl.mu.Unlock()
		if a == nil || a.at.ep != ep {
			continue
		}
		w := waiter{a: a}
		if out := a.watch.look(&w.m); out != nil {
			continue
		}
		if w.clock = w.m.asks(now); w.clock >= 0 {
			w.waited = now.Sub(w.m.clocks[w.clock].since)
			list = append(list, w)
		}
	}
	return list
}

// cut ends the attempt for a reason. A call is cut in this way once at each
// endpoint: the next attempt there runs to its limit.
func (w waiter) cut(why string) { w.cutAs(false, why) }

func (w waiter) cutAs(orphan bool, why string) {
	cl := w.a.call
	cl.mu.Lock()
	again := w.a.at.cut
	w.a.at.cut = true
	cl.mu.Unlock()
	if !again {
		w.a.watch.cut(expiry{clock: clockNames[w.clock], bound: w.waited, phase: w.m.phase, evidence: why, orphan: orphan})
	}
}
