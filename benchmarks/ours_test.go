package benchmarks

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/pacer"
)

// ours is pacer and breaker, put together as llmclient does it, without any
// configuration: wait for the breaker, the permit, the pass, the try. A try
// that failed is tried again three times, on a budget.
type ours struct {
	pacer   *pacer.Pacer
	breaker *breaker.Breaker

	mu      sync.Mutex
	balance float64
	at      time.Time
	served  time.Time // when the latest try began that has given output
	output  time.Time // when any has given output
}

func newOurs() guard {
	p, err := pacer.New(pacer.Config{})
	if err != nil {
		panic(err)
	}
	b, err := breaker.New(breaker.Config{})
	if err != nil {
		panic(err)
	}
	return &ours{pacer: p, breaker: b, balance: 500, at: time.Now()}
}

func (g *ours) Enter(ctx context.Context, agent int) (trip, error) {
	for {
		if err := g.breaker.Wait(ctx); err != nil {
			return nil, err
		}
		permit, err := g.pacer.AcquireFor(ctx, pacer.Demand{Agent: strconv.Itoa(agent)})
		if err != nil {
			return nil, err
		}
		pass, err := g.breaker.Acquire()
		if err == nil {
			return &ourTrip{guard: g, permit: permit, pass: pass, began: time.Now()}, nil
		}
		permit.Return()
	}
}

// Again pays for a retry as llmclient does, or waits until it is covered.
func (g *ours) Again(_, tries int, o engine.Outcome) (time.Duration, bool) {
	if tries >= 4 || o.Result == engine.NoQuota || o.Result == engine.TooLong {
		return 0, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked()
	g.balance -= 14
	wait := backoff(tries, 500*time.Millisecond, 30*time.Second)
	if g.balance < 0 {
		wait = max(wait, time.Duration(-g.balance/140*float64(time.Second)))
	}
	return max(wait, o.RetryAfter), true
}

func (g *ours) settleLocked() {
	now := time.Now()
	g.balance = min(500, g.balance+140*now.Sub(g.at).Seconds())
	g.at = now
}

func (g *ours) heard() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.output = time.Now()
}

// serves reports whether there was output lately.
func (g *ours) serves() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.output) < 30*time.Second
}

type ourTrip struct {
	guard  *ours
	permit *pacer.Permit
	pass   *breaker.Pass
	began  time.Time
}

func (t *ourTrip) First(after time.Duration) {
	t.permit.FirstOutput(after)
	t.pass.Progress()
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if t.began.After(t.guard.served) {
		t.guard.served = t.began
	}
	t.guard.output = time.Now()
}

func (t *ourTrip) Heed(r *engine.Rates) {
	t.guard.pacer.Heed(t.permit, pacer.Allowance{Remaining: r.RemainingRequests, Limit: r.LimitRequests, Reset: r.ResetRequests})
}

func (t *ourTrip) Output(pieces int) {
	t.permit.Output(pieces)
	t.pass.Progress()
	t.guard.heard()
}

func (t *ourTrip) Leave(o engine.Outcome) {
	r := pacer.Result{Outcome: pacer.Failed, Outputs: o.Tokens}
	v := breaker.Failure
	switch {
	case o.Result.Useful():
		r.Outcome, v = pacer.Answered, breaker.Success
		t.guard.mu.Lock()
		t.guard.settleLocked()
		t.guard.balance = min(500, t.guard.balance+2.8)
		t.guard.mu.Unlock()
	case o.Result == engine.Left:
		r.Outcome = pacer.Abandoned
		t.guard.mu.Lock()
		if o.First > 0 || t.began.Before(t.guard.served) {
			v = breaker.Ignored // it answers, too slowly for us, or has forgotten this one only
		}
		t.guard.mu.Unlock()
	case o.Result == engine.Refused, o.Result == engine.Unready:
		if t.guard.breaker.Stats().Failures <= 2 && t.guard.serves() {
			r.Outcome = pacer.Refused // and is not out of order, where a refusal says nothing of load
		}
	case o.Result == engine.Limited, o.Result == engine.NoQuota:
		r.Outcome, v = pacer.Throttled, breaker.Success
		if o.RetryAfter > 0 {
			t.guard.pacer.CoolDown(o.RetryAfter)
		}
	case o.Result == engine.TooLong:
		v = breaker.Success
	}
	t.pass.Done(v)
	t.permit.Done(r)
}

// backoff doubles from base to most, up to a half of it at random.
func backoff(tries int, base, most time.Duration) time.Duration {
	d := most
	if tries < 20 {
		d = min(most, base<<(tries-1))
	}
	return time.Duration(float64(d) * (1 + rand.Float64()/2))
}
