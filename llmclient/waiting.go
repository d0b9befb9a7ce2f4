package llmclient

import "time"

// A waiter is an attempt that has waited for output for long.
type waiter struct {
	a      *attempt
	m      meter
	clock  int
	waited time.Duration
}

// waiting lists the attempts that have waited at an endpoint for askAfter and that
// evidence may cut.
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
		if w.clock = w.m.asks(w.m.moment(now)); w.clock >= 0 {
			w.waited = w.m.moment(now).Sub(w.m.clocks[w.clock].since)
			list = append(list, w)
		}
	}
	return list
}

// cut ends the attempt and says why. A call is cut once at each endpoint: its next
// attempt there runs to its limit.
func (w waiter) cut(why string) { w.once(expiry{evidence: why}) }

// forget ends the attempt, likewise once, because the endpoint serves other calls
// and has forgotten this one.
func (w waiter) forget(why string) { w.once(expiry{evidence: why, orphan: true}) }

// lose does the same because the server itself says that it does not have the call.
// It is not limited to once: a later attempt may be lost as well.
func (w waiter) lose(why string) {
	w.spend()
	w.end(expiry{evidence: why, orphan: true})
}

func (w waiter) once(x expiry) {
	if w.spend() {
		w.end(x)
	}
}

// spend notes that evidence cuts the call here, and reports whether it is the first time.
func (w waiter) spend() bool {
	cl := w.a.call
	cl.mu.Lock()
	defer cl.mu.Unlock()
	first := !w.a.at.cut
	w.a.at.cut = true
	return first
}

func (w waiter) end(x expiry) {
	x.clock, x.bound, x.phase = clockNames[w.clock], w.waited, w.m.phase
	w.a.watch.cut(x)
}
