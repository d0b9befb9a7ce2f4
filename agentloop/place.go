package agentloop

import "context"

// mayCall waits until the agent may call its model: until trouble of all is over,
// or it is to probe, and until it has one of the group's places in flight. It
// reports false if ctx ended first.
func (r *run) mayCall(ctx context.Context) bool {
	g := r.group
	for {
		ok, probes := g.troubles.gate(ctx, r)
		switch {
		case !ok:
			return false
		case g.flights == nil:
			return true
		case r.takePlace(ctx, probes):
			return true
		case ctx.Err() != nil:
			g.troubles.neutral(r)
			return false
		}
	}
}

// takePlace waits for a place in flight, and reports false if ctx ended first, or
// if there is trouble of all by now. A call that probes does not wait: whether
// silent calls hold the places for ever is what it is to find out.
func (r *run) takePlace(ctx context.Context, probes bool) bool {
	g := r.group
	switch {
	case g.flights.try():
	case probes:
		return true
	default:
		r.does("waiting for its turn to call the model", ends)
		enough := g.troubles.queue(r, true)
		ok := g.flights.take(ctx, false, enough)
		g.troubles.queue(r, false)
		if !ok {
			return false
		}
	}
	r.placed.Store(true)
	return true
}

// leavePlace gives the place back, if there is one: when the call has ended, or
// when it is known to be lost. Any goroutine may.
func (r *run) leavePlace() {
	if r.placed.CompareAndSwap(true, false) {
		r.group.flights.give()
	}
}
