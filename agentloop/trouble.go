package agentloop

import (
	"context"
	"sync"
	"time"
)

// troubles watches for trouble that is not one agent's but an endpoint's.
type troubles struct {
	cfg   SystemicConfig
	emit  func(Event)
	stop  func(error) // ends the group
	draws func(*run, context.Context) float64

	// most is how many agents of the group's own are at work at the same time.
	most int

	mu sync.Mutex
	at map[string]*trouble // by endpoint
}

// newTroubles knows the agents that are to come: three that fail at once are not
// most of a group of which the others are about to begin.
func newTroubles(cfg *GroupConfig) *troubles {
	t := &troubles{cfg: cfg.Systemic, most: len(cfg.Agents), at: make(map[string]*trouble)}
	if cfg.Parallel > 0 {
		t.most = min(t.most, cfg.Parallel)
	}
	for _, a := range cfg.Agents {
		t.of(a).left++
	}
	return t
}

// A trouble is how an endpoint does by its agents.
//
//	state       no trouble          some agents in it     systemic
//	a fault     in                  in, or systemic       counted
//	an answer   nothing             none is in it         over, all go on
//
// Only answers count that say something of how the endpoint does by now.
type trouble struct {
	left    int               // agents of the group's own that have not ended
	live    map[*run]struct{} // at work, not ended
	waiting map[*run]struct{}
	failing map[*run]struct{}
	// orphans wait as well, but calls that began no sooner were answered: what
	// ails them may be their own. They count beside others only.
	orphans map[*run]struct{}
	latest  time.Time // when the latest call that was answered began
	since   time.Time // when the first of them got into it
	last    error

	told    *SystemicError // it is systemic, since
	began   time.Time
	probing *run // whose call is let through
	next    time.Time
	pause   time.Duration
	held    int           // agents that wait
	change  chan struct{} // closed when something changes for those held back
}

const (
	probePause    = time.Second
	maxProbePause = time.Minute
	// spread is how far apart agents go on when an endpoint answers again.
	spread    = 20 * time.Millisecond
	maxSpread = 5 * time.Second
)

func (t *troubles) of(a *Agent) *trouble {
	x := t.at[a.endpoint]
	if x == nil {
		x = &trouble{
			live: make(map[*run]struct{}), waiting: make(map[*run]struct{}), failing: make(map[*run]struct{}),
			orphans: make(map[*run]struct{}), change: make(chan struct{}),
		}
		t.at[a.endpoint] = x
	}
	return x
}

// wakeLocked lets all who are held back look again.
func (x *trouble) wakeLocked() {
	close(x.change)
	x.change = make(chan struct{})
}

func (t *troubles) begin(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(r.agent).live[r] = struct{}{}
}

func (t *troubles) end(r *run) {
	t.mu.Lock()
	x := t.of(r.agent)
	delete(x.live, r)
	if !r.inside() {
		x.left--
	}
	delete(x.waiting, r)
	delete(x.failing, r)
	delete(x.orphans, r)
	if x.probing == r {
		x.probing = nil
		x.wakeLocked()
	}
	told := t.judgeLocked(x, r.agent.endpoint) // fewer are at work now
	t.mu.Unlock()
	t.act(told)
}

// silent notes an agent that waits for an answer without a sign of life.
func (t *troubles) silent(r *run, since time.Time) {
	t.note(r, since, func(x *trouble) {
		if x.latest.Before(since) {
			x.waiting[r] = struct{}{}
		} else {
			x.orphans[r] = struct{}{}
		}
	})
}

// fault notes a call that failed with a passing fault, and reports whether it
// is the fault of all.
// after is how long the endpoint wants to be left alone.
func (t *troubles) fault(r *run, err error, after time.Duration) (all bool) {
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

func (t *troubles) note(r *run, since time.Time, how func(*trouble)) (all bool) {
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

// judgeLocked returns what there is to tell, once.
func (t *troubles) judgeLocked(x *trouble, endpoint string) *SystemicError {
	sure := len(x.waiting) + len(x.failing)
	n := sure + len(x.orphans)
	atWork := max(len(x.live), min(x.left, t.most))
	if x.told != nil || t.cfg.Share < 0 || sure < t.cfg.Min || float64(n) <= t.cfg.Share*float64(atWork) && n < atWork {
		return nil
	}
	x.told = &SystemicError{
		Endpoint: endpoint, Agents: atWork, Waiting: len(x.waiting) + len(x.orphans), Failing: len(x.failing), Since: x.since, Err: x.last,
	}
	x.began, x.pause = time.Now(), probePause
	if first := x.began.Add(x.pause); first.After(x.next) {
		x.next = first
	}
	return x.told
}

// act tells, and then acts.
func (t *troubles) act(told *SystemicError) {
	if told == nil {
		return
	}
	t.emit(Event{Kind: EventSystemic, Err: told})
	if t.cfg.Action == SystemicStop {
		t.stop(told)
	}
}

// answered notes an answer to a call that began at the given time. If that was
// after the trouble began, or if the call was part of it, the endpoint works, and
// whatever ails others is their own. Otherwise it says nothing of what happens to
// calls by now.
func (t *troubles) answered(r *run, began time.Time) {
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
		clear(x.waiting)
		clear(x.failing)
		clear(x.orphans)
		if told = x.told; told != nil {
			x.told, x.probing = nil, nil
			x.wakeLocked()
		}
	}
	since := x.began
	t.mu.Unlock()
	if told != nil {
		t.emit(Event{Kind: EventRecovered, After: time.Since(since)})
	}
}

// unprobe notes that the call of an agent ended in a way that says nothing
// about the endpoint.
func (t *troubles) unprobe(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.of(r.agent); x.probing == r {
		x.probing = nil
		x.wakeLocked()
	}
}

// gate holds a call back while trouble is systemic. It reports false if ctx
// ended first.
func (t *troubles) gate(ctx context.Context, r *run) bool {
	if t.cfg.Action != SystemicHold || t.cfg.Share < 0 {
		return true
	}
	waited := false
	for {
		t.mu.Lock()
		x := t.of(r.agent)
		if x.told == nil {
			ahead := x.held
			t.mu.Unlock()
			return !waited || t.goOn(ctx, r, ahead)
		}
		now := time.Now()
		if held := now.Sub(x.began); t.cfg.Limit > 0 && held >= t.cfg.Limit {
			told := *x.told
			told.Held, told.Err = held, x.last
			t.mu.Unlock()
			t.stop(&told)
			<-ctx.Done()
			return false
		}
		wait := time.Hour
		if t.cfg.Limit > 0 {
			wait = x.began.Add(t.cfg.Limit).Sub(now)
		}
		if x.probing == nil {
			if !now.Before(x.next) {
				x.probing = r
				t.mu.Unlock()
				return true
			}
			wait = min(wait, x.next.Sub(now))
		}
		if !waited {
			waited = true
			r.does("held back: the endpoint fails most agents", ends)
		}
		x.held++
		change := x.change
		t.mu.Unlock()

		timer := time.NewTimer(wait)
		select {
		case <-change:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		t.mu.Lock()
		x.held--
		t.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
	}
}

// goOn spreads those out who were held back.
func (t *troubles) goOn(ctx context.Context, r *run, others int) bool {
	most := min(maxSpread, time.Duration(others+1)*spread)
	timer := time.NewTimer(time.Duration(t.draws(r, ctx) * float64(most)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
