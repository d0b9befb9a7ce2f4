package engine

import (
	"math"
	"time"
)

// A Core is an engine without a network and without a clock: it is told what
// time it is and says what has happened. Times are counted from its start and
// never go back; an earlier one is taken for the latest it has seen.
//
// A driver alternates between three things: [Core.Submit] and [Core.Abort] at
// the moment they happen, [Core.Next] to learn when something is due, and
// [Core.Advance] to let it happen. A Core is for one goroutine.
type Core struct {
	cfg      Config
	now      time.Duration
	queue    events
	weather  weather
	degrades []Change

	pre, dec *worker // the same if prefill and decode are one
	workers  []*worker

	line       []*Call // waits in the router
	dispatched int     // that the router has under way
	bootstrap  []*Call
	inflight   []*Call // their prompt is computed, and they wait for a place to decode
	moving     []*Call // in transfer

	serial   uint64
	live     int
	arrivals map[uint64]uint64 // so far, of requests that are alike; nil if it decides nothing
	requests bucket
	tokens   bucket
	record   Record
	deaths   []Side
	front    FrontStats
	out      []Output
}

// NewCore returns a core at time zero, or an error that names the bad field.
func NewCore(cfg Config) (*Core, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, record: newRecord(cfg.Bin), front: FrontStats{Ends: make(map[Result]int)}}
	c.dec = newWorker(Decode, cfg.Slots, cfg.KVTokens)
	c.pre, c.workers = c.dec, []*worker{c.dec}
	if s := cfg.Split; s != nil {
		c.pre = newWorker(Prefill, s.Slots, s.KVTokens)
		c.workers = []*worker{c.pre, c.dec}
	}
	part := cfg.Limits.Window.Minutes()
	c.tokens = newBucket(cfg.Limits.Tokens, time.Minute, part)
	c.requests = newBucket(cfg.Limits.Requests, time.Minute, part)
	if cfg.Limits.Format == Groq {
		c.requests = newBucket(cfg.Limits.Requests, 24*time.Hour, 1)
	}
	for i, ch := range cfg.Changes {
		c.queue.push(event{at: ch.At, kind: changing, seq: uint64(i), try: begins})
		if ch.Until != 0 {
			c.queue.push(event{at: ch.Until, kind: changing, seq: uint64(i)})
		}
		switch ch.Kind {
		case Degrade:
			c.degrades = append(c.degrades, ch)
		case Lose, FailTransfer:
			c.arrivals = make(map[uint64]uint64)
		}
	}
	c.weather = weatherAt(nil, 0)
	return c, nil
}

// Config returns the settings with their defaults filled in.
func (c *Core) Config() Config { return c.cfg }

// Live returns how many requests have not ended.
func (c *Core) Live() int { return c.live }

// Submit takes a request. What becomes of it comes out of [Core.Advance],
// which should have been called for this moment before.
func (c *Core) Submit(now time.Duration, r Request) *Call {
	c.now = max(c.now, now)
	c.serial++
	c.live++
	call := &Call{Request: r, serial: c.serial, arrived: c.now}
	for i, s := range r.Prompt {
		// What cannot be a piece of a prompt ends it; the sum stays a number.
		if s.Tokens < 0 || s.Tokens > math.MaxInt32 {
			call.Prompt = r.Prompt[:i]
			break
		}
		call.prompt += s.Tokens
	}
	call.order = mix(r.Key ^ hashText(r.Agent))
	c.later(c.cfg.Cost.FrontEnd, arrived, call)
	return call
}

// Abort says that the client of a call has left. The engine hears of it as
// late as its settings say; the client hears nothing more.
func (c *Core) Abort(now time.Duration, call *Call) {
	c.now = max(c.now, now)
	if call == nil || call.left || call.phase == over {
		return
	}
	call.left = true
	late := c.cfg.Abort.Plain
	if call.Stream {
		late = c.cfg.Abort.Stream
	}
	c.later(late, noticing, call)
}

// later has something happen to a call. What happens to several at the same
// moment does so in an order that does not depend on who came first: that is
// up to the scheduler of goroutines.
func (c *Core) later(after time.Duration, kind eventKind, call *Call) {
	c.queue.push(event{at: c.now + after, kind: kind, key: call.order, seq: call.serial, call: call, try: call.tries})
}

const never = time.Duration(math.MaxInt64)

// Next returns when something is due, and false if nothing ever is unless a
// request comes.
func (c *Core) Next() (time.Duration, bool) {
	at := never
	if len(c.queue) > 0 {
		at = c.queue[0].at
	}
	for _, w := range c.workers {
		if w.stepping {
			at = min(at, w.stepEnd)
		}
	}
	return at, at != never
}

// Advance lets everything happen that is due until now, in order, and returns
// what clients get to see of it. The result is valid until the next call.
func (c *Core) Advance(now time.Duration) []Output {
	clear(c.out)
	c.out = c.out[:0]
	for {
		at, ok := c.Next()
		if !ok || at > now {
			break
		}
		c.now = max(c.now, at)
		c.instant(at)
	}
	c.now = max(c.now, now)
	return c.out
}

// instant does all that is due at one moment, and starts what can start then.
func (c *Core) instant(at time.Duration) {
	for _, w := range c.workers {
		if w.stepping && w.stepEnd <= at {
			c.endStep(w)
		}
	}
	for len(c.queue) > 0 && c.queue[0].at <= at {
		c.handle(c.queue.pop())
	}
	for again := true; again; {
		c.dispatch()
		for _, w := range c.workers {
			c.startStep(w)
		}
		c.startTransfers()
		// What could not go on for lack of memory has ended, and made room.
		again = len(c.line) > 0 && c.passes()
	}
	for _, w := range c.workers {
		c.publish(w)
	}
}

func (c *Core) handle(e event) {
	switch e.kind {
	case changing:
		c.change(c.cfg.Changes[e.seq], e.try == begins)
	case unpinning:
		if e.try == e.w.life {
			e.w.pinned--
		}
	case transferred:
		if e.call.phase == transferring && e.try == e.call.tries {
			c.endTransfer(e.call)
		}
	case timedOut:
		if e.try == e.call.tries {
			c.giveUp(e.call)
		}
	case noticing:
		c.notice(e.call)
	case arrived:
		c.arrive(e.call)
	}
}

// worker returns the worker of a side.
func (c *Core) worker(s Side) *worker {
	if s == Prefill {
		return c.pre
	}
	return c.dec
}

// end is the one way out for a request.
func (c *Core) end(call *Call, how Result) {
	if call.phase == over {
		return
	}
	c.leave(call)
	w := call.w
	if w != nil {
		// To the engine it has answered, whether somebody listened or not.
		w.count.Finished[how]++
		if how.Useful() {
			w.count.EndToEnd.Observe(seconds(c.now - call.arrived))
			w.count.Decoded.Observe(seconds(c.now - call.first))
		}
	}
	if call.left && how != Aborted {
		how = Left
	}
	call.phase = over
	call.w = nil
	c.live--
	if call.passed {
		c.dispatched--
	}
	c.refund(call)
	if call.Probe == "" {
		c.front.Ends[how]++
		c.record.add(c.now, call, how)
	}
	if !call.left {
		c.emit(Output{Call: call, End: how})
	}
}

func (c *Core) emit(o Output) {
	if o.Call.left {
		return
	}
	o.At = c.now
	c.out = append(c.out, o)
}
