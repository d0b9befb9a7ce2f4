package llmclient

import (
	"context"
	"slices"
	"time"
)

// An Adviser knows more about an endpoint than its answers show, for example from
// its metrics. It is asked from time to time while calls wait for output, never
// twice at once. It should answer before ctx ends, within 5 s.
type Adviser interface {
	Advise(ctx context.Context, waiting []InFlight) Advice
}

// An Advice is an [Adviser]'s answer about waiting calls.
type Advice struct {
	State AdviceState
	// Calls are the calls it is about, of those that were shown, by
	// [InFlight.Call]; nil means all of them.
	Calls []uint64
	// Why is the reason, for people. It ends up in errors and events.
	Why string
}

// An AdviceState says what a server does about the calls that wait for it.
type AdviceState uint8

const (
	// AdviceNone: the Adviser does not know.
	AdviceNone AdviceState = iota
	// AdviceBusy: the server is at work and advancing. Limits that are not set are
	// extended, to three times their length at most, and Call stands still.
	AdviceBusy
	// AdviceIdle: the server works on nothing while calls wait. Their attempts are
	// cut, once for each call at each endpoint.
	AdviceIdle
	// AdviceLost: the server works, but it does not have these calls. Their
	// attempts are cut, and later ones too if they are lost as well. Since the
	// server serves other calls, this does not count as a failure of the endpoint.
	AdviceLost
)

// explain asks Config.Explain what is the matter with an endpoint.
func (c *Client) explain(endpoint string) string {
	if c.cfg.Explain == nil {
		return ""
	}
	verdict, _ := contain(func() (string, error) { return c.cfg.Explain(endpoint), nil })
	return bounded(verdict, 300)
}

// MarkAlive tells the client that an endpoint, given by its name, is alive, for
// example because it has answered a probe of another component. Calls that wait for
// a sign of life go on, and an open breaker lets its next trial through sooner. An
// empty name stands for all endpoints.
func (c *Client) MarkAlive(endpoint string) {
	for _, ep := range c.eps {
		if endpoint == "" || endpoint == ep.name {
			ep.evidence.answers.Store(true)
			ep.evidence.saw(time.Now())
			ep.breaker.Hurry()
		}
	}
}

// MarkAiling tells the client that an endpoint, given by its name, is unable to
// serve. If its breaker is open, no trial is made for one Cooldown from now; for how
// long trials can be put off in all, see MaxPostpone in [breaker.Config]. A closed
// breaker ignores it, since its calls are better evidence. An empty name stands for
// all endpoints.
func (c *Client) MarkAiling(endpoint string) {
	for _, ep := range c.eps {
		if endpoint == "" || endpoint == ep.name {
			ep.breaker.Postpone(ailing)
		}
	}
}

// ailing is longer than any Cooldown, which is what bounds it.
const ailing = time.Hour

// AllowProbe reports whether another component may probe an endpoint, given by its
// name, now. If so, it takes the cost of a probe from the endpoint's retry budget,
// so that probes and retries together add a bounded load. It refuses only while the
// budget is overdrawn by its whole size.
func (c *Client) AllowProbe(endpoint string) bool {
	now := time.Now()
	for _, ep := range c.eps {
		if endpoint == ep.name {
			return ep.budget.borrow(now, costOfProbe)
		}
	}
	return true
}

// consult asks the adviser, if there is one.
func (e *evidence) consult(ctx context.Context, waiting []waiter) {
	if e.client.cfg.Adviser == nil || len(waiting) == 0 {
		return
	}
	advice, ok := e.advise(ctx, waiting)
	if !ok {
		return
	}
	switch advice.State {
	case AdviceIdle:
		e.learn("the adviser: the server works on nothing: " + bounded(advice.Why, 200))
	case AdviceLost:
		e.learn("the adviser: the server does not have the call: " + bounded(advice.Why, 200))
	case AdviceBusy:
		e.learn("the adviser: the server is at work: " + bounded(advice.Why, 200))
	}
	for _, w := range waiting {
		if advice.Calls != nil && !slices.Contains(advice.Calls, w.a.call.id) {
			continue
		}
		switch advice.State {
		case AdviceIdle:
			w.cut("the server works on nothing: " + advice.Why)
		case AdviceLost:
			w.lose("the server does not have it: " + advice.Why)
		case AdviceBusy:
			w.a.watch.tell((*meter).hold)
		}
	}
}

// advise waits for the adviser's answer, for as long as a probe may take. An
// adviser that does not return is not asked again until it does.
func (e *evidence) advise(ctx context.Context, waiting []waiter) (Advice, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if e.advice == nil {
		e.put = time.Now()
		list := make([]InFlight, len(waiting))
		for i, w := range waiting {
			list[i] = w.a.call.look()
		}
		answer := make(chan Advice, 1)
		go func() {
			// A panic is no advice.
			advice, _ := contain(func() (Advice, error) { return e.client.cfg.Adviser.Advise(ctx, list), nil })
			answer <- advice
		}()
		e.advice = answer
	}
	select {
	case advice := <-e.advice:
		e.advice = nil
		return advice, time.Since(e.put) <= probeLimit // a later one is about other calls
	case <-ctx.Done():
		return Advice{}, false
	}
}
