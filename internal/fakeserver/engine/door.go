package engine

import (
	"math"
	"slices"
)

// arrive is the front door.
func (c *Core) arrive(call *Call) {
	w := &c.weather
	if call.phase != arriving {
		return
	}
	if call.Probe != "" {
		c.probe(call)
		return
	}
	c.front.Requests++
	c.count(call)
	if w.silent || w.lose > 0 && c.fate(call, "lose") < w.lose {
		call.phase = lost
		c.front.Lost++
		c.pass(call)
		return
	}
	call.rates = c.charge(call)
	switch {
	case c.allDown():
		c.end(call, Broken)
	case w.unavailable || len(w.down) > 0:
		c.end(call, Unready)
	case w.outOfQuota:
		c.end(call, NoQuota)
	case call.rates != nil && call.rates.RetryAfter > 0:
		c.end(call, Limited)
	case call.prompt >= c.cfg.Context || call.prompt >= c.dec.mem.size || call.prompt >= c.pre.mem.size:
		c.end(call, TooLong)
	case c.cfg.Router == nil:
		c.enter(call)
	case c.cfg.Router.Queue >= 0 && len(c.line) >= c.cfg.Router.Queue && !c.passes():
		c.end(call, Refused)
	default:
		call.phase = routed
		c.line = append(c.line, call)
		c.dispatch()
	}
}

// dispatch lets the router pass on what it has room for.
func (c *Core) dispatch() {
	for len(c.line) > 0 && c.passes() {
		call := c.line[0]
		c.line = slices.Delete(c.line, 0, 1)
		c.pass(call)
		c.enter(call)
	}
}

// passes reports whether the router would pass on a request now.
func (c *Core) passes() bool {
	w := &c.weather
	return c.dispatched < c.cfg.Router.InFlight && !w.wedged[Front] && !w.silent
}

// pass counts a request as under way with the engine.
func (c *Core) pass(call *Call) {
	if c.cfg.Router != nil {
		call.passed = true
		c.dispatched++
	}
}

// enter puts a request into the engine's queue.
func (c *Core) enter(call *Call) {
	w := c.pre
	bound := c.cfg.Queue
	if c.cfg.Split != nil {
		bound = c.cfg.Split.Queue
	}
	// The queue is for those who must wait: a free slot takes one more.
	if bound >= 0 && len(w.waiting)+len(c.bootstrap) >= bound+max(c.free(w), 0) {
		w.count.Refused++
		c.end(call, Refused)
		return
	}
	w.count.Requests++
	call.want, call.reason = c.length(call)
	c.emit(Output{Call: call, Taken: true})
	if c.cfg.Split != nil && c.weather.wedgeBootstrap {
		call.phase, call.w = bootstrapping, w
		c.bootstrap = append(c.bootstrap, call)
		c.limitWait(call)
		return
	}
	call.phase, call.w = waiting, w
	w.waiting = append(w.waiting, call)
}

// probe puts a health check into a scheduler's queue, full or not.
func (c *Core) probe(call *Call) {
	w := c.worker(call.Probe)
	if c.weather.down[w.side] {
		c.end(call, Broken)
		return
	}
	call.want, call.reason = 1, Stopped
	call.phase, call.w = waiting, w
	w.waiting = append(w.waiting, call)
}

// length decides how many tokens an answer has, and how it ends then.
func (c *Core) length(call *Call) (int, Result) {
	w := &c.weather
	n := call.Output
	if n <= 0 {
		n = c.draw(call)
	}
	if w.runawayLong > 0 && call.prompt > w.runawayLong || w.runaway > 0 && c.luck(call, "runaway") < w.runaway {
		n = math.MaxInt
	}
	most := c.cfg.Context - call.prompt
	if call.MaxTokens > 0 {
		most = min(most, call.MaxTokens)
	}
	if n > most {
		return most, Length
	}
	return n, Stopped
}

// notice is the moment the engine hears that a client has left.
func (c *Core) notice(call *Call) {
	if call.phase == over {
		return
	}
	w := call.w
	slot := call.phase == transferring || call.phase == running && w == c.dec
	stuck := c.weather.stickAborts && (call.phase == inflight || call.phase == transferring)
	if w != nil {
		w.count.Aborted++
	}
	c.end(call, Aborted)
	if stuck && c.pre.mem.reserve(call.prompt) {
		c.pre.stuck++ // for good, memory included
	}
	if slot && c.cfg.Abort.Pin > 0 {
		c.dec.pinned++
		c.queue.push(event{at: c.now + c.cfg.Abort.Pin, kind: unpinning, seq: call.serial, w: c.dec, try: c.dec.life})
	}
}
