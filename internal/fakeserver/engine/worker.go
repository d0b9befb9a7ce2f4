package engine

import (
	"math"
	"slices"
	"time"
)

// A worker is the scheduler of a side. It works in steps: at the start of one
// it fills free slots, gives each sequence its share, and at the end of it
// all shares are done at once.
type worker struct {
	side   Side
	places int // slots, in fair weather
	memory int // tokens, in fair weather
	mem    *pool

	waiting   []*Call
	retracted []*Call // put off for lack of memory or slots; they go first
	running   []*Call // in order of admission
	pinned    int     // slots taken by what was aborted
	reserved  int     // slots promised to transfers
	stuck     int     // requests that never leave the in-flight queue

	stepping bool
	stepEnd  time.Duration // never while the scheduler is halted in a step
	life     int           // counts restarts
	heard    time.Duration // when it last had something to show

	count  Counters
	gauges Gauges
}

func newWorker(side Side, slots, memory int) *worker {
	return &worker{side: side, places: slots, memory: memory, mem: newPool(memory), count: newCounters(0)}
}

// restart forgets all. What was running has been ended before.
func (w *worker) restart(now time.Duration) {
	w.mem = newPool(w.memory)
	w.pinned, w.reserved, w.stuck = 0, 0, 0
	w.stepping = false
	w.life++
	w.count = newCounters(now)
	w.gauges = Gauges{}
}

// slots returns how many slots a side has in this weather.
func (c *Core) slots(w *worker) int {
	if w != c.dec {
		return w.places
	}
	n := max(int(math.Round(float64(w.places)*c.weather.capacity)), 1)
	if s := c.weather.serial; s > 0 {
		n = min(n, s)
	}
	return n
}

// free returns how many slots are free; less than none if there are fewer
// now than are taken.
func (c *Core) free(w *worker) int {
	return c.slots(w) - len(w.running) - w.pinned - w.reserved
}

// halted reports whether a scheduler stands still.
func (c *Core) halted(w *worker) bool {
	return c.weather.wedged[w.side] || c.weather.silent || c.weather.down[w.side]
}

// admit fills free slots, in order: who cannot have what it needs keeps those
// behind it waiting.
func (c *Core) admit(w *worker) {
	for c.free(w) > 0 {
		from := &w.retracted
		if len(*from) == 0 {
			from = &w.waiting
		}
		if len(*from) == 0 || !c.seat(w, (*from)[0]) {
			return
		}
		*from = slices.Delete(*from, 0, 1)
	}
}

// seat gives a call a slot and memory for all it has so far.
func (c *Core) seat(w *worker, call *Call) bool {
	n, cached := w.mem.match(call.Prompt)
	all := call.prompt + call.made
	call.refs = w.mem.hold(call.Prompt, n, call.refs[:0])
	if !w.mem.reserve(all - cached) {
		w.mem.drop(call)
		return false
	}
	call.private = all - cached
	call.todo = max(all-cached, 1) // the last token has to be looked at in any case
	call.phase, call.w = running, w
	call.hung = c.weather.wedgeLong > 0 && call.prompt > c.weather.wedgeLong
	if !call.started {
		call.started, call.began, call.cached = true, c.now, cached
		w.count.Queued.Observe(seconds(c.now - call.arrived))
	}
	w.running = append(w.running, call)
	return true
}

// retract puts off the youngest sequence: what it has computed is lost.
func (c *Core) retract(w *worker) {
	last := len(w.running) - 1
	call := w.running[last]
	w.running[last] = nil
	w.running = w.running[:last]
	w.mem.drop(call)
	w.count.Retractions++
	if call.prompt+call.made >= w.mem.size {
		// It would never fit again.
		c.end(call, Length)
		return
	}
	call.phase = waiting
	call.chunk, call.decodes = 0, false
	w.retracted = append(w.retracted, call)
}

// leave takes a call off all lists and gives back what it holds.
func (c *Core) leave(call *Call) {
	w := call.w
	switch call.phase {
	case routed:
		c.line = without(c.line, call)
	case bootstrapping:
		c.bootstrap = without(c.bootstrap, call)
	case waiting:
		w.waiting = without(w.waiting, call)
		w.retracted = without(w.retracted, call)
	case running:
		w.running = without(w.running, call)
		w.mem.drop(call)
	case inflight:
		c.inflight = without(c.inflight, call)
		c.pre.mem.drop(call)
	case transferring:
		c.moving = without(c.moving, call)
		c.pre.mem.drop(call)
		c.dec.mem.release(call.prompt)
		c.dec.reserved--
	}
}

// without removes a call from a list in place, if it is there.
func without(list []*Call, call *Call) []*Call {
	if i := slices.Index(list, call); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func seconds(d time.Duration) float64 { return d.Seconds() }
