package llmclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// askAfter is how long FirstOutput, Gap or Attempt run before evidence is
	// gathered, however large the request is.
	askAfter = 30 * time.Second

	// A probe is unanswered after probeLimit. While a call waits there is one every
	// probeEvery. An unanswered one is followed by the next at once, or after
	// probeLimit if it failed sooner.
	probeLimit = 5 * time.Second
	probeEvery = 10 * time.Second

	// deadAfter is how many probes in a row must go unanswered, without a byte from
	// the endpoint meanwhile, until it counts as dead.
	deadAfter = 2

	// How long calls wait for a dead endpoint to answer a probe before they try
	// anyway: longer if it has ever answered one.
	hopeKnown   = 5 * time.Minute
	hopeUnknown = 3 * time.Minute
)

// evidence is what is known about an endpoint besides its answers: whether it
// answers probes, when it last sent a byte, and how fast its calls have been. One
// goroutine sends the probes. It runs as long as some call has waited for askAfter.
type evidence struct {
	client *Client
	ep     *endpoint
	probe  *http.Client // on connections of its own; nil if the transport allows none

	lastByte atomic.Int64 // nanoseconds; of any call or probe
	isDead   atomic.Bool
	answers  atomic.Bool // it has answered a probe
	mute     atomic.Bool // it works but does not answer probes: they prove nothing
	pace     pace

	mu      sync.Mutex
	again   bool          // ask was called since the goroutine last listed the waiting calls
	asking  bool          // the goroutine runs
	died    time.Time     // when it was found dead
	asked   time.Time     // when the last question was put
	said    string        // what is known since then
	glimpse time.Time     // when the last glance was
	misses  int           // glances in a row that were not answered
	life    chan struct{} // closed when a dead endpoint is alive again; nil if it is not dead
	hoping  int           // calls that wait for life
	advice  chan Advice   // of an adviser that has not answered in time
	put     time.Time     // when the adviser was asked; only the goroutine uses advice and put
}

func newEvidence(c *Client, ep *endpoint) *evidence {
	return &evidence{client: c, ep: ep, probe: ep.wire.probing()}
}

// saw is told that bytes of an answer came.
func (e *evidence) saw(now time.Time) {
	e.lastByte.Store(now.UnixNano())
	if e.isDead.Load() {
		if !e.answers.Load() {
			e.mute.Store(true) // it was not dead, it just does not answer probes
		}
		e.revive()
	}
}

// die notes that the endpoint is dead, and reports whether it was not known to be.
func (e *evidence) die() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.life != nil {
		if !now.Before(e.died.Add(e.hope())) {
			e.died = now // a call has tried it, and it is still dead
		}
		return false
	}
	e.life = make(chan struct{})
	e.died = now
	e.isDead.Store(true)
	e.client.changes.tell()
	return true
}

// hope is how long calls wait for a dead endpoint.
func (e *evidence) hope() time.Duration {
	if e.answers.Load() {
		return hopeKnown
	}
	return hopeUnknown
}

// deadUntil returns until when a dead endpoint is passed over unless it gives a
// sign of life, or the zero time if it is not dead.
func (e *evidence) deadUntil(now time.Time) time.Time {
	if !e.isDead.Load() {
		return time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if until := e.died.Add(e.hope()); e.life != nil && now.Before(until) {
		return until
	}
	return time.Time{}
}

// glance probes an endpoint that calls pass over, from time to time: no call waits
// there, so nothing else would.
func (e *evidence) glance() {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking || !e.probes() || now.Sub(e.glimpse) < probeEvery || !e.client.goes(e.look) {
		return
	}
	e.glimpse = now
}

// look is what glance does, in a goroutine of its own.
func (e *evidence) look(ctx context.Context) {
	began := time.Now()
	answered := e.probed(ctx)
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	misses := e.misses
	e.mu.Unlock()
	misses = e.judge(answered, began, misses)
	e.mu.Lock()
	e.misses = misses
	e.mu.Unlock()
}

func (e *evidence) revive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != nil {
		e.isDead.Store(false)
		close(e.life)
		e.life = nil
		e.client.changes.tell()
	}
}

// ask makes sure that the goroutine that probes is running.
func (e *evidence) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking {
		e.again = true
		return
	}
	e.asking = e.client.goes(e.run)
}

