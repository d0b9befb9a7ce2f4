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
	// gathered, whatever the sizes.
	askAfter = 30 * time.Second

	// A probe is unanswered after probeLimit. While somebody waits there is one
	// every probeEvery; behind an unanswered one the next follows at once, or
	// after probeLimit if it failed sooner than that.
	probeLimit = 5 * time.Second
	probeEvery = 10 * time.Second

	// deadAfter is how many probes in a row must go unanswered, with not a
	// byte from the endpoint meanwhile, for it to be dead.
	deadAfter = 2

	// How long calls wait for a dead endpoint to answer a probe before they try
	// all the same: longer if it has ever answered one.
	hopeKnown   = 5 * time.Minute
	hopeUnknown = 3 * time.Minute
)

// evidence is what is known about an endpoint beside its answers: whether it
// answers probes, when it last sent a byte, and how fast its calls have been.
// The question is asked by one goroutine, which lives as long as somebody has
// been waiting for long.
type evidence struct {
	client *Client
	probe  *http.Client // on connections of its own; nil if there is no way to have those

	lastByte atomic.Int64 // nanoseconds; of any call or probe
	isDead   atomic.Bool
	answers  atomic.Bool // it has answered a probe
	mute     atomic.Bool // it does not answer probes though it works: they show nothing
	pace     pace

	mu     sync.Mutex
	asking bool          // the goroutine runs
	life   chan struct{} // closed when a dead endpoint is alive again; nil if it is not dead
	hoping int           // calls that wait for that
	advice chan Advice   // of a question that the adviser has not answered in time
}

func newEvidence(c *Client) *evidence { return &evidence{client: c, probe: c.wire.probing()} }

// saw is told that bytes of an answer came.
func (e *evidence) saw(now time.Time) {
	e.lastByte.Store(now.UnixNano())
	if e.isDead.Load() {
		if !e.answers.Load() {
			e.mute.Store(true) // it was not dead, it only does not answer probes
		}
		e.revive()
	}
}

// die notes that the endpoint is dead, and reports whether that is news.
func (e *evidence) die() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != nil {
		return false
	}
	e.life = make(chan struct{})
	e.isDead.Store(true)
	return true
}

func (e *evidence) revive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != nil {
		e.isDead.Store(false)
		close(e.life)
		e.life = nil
	}
}

// ask makes sure that the question is being asked.
func (e *evidence) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asking || !e.client.goes(e.run) {
		return
	}
	e.asking = true
}

// awaitLife waits while the endpoint is dead, but not for ever: probes may be
// what it has stopped answering, and nothing else.
func (e *evidence) awaitLife(ctx context.Context) error {
	hope := hopeUnknown
	if e.answers.Load() {
		hope = hopeKnown
	}
	t := time.NewTimer(hope)
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

// done reports whether nobody needs the question asked any more, and if so
// notes that it is not.
func (e *evidence) done(waiting int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if waiting > 0 || e.hoping > 0 {
		return false
	}
	e.asking = false
	return true
}

// run asks until nobody waits.
func (e *evidence) run(ctx context.Context) {
	var next time.Time // when the next probe may start
	misses := 0
	for {
		waiting := e.client.waiting(time.Now())
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

// judge says what a probe shows, and returns how many in a row have gone
// unanswered.
func (e *evidence) judge(answered bool, began time.Time, misses int) int {
	if answered {
		e.answers.Store(true)
		e.saw(time.Now())
		e.client.ep.breaker.Hurry()
		return 0
	}
	if e.lastByte.Load() >= began.UnixNano() {
		return 0 // it is alive all the same: some servers answer nobody while they generate
	}
	if misses++; misses < deadAfter {
		return misses
	}
	if e.die() {
		e.client.notify(Event{Kind: EventDead, Text: fmt.Sprintf("%d probes in a row were not answered", misses)})
	}
	for _, w := range e.client.waiting(time.Now()) {
		w.cut(fmt.Sprintf("%d probes in a row were not answered, and nothing else came from the endpoint", misses))
	}
	return misses
}

// probed asks the endpoint the free question and reports whether it answered,
// in whatever way.
func (e *evidence) probed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.client.ep.name+"/models", nil)
	if err != nil {
		return true // it says nothing about the endpoint
	}
	e.client.ep.secrets.probe(req)
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
		if w.m.bytes > 0 || !w.m.firstByte.IsZero() {
			continue
		}
		if n, slowest, yes := e.pace.overtaken(w.a.call.kind(), w.a.started, w.waited); yes {
			w.cutAs(true, fmt.Sprintf("%d like calls that started later have had their answers, the slowest after %v", n, round(slowest)))
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
