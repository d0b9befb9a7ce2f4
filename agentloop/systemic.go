package agentloop

import (
	"context"
	"sync"
	"time"
)

// systemicTroubles watches for trouble of an endpoint, as opposed to trouble of one
// agent.
type systemicTroubles struct {
	cfg     SystemicConfig
	emit    func(Event)
	explain func(endpoint string) string
	stop    func(error) // ends the group
	draws   func(*run, context.Context) float64

	// most is how many agents of the group's own are at work at the same time.
	most int
	// places is GroupConfig.MaxInFlight, or 0.
	places int

	mu sync.Mutex
	at map[string]*trouble // by endpoint
}

// newTroubles counts the agents that are yet to begin: three that fail at once are
// not most of a large group.
func newTroubles(cfg *GroupConfig) *systemicTroubles {
	t := &systemicTroubles{cfg: cfg.Systemic, most: len(cfg.Agents), at: make(map[string]*trouble)}
	if cfg.MaxParallel > 0 {
		t.most = min(t.most, cfg.MaxParallel)
	}
	if t.places = max(0, cfg.MaxInFlight); t.places > 0 {
		t.most = min(t.most, t.places)
	}
	for _, a := range cfg.Agents {
		t.of(a).left++
	}
	return t
}

// A trouble is how the agents of one endpoint fare.
//
//	state       no trouble          some agents in it     systemic
//	a fault     in                  in, or systemic       counted
//	an answer   nothing             none is in it         over, all go on
//
// An answer counts only if it tells how the endpoint works by now.
type trouble struct {
	left    int                // agents of the group's own that have not ended
	live    map[*run]struct{}  // at work, not ended
	waiting map[*run]time.Time // since when
	failing map[*run]struct{}
	// queued are the agents that wait for a place in flight: nobody knows how they would
	// fare. The value is true for those that are not failing; idle counts these.
	queued map[*run]bool
	idle   int
	// orphans are silent as well, but calls that began no earlier were answered: their
	// trouble may be their own. They count only beside others.
	orphans map[*run]struct{}
	latest  time.Time // when the latest call that was answered began
	since   time.Time // when the first of them got into it
	last    error

	told    *SystemicError // it is systemic, since
	began   time.Time
	probing *run          // whose call is let through
	probed  time.Time     // since when
	bear    time.Duration // how long it may be silent before another one is
	next    time.Time
	pause   time.Duration
	held    int           // agents that wait
	change  chan struct{} // closed when something changes for those held back
}

// closed is a closed channel.
var closed = closedChan()

func closedChan() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (t *systemicTroubles) of(a *Agent) *trouble {
	x := t.at[a.endpoint]
	if x == nil {
		x = &trouble{
			live: make(map[*run]struct{}), waiting: make(map[*run]time.Time), failing: make(map[*run]struct{}),
			orphans: make(map[*run]struct{}), queued: make(map[*run]bool), change: make(chan struct{}),
		}
		t.at[a.endpoint] = x
	}
	return x
}

// wakeLocked makes all agents that are held back check again.
func (x *trouble) wakeLocked() {
	close(x.change)
	x.change = make(chan struct{})
}

func (t *systemicTroubles) begin(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(r.agent).live[r] = struct{}{}
}

func (t *systemicTroubles) end(r *run) {
	t.mu.Lock()
	x := t.of(r.agent)
	delete(x.live, r)
	if !r.inside() {
		x.left--
	}
	delete(x.waiting, r)
	delete(x.failing, r)
	delete(x.orphans, r)
	x.queueLocked(r, false)
	told := t.judgeLocked(x, r.agent.endpoint) // fewer are at work now
	t.mu.Unlock()
	t.act(told)
}

// silent notes an agent that waits for an answer without a sign of life. An orphan
// loses its place in flight: the endpoint has forgotten its call.
func (t *systemicTroubles) silent(r *run, since time.Time) {
	t.note(r, since, func(x *trouble) {
		switch {
		case !r.liveness.silent(): // no longer
		case x.latest.Before(since):
			delete(x.failing, r)
			x.waiting[r] = since
		default:
			delete(x.failing, r)
			x.orphans[r] = struct{}{}
			r.leavePlace()
		}
	})
}

// queue notes that an agent begins or ends to wait for a place in flight. The channel
// is closed when the agent must go to the gate instead.
func (t *systemicTroubles) queue(r *run, waits bool) (enough <-chan struct{}) {
	t.mu.Lock()
	x := t.of(r.agent)
	x.queueLocked(r, waits)
	if t.cfg.Action == SystemicHold {
		if enough = x.change; x.told != nil { // since it was at the gate
			enough = closed
		}
	}
	told := t.judgeLocked(x, r.agent.endpoint)
	t.mu.Unlock()
	t.act(told)
	return enough
}

func (x *trouble) queueLocked(r *run, waits bool) {
	if x.queued[r] {
		x.idle--
	}
	delete(x.queued, r)
	if waits {
		_, failing := x.failing[r]
		if x.queued[r] = !failing; !failing {
			x.idle++
		}
	}
}