// awaitLife waits while the endpoint is dead, for hope at most: it may have stopped
// answering probes but not calls.
func (e *evidence) awaitLife(ctx context.Context) error {
	t := time.NewTimer(e.hope())
	defer t.Stop()
	e.mu.Lock()
	life := e.life
	if life == nil {
		e.mu.Unlock()
		return nil
	}
	e.hoping++
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.hoping--
		e.mu.Unlock()
	}()
	e.ask()
	select {
	case <-life:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// done reports whether no call needs probes any more, and if so notes that the
// goroutine ends.
func (e *evidence) done(waiting int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if again := e.again; waiting > 0 || e.hoping > 0 || again {
		e.again = false // a call that asked meanwhile may not be among the waiting ones
		return false
	}
	e.asking = false
	return true
}

// run probes until no call waits.
func (e *evidence) run(ctx context.Context) {
	var next time.Time // when the next probe may start
	misses := 0
	for {
		waiting := e.client.waiting(e.ep, time.Now())
		if e.done(len(waiting)) {
			return
		}
		e.cutOrphans(waiting)
		e.consult(ctx, waiting)
		if !time.Now().Before(next) && e.probes() {
			began := time.Now()
			answered := e.probed(ctx)
			if ctx.Err() != nil {
				return
			}
			misses = e.judge(answered, began, misses)
			next = began.Add(probeEvery)
			if !answered {
				next = began.Add(probeLimit)
			}
		}
		pause := probeLimit
		if d := time.Until(next); e.probes() && d < pause {
			pause = d
		}
		if pause > 0 && !sleep(ctx, pause) {
			return
		}
	}
}

// probes reports whether probes can be made and show anything.
func (e *evidence) probes() bool { return e.probe != nil && !e.mute.Load() }

// judge draws the conclusions from a probe, and returns how many in a row have gone
// unanswered.
func (e *evidence) judge(answered bool, began time.Time, misses int) int {
	e.know(answered, began)
	if answered {
		e.answers.Store(true)
		e.mute.Store(false) // a byte may have come just before the answer to a probe
		e.saw(time.Now())
		e.ep.breaker.Hurry()
		return 0
	}
	if e.lastByte.Load() >= began.UnixNano() {
		return 0 // it is alive nevertheless: some servers answer no other request while they generate
	}
	if misses++; misses < deadAfter {
		return misses
	}
	if e.die() {
		e.client.notify(Event{Kind: EventDead, Endpoint: e.ep.name, Text: fmt.Sprintf("%d probes in a row were not answered", misses)})
	}
	for _, w := range e.client.waiting(e.ep, time.Now()) {
		w.cut(fmt.Sprintf("%d probes in a row were not answered, and nothing else came from the endpoint", misses))
	}
	return misses
}

// know notes how a probe went.
func (e *evidence) know(answered bool, began time.Time) {
	said := "the last probe was answered"
	switch {
	case answered:
	case e.lastByte.Load() >= began.UnixNano():
		said = "the last probe was not answered, but bytes came meanwhile"
	default:
		said = "the last probe was not answered, and nothing came meanwhile"
	}
	e.learn(said)
}

// learn notes what is known.
func (e *evidence) learn(said string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.said = time.Now(), said
}

// note tells what is known, and since when.
func (e *evidence) note() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.said == "" {
		return ""
	}
	return fmt.Sprintf("%s (%v ago)", e.said, round(time.Since(e.asked)))
}

// probed sends the endpoint a probe and reports whether it answered, with any
// status.
func (e *evidence) probed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	e.ep.budget.borrow(time.Now(), costOfProbe)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.ep.base+"/models", nil)
	if err != nil {
		return true // the failure proves nothing about the endpoint
	}
	e.ep.secrets.probe(req)
	resp, err := e.probe.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	_ = resp.Body.Close()
	return true
}

// cutOrphans cuts the attempts that the endpoint has forgotten.
func (e *evidence) cutOrphans(waiting []waiter) {
	for _, w := range waiting {
		// How long a plain answer or unseen reasoning takes depends on its length:
		// other calls prove nothing about it. The limits bound those.
		if w.m.bytes > 0 || w.m.firstByte != never || w.m.plain || w.a.kind.reasoning {
			continue
		}
		if n, slowest, yes := e.pace.overtaken(w.a.kind, w.a.started, w.waited); yes {
			w.forget(fmt.Sprintf("%d like calls that started later have had their answers, the slowest after %v", n, round(slowest)))
		}
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
