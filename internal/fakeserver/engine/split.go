package engine

// limitWait bounds the wait of a handshake or for a transfer.
func (c *Core) limitWait(call *Call) {
	call.tries++
	c.later(c.cfg.Split.Timeout, timedOut, call)
}

// startTransfers gives finished prompts a place on the decode side, in order,
// and starts to move them there.
func (c *Core) startTransfers() {
	s := c.cfg.Split
	if s == nil || c.weather.silent || c.weather.down[Decode] || c.weather.down[Prefill] {
		return
	}
	for len(c.inflight) > 0 && len(c.moving) < s.Transfers && c.free(c.dec) > 0 {
		call := c.inflight[0]
		if !c.dec.mem.reserve(call.prompt) {
			return
		}
		c.dec.reserved++
		c.inflight = without(c.inflight, call)
		c.moving = append(c.moving, call)
		call.phase, call.w, call.sent = transferring, c.dec, c.now
		c.limitWait(call)
		c.later(s.Base+scaled(s.PerToken, float64(call.prompt)), transferred, call)
		c.pre.count.Transfers++
	}
}

// endTransfer is the end of a transfer, unless it is wedged.
func (c *Core) endTransfer(call *Call) {
	switch {
	case c.weather.wedgeTransfer || c.weather.silent:
		call.hung = true
		return
	case c.weather.failTransfer > 0 && c.fate(call, "transfer") < c.weather.failTransfer:
		c.failed(call)
		return
	}
	c.moving = without(c.moving, call)
	c.pre.mem.drop(call)
	c.dec.reserved--
	c.dec.count.Moved.Observe(1000 * seconds(c.now-call.sent))
	call.private = call.prompt // reserved when the transfer began
	call.phase = running
	call.todo = 0
	call.tries++
	call.hung = c.weather.wedgeLong > 0 && call.prompt > c.weather.wedgeLong
	c.dec.count.Requests++
	c.dec.running = append(c.dec.running, call)
}

// giveUp ends a wait that has taken too long.
func (c *Core) giveUp(call *Call) {
	switch call.phase {
	case bootstrapping:
		c.pre.count.BootstrapFailed++
		c.dec.count.BootstrapFailed++
		c.end(call, Failed)
	case inflight, transferring:
		c.failed(call)
	}
}

func (c *Core) failed(call *Call) {
	c.pre.count.TransferFailed++
	c.dec.count.TransferFailed++
	c.end(call, Failed)
}
