package agentloop

import "context"

// mayCall waits until the agent may call its model: until no systemic trouble holds
// calls back, or this call is the probe, and until it has one of the group's places
// in flight. It reports false if ctx ended first.
func (r *run) mayCall(ctx context.Context) bool {
	g := r.group
	for {
		ok, probes := g.troubles.gate(ctx, r)
		switch {
		case !ok:
			return false
		case r.takePlaces(ctx, probes):
			return true
		case ctx.Err() != nil:
			return false
		}
	}
}

// takePlaces waits for a place in flight, of the agent's group and then of each group
// around it. It reports false if ctx ended first, or if systemic trouble was
// announced meanwhile. A run that has all its places makes its call and gives them
// back, so there is no circular wait. A probe does not wait: it has to find out
// whether silent calls hold the places for ever.
func (r *run) takePlaces(ctx context.Context, probes bool) bool {
	var taken int32
	for g := r.group; g != nil; g = g.outer {
		if !g.flights.try() {
			if probes {
				break
			}
			r.does("waiting for its turn to call the model", endsItself)
			enough := r.group.troubles.queue(r, true)
			ok := g.flights.take(ctx, false, enough)
			r.group.troubles.queue(r, false)
			if !ok {
				r.givePlaces(taken)
				return false
			}
		}
		taken++
	}
	r.placed.Store(taken)
	return true
}

// leavePlace gives back the places that the run holds: when the call has ended, or
// when it is known to be lost. It may be called on any goroutine.
func (r *run) leavePlace() { r.givePlaces(r.placed.Swap(0)) }

func (r *run) givePlaces(n int32) {
	for g := r.group; n > 0; g, n = g.outer, n-1 {
		g.flights.give()
	}
}
