package llmclient

import (
	"context"
	"slices"
	"time"
)

// An Adviser knows more about an endpoint than its answers show, for example
// from its metrics. It is asked while calls wait for output, now and then and
// one question at a time, and should answer before ctx ends, within 5 s.
type Adviser interface {
	Advise(ctx context.Context, waiting []InFlight) Advice
}

// An Advice is what an [Adviser] thinks of the waiting calls.
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
	// AdviceNone: it cannot be told.
	AdviceNone AdviceState = iota
	// AdviceBusy: the server is at work and advancing. Limits that are not set
	// are held back, to three times their length at most, and Call stands
	// still.
	AdviceBusy
	// AdviceIdle: the server works on nothing while we wait. The attempts are
	// cut, once for each call at each endpoint.
	AdviceIdle
	// AdviceLost: the server works, but it does not have these calls. The
	// attempts are cut, and so is a later one if it is lost as well. Since
	// others are served, nothing is held against the endpoint.
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

// Alive tells the client that an endpoint, by its name, has shown that it lives:
// a probe of somebody else's was answered. Calls that wait for a sign of life go
// on, and an open breaker lets its next trial through sooner. An empty name stands
// for all endpoints.
func (c *Client) Alive(endpoint string) {
	for _, ep := range c.eps {
		if endpoint == "" || endpoint == ep.name {
			ep.evidence.answers.Store(true)
			ep.evidence.saw(time.Now())
			ep.breaker.Hurry()
		}
	}
}

// Ailing tells the client that an endpoint, by its name, was found unable to
// serve: if its breaker is open, no trial is made for one Cooldown from now, which
// does not go on for ever (see MaxPostpone in [breaker.Config]). A closed breaker
// takes no notice, since calls know better. An empty name stands for all endpoints.
func (c *Client) Ailing(endpoint string) {
	for _, ep := range c.eps {
		if endpoint == "" || endpoint == ep.name {
			ep.breaker.Postpone(ailing)
		}
	}
}

// ailing is longer than any Cooldown, which is what bounds it.
const ailing = time.Hour

// AllowProbe reports whether somebody else's probe of an endpoint, by its name,
// may be sent now, and takes what it costs from the endpoint's retry budget, so
// that probes and retries together add a bounded load. It refuses only while
// retries have promised more than the whole budget.
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

// advise waits for the adviser's answer, for as long as a probe may take. One
// that does not come back is not asked again until it does.
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
		return advice, time.Since(e.put) <= probeLimit // later, it is about others
	case <-ctx.Done():
		return Advice{}, false
	}
}
