package engine

import (
	"slices"
	"time"
)

// Counters are what a side has done since it started. They only grow, and
// start again with the process.
type Counters struct {
	Started time.Duration // of the process, since the start of the engine

	Steps            int
	Requests         int
	Refused          int
	Aborted          int
	Retractions      int
	PromptTokens     int
	CachedTokens     int // of those, found in the cache
	Computed         int // of prompts; more than once if it had to be
	GenerationTokens int
	Transfers        int // begun
	TransferFailed   int
	BootstrapFailed  int
	Finished         map[Result]int

	FirstToken, BetweenTokens, EndToEnd Histogram // seconds
	Queued, Prefilled, Decoded          Histogram // seconds
	Moved                               Histogram // milliseconds, of transfers
}

// Gauges are how a side stands. They are as the scheduler has last seen them.
type Gauges struct {
	Running, Queue, Retracted   int
	Bootstrap, Inflight         int // prefill side
	Preallocating, Transferring int // decode side: waiting for a place, and in transfer
	Used, Memory                int // tokens
	Pinned                      int // slots; no server tells this
	Throughput                  float64

	at        time.Duration
	generated int
}

// FrontStats are what the front door has seen.
type FrontStats struct {
	Started  time.Duration
	Requests int
	Lost     int
	Waiting  int // in the router
	Active   int // under way with the engine
	Ends     map[Result]int
}

// Stats are a side's counters and gauges.
type Stats struct {
	Counters
	Gauges
}

// Stats returns how a side stands, as it would tell itself.
func (c *Core) Stats(side Side) Stats {
	w := c.worker(side)
	s := Stats{w.count, w.gauges}
	s.Finished = clone(w.count.Finished)
	for _, h := range []*Histogram{
		&s.FirstToken, &s.BetweenTokens, &s.EndToEnd, &s.Queued, &s.Prefilled, &s.Decoded, &s.Moved,
	} {
		h.Counts = slices.Clone(h.Counts)
	}
	return s
}

// Front returns what the front door has seen.
func (c *Core) Front() FrontStats {
	f := c.front
	f.Waiting, f.Active = len(c.line), c.dispatched
	f.Ends = clone(f.Ends)
	return f
}

func clone[K comparable](m map[K]int) map[K]int {
	out := make(map[K]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// publish renews a side's gauges, unless its scheduler stands still.
func (c *Core) publish(w *worker) {
	if c.halted(w) {
		return
	}
	idle := !w.stepping
	age := c.now - w.gauges.at
	if !idle && age < c.cfg.GaugeEvery {
		return
	}
	g := Gauges{
		Running: len(w.running), Queue: len(w.waiting), Retracted: len(w.retracted), Pinned: w.pinned,
		Used: w.mem.used(), Memory: w.mem.size,
		Throughput: w.gauges.Throughput, at: c.now, generated: w.count.GenerationTokens,
	}
	if c.cfg.Split != nil {
		switch w {
		case c.pre:
			g.Bootstrap, g.Inflight = len(c.bootstrap), len(c.inflight)+len(c.moving)+w.stuck
		case c.dec:
			g.Preallocating, g.Transferring = len(c.inflight), len(c.moving)
		}
	}
	switch made := g.generated - w.gauges.generated; {
	case idle && len(w.running) == 0:
		g.Throughput = 0
	case age > 0:
		g.Throughput = float64(made) / age.Seconds()
	default:
		g.at, g.generated = w.gauges.at, w.gauges.generated
	}
	w.gauges = g
}

// A Histogram counts values by size.
type Histogram struct {
	Bounds []float64 // upper, inclusive; one more bucket is above the last
	Counts []uint64  // by bucket, not summed up
	Sum    float64
	Count  uint64
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	i := 0
	for i < len(h.Bounds) && v > h.Bounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += v
	h.Count++
}

var (
	longBounds = []float64{
		0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400,
	}
	shortBounds = []float64{
		0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08,
		0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8,
	}
	moveBounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 60000, 300000}
)

func newCounters(now time.Duration) Counters {
	return Counters{
		Started:    now,
		Finished:   make(map[Result]int),
		FirstToken: newHistogram(longBounds), BetweenTokens: newHistogram(shortBounds),
		EndToEnd: newHistogram(longBounds), Queued: newHistogram(longBounds),
		Prefilled: newHistogram(longBounds), Decoded: newHistogram(longBounds), Moved: newHistogram(moveBounds),
	}
}
