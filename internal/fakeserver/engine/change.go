package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// A Kind is a kind of change.
type Kind string

// What can happen to an engine. N and Factor mean what the kind says, and
// nothing elsewhere.
const (
	// BatchCost multiplies what each further sequence costs by Factor.
	BatchCost Kind = "batch-cost"
	// Slow multiplies the time of each step by Factor.
	Slow Kind = "slow"
	// Degrade slows steps down little by little, from 1 at At to Factor at
	// Until, and leaves it at that.
	Degrade Kind = "degrade"
	// Capacity leaves Factor of the engine: of its slots, each as fast as it
	// would be in a full one. What runs beyond that is put off.
	Capacity Kind = "capacity"
	// Serial decodes at most N answers at a time.
	Serial Kind = "serial"
	// Memory leaves Factor of the memory for keys and values.
	Memory Kind = "memory"

	// Down ends the process of a side at At, with all that it was doing. It
	// is back, empty, at Until; meanwhile connections are refused.
	Down Kind = "down"
	// Silent takes requests and never answers them; what was under way before
	// stands still until it is over.
	Silent Kind = "silent"
	// Unavailable answers new requests with 503.
	Unavailable Kind = "unavailable"
	// Lose takes Factor of the requests and forgets them. Each is decided on
	// anew: one that is sent again may get through.
	Lose Kind = "lose"
	// OutOfQuota answers new requests with the 429 of a used up account.
	OutOfQuota Kind = "out-of-quota"

	// Wedge stops the scheduler of a side: running stays, counters are flat.
	Wedge Kind = "wedge"
	// WedgeLong never answers prompts of more than N tokens: they hold their
	// slot and get no further.
	WedgeLong Kind = "wedge-long"
	// RunawayLong answers prompts of more than N tokens without end.
	RunawayLong Kind = "runaway-long"
	// Runaway answers Factor of the requests without end. It goes by their
	// content: the same one sent again gets the same.
	Runaway Kind = "runaway"

	// WedgeTransfer lets transfers wait that should begin or end; they fail
	// when their time runs out.
	WedgeTransfer Kind = "wedge-transfer"
	// FailTransfer fails Factor of the transfers, each decided on anew.
	FailTransfer Kind = "fail-transfer"
	// WedgeBootstrap lets no handshake between the two sides succeed.
	WedgeBootstrap Kind = "wedge-bootstrap"
	// StickAborts keeps what was aborted during a transfer in flight on the
	// prefill side until that restarts.
	StickAborts Kind = "stick-aborts"
	// NoMetrics answers 404 to requests for metrics.
	NoMetrics Kind = "no-metrics"
)

// A Side is a service of an engine.
type Side string

// The services. A unified engine is the decode side, and all there is.
const (
	Prefill Side = "prefill"
	Decode  Side = "decode"
	Front   Side = "router" // the router, or the front end of a unified engine
)

// A Change is something that happens to an engine: from At until, but not
// including, Until. An Until of zero means for ever.
type Change struct {
	Kind      Kind
	At, Until time.Duration
	Factor    float64
	N         int

	// Side is whom Down and Wedge concern. Empty means all.
	Side Side
}

// needs says what a kind needs beside its times: the bounds of Factor, or N.
var needs = map[Kind]struct {
	least, most float64
	n           bool
	split       bool
}{
	BatchCost: {least: 0, most: 1000}, Slow: {least: 0.001, most: 1000}, Degrade: {least: 0.001, most: 1000},
	Capacity: {least: 0.001, most: 1}, Serial: {n: true}, Memory: {least: 0.001, most: 1},
	Down: {}, Silent: {}, Unavailable: {}, Lose: {least: 0, most: 1}, OutOfQuota: {},
	Wedge: {}, WedgeLong: {n: true}, RunawayLong: {n: true}, Runaway: {least: 0, most: 1},
	WedgeTransfer: {split: true}, FailTransfer: {least: 0, most: 1, split: true},
	WedgeBootstrap: {split: true}, StickAborts: {split: true}, NoMetrics: {},
}