// fault notes a call that failed with a passing fault, and reports whether the
// trouble is systemic. after is how long the endpoint wants to be left alone.
func (t *systemicTroubles) fault(r *run, err error, after time.Duration) (all bool) {
	now := time.Now()
	return t.note(r, now, func(x *trouble) {
		delete(x.waiting, r)
		delete(x.orphans, r)
		x.failing[r] = struct{}{}
		x.last = err
		if x.probing == r {
			x.probing = nil
			x.next = now.Add(x.pause)
			x.pause = min(2*x.pause, maxProbePause)
			x.wakeLocked()
		}
		if quiet := now.Add(after); quiet.After(x.next) {
			x.next = quiet
		}
	})
}

func (t *systemicTroubles) note(r *run, since time.Time, how func(*trouble)) (all bool) {
	t.mu.Lock()
	x := t.of(r.agent)
	if _, live := x.live[r]; !live {
		t.mu.Unlock()
		return false
	}
	before := len(x.waiting) + len(x.failing)
	how(x)
	if now := len(x.waiting) + len(x.failing); now > before && (before == 0 || since.Before(x.since)) {
		x.since = since
	}
	told := t.judgeLocked(x, r.agent.endpoint)
	all = x.told != nil && t.cfg.Action == SystemicHold
	t.mu.Unlock()
	t.act(told)
	return all
}

// judgeLocked returns the systemic trouble if it has just begun.
func (t *systemicTroubles) judgeLocked(x *trouble, endpoint string) *SystemicError {
	sure, queued := len(x.waiting)+len(x.failing), 0
	// Agents without a place are no sign of health. They are a sign of trouble only if
	// silent calls hold all places: then they get no answer either.
	atWork := max(len(x.live)-x.idle, min(x.left, t.most))
	if x.idle > 0 && t.places > 0 && len(x.waiting) >= t.places { // without, they wait for those of a group around this one
		queued, atWork = x.idle, max(atWork, len(x.live))
		sure += queued
	}
	n := sure + len(x.orphans)
	if x.told != nil || t.cfg.Share < 0 || sure < t.cfg.Min || float64(n) <= t.cfg.Share*float64(atWork) && n < atWork {
		return nil
	}
	x.told = &SystemicError{
		Endpoint: endpoint, Agents: atWork, Waiting: len(x.waiting) + len(x.orphans), Failing: len(x.failing), Queued: queued, Since: x.since, Err: x.last,
	}
	x.began, x.pause, x.bear = time.Now(), probePause, probeTime
	if first := x.began.Add(x.pause); first.After(x.next) {
		x.next = first
	}
	x.wakeLocked() // waiters for a place must wait at the gate
	return x.told
}

// act announces systemic trouble, and then acts.
func (t *systemicTroubles) act(told *SystemicError) {
	if told == nil {
		return
	}
	why := t.explain(told.Endpoint)
	t.mu.Lock()
	told.Explanation = why
	t.mu.Unlock()
	t.emit(Event{Kind: EventSystemic, Text: why, Err: told})
	t.mu.Lock()
	told.announced = true
	over, after := told.over, told.after
	t.mu.Unlock()
	if over { // while it was explained
		t.emit(Event{Kind: EventRecovered, After: after})
	}
	if t.cfg.Action == SystemicStop {
		t.stop(told)
	}
}

// answered notes an answer to a call that began at the given time. If the call began
// after the trouble, or was part of it, the endpoint works, and the trouble of other
// agents is their own. Otherwise the answer does not tell how calls fare by now.
func (t *systemicTroubles) answered(r *run, began time.Time) {
	t.mu.Lock()
	x := t.of(r.agent)
	_, waited := x.waiting[r]
	delete(x.failing, r)
	delete(x.orphans, r)
	if began.After(x.latest) {
		x.latest = began
	}
	var told *SystemicError
	if waited || !began.Before(x.since) {
		told = x.overLocked(began)
	}
	t.mu.Unlock()
	t.recovered(told)
}

// overLocked notes that the endpoint works, as a call that began at the given time
// shows. It returns the trouble that is over, if that was announced.
func (x *trouble) overLocked(began time.Time) *SystemicError {
	for other, silent := range x.waiting {
		if began.After(silent) { // the endpoint has passed it over
			other.leavePlace()
		}
	}
	for other := range x.failing {
		if waits, some := x.queued[other]; some && !waits {
			x.queued[other] = true
			x.idle++
		}
	}
	clear(x.waiting)
	clear(x.failing)
	clear(x.orphans)
	told := x.told
	if told == nil {
		return nil
	}
	x.told, x.probing = nil, nil
	x.wakeLocked()
	told.over, told.after = true, time.Since(x.began)
	if !told.announced {
		return nil // act will announce the recovery
	}
	return told
}

func (t *systemicTroubles) recovered(told *SystemicError) {
	if told != nil {
		t.emit(Event{Kind: EventRecovered, After: told.after})
	}
}

// neutral notes that a call ended in a way that does not tell how the endpoint works.
func (t *systemicTroubles) neutral(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.of(r.agent)
	delete(x.waiting, r)
	delete(x.orphans, r)
	if x.probing == r {
		x.probing = nil
		x.wakeLocked()
	}
}
