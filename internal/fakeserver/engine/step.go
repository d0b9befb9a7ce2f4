package engine

import (
	"time"
)

// startStep starts a step if none is under way and there is something to do.
func (c *Core) startStep(w *worker) {
	if w.stepping || c.halted(w) {
		return
	}
	// If all that ran had to be put off for lack of memory, there is room for
	// the first of those who wait.
	for off := -1; off != w.count.Retractions; {
		c.admit(w)
		off = w.count.Retractions
		n, context, prompt := c.compose(w)
		if n > 0 || prompt > 0 {
			w.stepping = true
			w.stepEnd = c.now + c.stepTime(w, n, context, prompt)
			return
		}
	}
}

// compose gives each sequence its share of the next step. It returns how many
// tokens of answers the step makes, over how much context, and how many
// tokens of prompts it computes.
func (c *Core) compose(w *worker) (n, context, prompt int) {
	budget := c.cfg.Cost.Chunk
	for i := 0; i < len(w.running); i++ {
		call := w.running[i]
		call.chunk, call.decodes = 0, false
		switch {
		case call.hung:
		case call.todo > 0:
			call.chunk = min(call.todo, budget)
			budget -= call.chunk
			prompt += call.chunk
		default:
			// One token's memory more. The youngest make room, at worst this one.
			for i < len(w.running) && !w.mem.reserve(1) {
				c.retract(w)
			}
			if i >= len(w.running) {
				return n, context, prompt
			}
			call.private++
			call.decodes = true
			n++
			context += call.prompt + call.made
		}
	}
	return n, context, prompt
}

// stepTime returns how long a step takes.
func (c *Core) stepTime(w *worker, n, context, prompt int) time.Duration {
	cost := &c.cfg.Cost
	batch, ctx, pf := float64(n), float64(context), float64(prompt)
	if w == c.dec {
		// Part of an engine takes as long over a part of the work as the whole
		// one over the whole.
		f := c.weather.capacity
		batch, ctx, pf = batch/f, ctx/f, pf/f
	}
	d := float64(cost.Step) +
		c.weather.batch*(float64(cost.PerSequence)*batch+float64(cost.PerPair)*batch*batch) +
		float64(cost.PerContext)*ctx + float64(cost.PerPrompt)*pf
	return max(scaled(time.Duration(d), c.slowness(c.now)), time.Microsecond)
}

// endStep books what a step has done. A scheduler that has been halted in it
// does not get there.
func (c *Core) endStep(w *worker) {
	if c.halted(w) {
		w.stepEnd = never
		return
	}
	w.stepping = false
	w.count.Steps++
	for i := 0; i < len(w.running); {
		call := w.running[i]
		switch {
		case call.chunk > 0:
			w.count.Computed += call.chunk
			call.todo -= call.chunk
			call.chunk = 0
			if call.todo == 0 {
				c.prefilled(w, call)
			}
		case call.decodes:
			call.decodes = false
			c.token(w, call)
		}
		// Whoever has ended or moved on is no longer there.
		if i < len(w.running) && w.running[i] == call {
			i++
		}
	}
}

// prefilled is the end of a prompt.
func (c *Core) prefilled(w *worker, call *Call) {
	w.mem.keep(call)
	w.heard = c.now
	if !call.counted {
		call.counted = true
		w.count.PromptTokens += call.prompt
		w.count.CachedTokens += call.cached
		w.count.Prefilled.Observe(seconds(c.now - call.began))
	}
	if w == c.dec || call.Probe != "" {
		c.token(w, call)
		return
	}
	w.running = without(w.running, call)
	call.phase = inflight
	c.inflight = append(c.inflight, call)
	c.limitWait(call)
}

// token books a token of an answer, which may be its last.
func (c *Core) token(w *worker, call *Call) {
	call.made++
	w.count.GenerationTokens++
	w.heard = c.now
	c.emit(Output{Call: call, Tokens: 1})
	if call.made == 1 {
		call.first = c.now
		w.count.FirstToken.Observe(seconds(c.now - call.arrived))
	} else {
		w.count.BetweenTokens.Observe(seconds(c.now - call.last))
	}
	call.last = c.now
	if call.made >= call.want {
		c.end(call, call.reason)
	}
}