// check returns what is wrong with a change, naming the field.
func (ch Change) check(split bool) (bad string) {
	need, known := needs[ch.Kind]
	switch {
	case !known:
		return fmt.Sprintf("Kind is %q, want one of %v", ch.Kind, sorted(needs))
	case ch.At < 0:
		return fmt.Sprintf("At is %v, want 0 or more", ch.At)
	case ch.Until != 0 && ch.Until <= ch.At:
		return fmt.Sprintf("Until is %v, want more than At of %v", ch.Until, ch.At)
	case ch.Kind == Degrade && ch.Until == 0:
		return fmt.Sprintf("Until is 0, want the end of %s", ch.Kind)
	case need.n && ch.N < 1:
		return fmt.Sprintf("N is %d, want 1 or more for %s", ch.N, ch.Kind)
	case need.most > 0 && !(ch.Factor >= need.least && ch.Factor <= need.most):
		return fmt.Sprintf("Factor is %v, want %v to %v for %s", ch.Factor, need.least, need.most, ch.Kind)
	case need.split && !split:
		return fmt.Sprintf("%s needs Split", ch.Kind)
	case ch.Side != "" && ch.Side != Decode && ch.Side != Front && (ch.Side != Prefill || !split):
		return fmt.Sprintf("Side is %q, which this engine has not", ch.Side)
	}
	return ""
}

func (ch Change) on(now time.Duration) bool {
	return now >= ch.At && (ch.Until == 0 || now < ch.Until)
}

func (ch Change) hits(s Side) bool { return ch.Side == "" || ch.Side == s }

// weather is what all changes together amount to at a moment. It changes at
// their ends only, except for the slowing down, which is asked for each step.
type weather struct {
	batch, slow, capacity, memory float64
	serial                        int

	silent, unavailable, outOfQuota, noMetrics bool
	down, wedged                               map[Side]bool
	lose, runaway                              float64
	wedgeLong, runawayLong                     int // 0: none

	wedgeTransfer, wedgeBootstrap, stickAborts bool
	failTransfer                               float64
}

func weatherAt(changes []Change, now time.Duration) weather {
	w := weather{batch: 1, slow: 1, capacity: 1, memory: 1, down: map[Side]bool{}, wedged: map[Side]bool{}}
	shorter := func(to *int, n int) {
		if *to == 0 || n < *to {
			*to = n
		}
	}
	for _, ch := range changes {
		if !ch.on(now) {
			continue
		}
		switch ch.Kind {
		case BatchCost:
			w.batch *= ch.Factor
		case Slow:
			w.slow *= ch.Factor
		case Capacity:
			w.capacity *= ch.Factor
		case Serial:
			shorter(&w.serial, ch.N)
		case Memory:
			w.memory *= ch.Factor
		case Down:
			w.mark(w.down, ch)
		case Silent:
			w.silent = true
		case Unavailable:
			w.unavailable = true
		case Lose:
			w.lose = max(w.lose, ch.Factor)
		case OutOfQuota:
			w.outOfQuota = true
		case Wedge:
			w.mark(w.wedged, ch)
		case WedgeLong:
			shorter(&w.wedgeLong, ch.N)
		case RunawayLong:
			shorter(&w.runawayLong, ch.N)
		case Runaway:
			w.runaway = max(w.runaway, ch.Factor)
		case WedgeTransfer:
			w.wedgeTransfer = true
		case FailTransfer:
			w.failTransfer = max(w.failTransfer, ch.Factor)
		case WedgeBootstrap:
			w.wedgeBootstrap = true
		case StickAborts:
			w.stickAborts = true
		case NoMetrics:
			w.noMetrics = true
		}
	}
	return w
}

func (w *weather) mark(in map[Side]bool, ch Change) {
	for _, s := range []Side{Prefill, Decode, Front} {
		if ch.hits(s) {
			in[s] = true
		}
	}
}

// slowness returns by how much steps that begin now are slowed down.
func (c *Core) slowness(now time.Duration) float64 {
	f := c.weather.slow
	for _, ch := range c.degrades {
		if now >= ch.At {
			part := min(float64(now-ch.At)/float64(ch.Until-ch.At), 1)
			f *= 1 + (ch.Factor-1)*part
		}
	}
	return f
}

func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// scaled multiplies a duration, at most to what one can hold.
func scaled(d time.Duration, f float64) time.Duration {
	return time.Duration(min(float64(d)*f, math.MaxInt64/4))
}
