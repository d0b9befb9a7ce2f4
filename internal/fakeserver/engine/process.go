package engine

// begins marks the event that is the beginning of a change, not its end.
const begins = 1

// change is the beginning or the end of a change.
func (c *Core) change(ch Change, began bool) {
	c.weather = weatherAt(c.cfg.Changes, c.now)
	if ch.Kind == Down {
		if began {
			c.kill(ch)
		} else {
			c.revive(ch)
		}
	}
	for _, w := range c.workers {
		w.mem.size = max(int(float64(w.memory)*c.weather.memory), 1)
		w.mem.trim()
		if w.stepping && w.stepEnd == never && !c.halted(w) {
			w.stepEnd = c.now
		}
	}
	if n := len(c.dec.running) + c.dec.pinned + c.dec.reserved - c.slots(c.dec); n > 0 {
		for range min(n, len(c.dec.running)) {
			c.retract(c.dec)
		}
	}
	if !c.weather.wedgeBootstrap {
		for _, call := range c.bootstrap {
			call.phase = waiting
			call.tries++
			c.pre.waiting = append(c.pre.waiting, call)
		}
		c.bootstrap = c.bootstrap[:0]
	}
	if !c.weather.wedgeTransfer && !c.weather.silent {
		for _, call := range c.moving {
			if call.hung {
				call.hung = false
				c.later(0, transferred, call)
			}
		}
	}
}

// allDown reports whether there is nobody to take a connection.
func (c *Core) allDown() bool {
	d := c.weather.down
	return d[Front] || c.cfg.Split == nil && c.cfg.Router == nil && d[Decode]
}

// kill ends a process with all it holds.
func (c *Core) kill(ch Change) {
	var dead []*Call
	if ch.hits(Front) || c.cfg.Split == nil && c.cfg.Router == nil {
		// All streams pass through the front, so they all break.
		dead = append(dead, c.line...)
		dead = append(dead, c.pre.waiting...)
		dead = append(dead, c.pre.retracted...)
		dead = append(dead, c.pre.running...)
		if c.pre != c.dec {
			dead = append(dead, c.dec.retracted...)
			dead = append(dead, c.dec.running...)
		}
		dead = append(dead, c.bootstrap...)
		dead = append(dead, c.inflight...)
		dead = append(dead, c.moving...)
	}
	for _, w := range c.workers {
		if !ch.hits(w.side) {
			continue
		}
		dead = append(dead, w.waiting...)
		dead = append(dead, w.retracted...)
		dead = append(dead, w.running...)
		dead = append(dead, c.moving...)
		if w.side == Prefill {
			dead = append(dead, c.bootstrap...)
			dead = append(dead, c.inflight...)
		}
	}
	for _, call := range dead {
		if call.phase != over {
			c.end(call, Broken)
		}
	}
	for _, w := range c.workers {
		if ch.hits(w.side) {
			w.restart(c.now)
			c.deaths = append(c.deaths, w.side)
		}
	}
	if c.allDown() {
		c.deaths = append(c.deaths, Front)
	}
	if ch.hits(Front) {
		c.front = FrontStats{Started: c.now, Ends: make(map[Result]int)}
	}
}

// died returns the sides whose process went away since the last time.
func (c *Core) died() []Side {
	out := c.deaths
	c.deaths = nil
	return out
}

// revive is the moment from which a process is back.
func (c *Core) revive(ch Change) {
	for _, w := range c.workers {
		if ch.hits(w.side) {
			w.count.Started = c.now
		}
	}
	if ch.hits(Front) {
		c.front.Started = c.now
	}
}
