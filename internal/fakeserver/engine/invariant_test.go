package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestNothingIsLostOrOverdrawn plays random demands on random engines in
// random weather, and looks at the books after each moment. It needs the
// private ones: that is what it is about.
func TestNothingIsLostOrOverdrawn(t *testing.T) {
	for seed := range uint64(100) {
		if err := playRandom(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomConfig(r *rand.Rand) Config {
	cfg := Config{
		Seed: r.Uint64(), Slots: 1 + r.IntN(6), Queue: 1 + r.IntN(6), KVTokens: 30 + r.IntN(400), Context: 20 + r.IntN(200),
		Answers: Lengths{Mean: 1 + r.IntN(30)},
		Cost:    Cost{Chunk: 1 + r.IntN(60), PerPrompt: time.Millisecond},
		Abort:   Abort{Stream: time.Duration(r.IntN(2000)-1) * time.Millisecond, Plain: time.Second, Pin: time.Duration(r.IntN(3)) * time.Second},
	}
	if r.IntN(5) == 0 {
		cfg.Queue = -1
	}
	if r.IntN(3) == 0 {
		cfg.Limits = Limits{Requests: r.IntN(200), Tokens: r.IntN(5000), Refund: r.IntN(2) == 0}
	}
	if r.IntN(2) == 0 {
		cfg.Split = &Split{
			Slots: 1 + r.IntN(4), KVTokens: 30 + r.IntN(300), Transfers: 1 + r.IntN(3),
			Base: time.Duration(r.IntN(300)) * time.Millisecond, Timeout: 10 * time.Second,
		}
	}
	if r.IntN(2) == 0 {
		cfg.Router = &Router{InFlight: 1 + r.IntN(10), Queue: 1 + r.IntN(5)}
	}
	kinds := sorted(needs)
	for range r.IntN(5) {
		ch := Change{Kind: kinds[r.IntN(len(kinds))], At: time.Duration(r.IntN(30)) * time.Second, N: 1 + r.IntN(50)}
		ch.Until = ch.At + time.Duration(1+r.IntN(10000))*time.Millisecond
		ch.Factor = 0.1 + 0.9*r.Float64()
		if cfg.Split != nil {
			ch.Side = []Side{"", Prefill, Decode, Front}[r.IntN(4)]
		} else if needs[ch.Kind].split {
			continue
		}
		cfg.Changes = append(cfg.Changes, ch)
	}
	return cfg
}

// tallies are what a client has seen.
type tallies struct {
	calls []*Call
	ends  map[*Call]Result
	made  map[*Call]int
	left  map[*Call]bool
}

func playRandom(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 4))
	cfg := randomConfig(r)
	c, err := NewCore(cfg)
	if err != nil {
		return err
	}
	seen := tallies{ends: map[*Call]Result{}, made: map[*Call]int{}, left: map[*Call]bool{}}
	hear := func(now time.Duration) error {
		for _, o := range c.Advance(now) {
			if seen.left[o.Call] {
				return fmt.Errorf("%v: a client that had left heard of %+v", now, o)
			}
			if how, over := seen.ends[o.Call]; over {
				return fmt.Errorf("%v: ended as %s, then came %+v", now, how, o)
			}
			seen.made[o.Call] += o.Tokens
			if o.End != "" {
				seen.ends[o.Call] = o.End
			}
		}
		return c.audit()
	}
	for now := time.Duration(0); now < 40*time.Second; now += time.Duration(r.IntN(400)) * time.Millisecond {
		for {
			at, ok := c.Next()
			if !ok || at > now {
				break
			}
			if err := hear(at); err != nil {
				return err
			}
		}
		if len(seen.calls) > 0 && r.IntN(4) == 0 {
			call := seen.calls[r.IntN(len(seen.calls))]
			c.Abort(now, call)
			seen.left[call] = true
			continue
		}
		req := Request{Agent: fmt.Sprint(r.IntN(4)), Key: r.Uint64() % 50, Stream: r.IntN(2) == 0}
		for i := range 1 + r.IntN(4) {
			req.Prompt = append(req.Prompt, Segment{Key: mix(req.Key%7) + uint64(i), Tokens: 1 + int(req.Key%7)*5})
		}
		if r.IntN(2) == 0 {
			req.MaxTokens = 1 + r.IntN(60)
		}
		seen.calls = append(seen.calls, c.Submit(now, req))
	}
	// All weather is over; who still waits was forgotten, and leaves.
	for _, call := range seen.calls {
		if call.phase == lost || call.hung {
			c.Abort(c.now, call)
			seen.left[call] = true
		}
	}
	for steps := 0; ; steps++ {
		at, ok := c.Next()
		if !ok && c.pre.stuck > 0 && c.live > 0 {
			// Memory that never comes back can leave those who wait without.
			for _, call := range seen.calls {
				c.Abort(c.now, call)
				seen.left[call] = true
			}
			at, ok = c.Next()
		}
		if !ok {
			break
		}
		if steps > 1_000_000 {
			return fmt.Errorf("it does not come to rest: %d live", c.live)
		}
		if err := hear(at); err != nil {
			return err
		}
		for _, call := range seen.calls {
			if call.hung && !call.left {
				c.Abort(c.now, call)
				seen.left[call] = true
			}
		}
	}
	return seen.settle(c)
}

// audit compares what a core holds with what its calls hold.
func (c *Core) audit() error {
	for _, w := range c.workers {
		if n := len(w.running) + w.reserved; n > w.places {
			return fmt.Errorf("%v: %s has %d of %d slots taken", c.now, w.side, n, w.places)
		}
		waits := 0
		for _, call := range w.waiting {
			if call.Probe == "" {
				waits++
			}
		}
		bound := c.cfg.Queue
		if c.cfg.Split != nil {
			bound = c.cfg.Split.Queue
		}
		if w == c.pre {
			waits += len(c.bootstrap)
		}
		if bound >= 0 && waits > bound+w.places {
			return fmt.Errorf("%v: %d wait in a queue of %d and %d slots", c.now, waits, bound, w.places)
		}
		m := w.mem
		if m.private < 0 || m.pinned < 0 || m.idle < 0 || m.used()+m.idle > w.memory {
			return fmt.Errorf("%v: %s has %d own, %d shared, %d idle of %d tokens", c.now, w.side, m.private, m.pinned, m.idle, w.memory)
		}
		private, reserved := 0, 0
		for _, call := range w.running {
			private += call.private
			if call.phase != running || call.w != w {
				return fmt.Errorf("%v: a call of phase %d runs", c.now, call.phase)
			}
		}
		if c.cfg.Split != nil {
			for _, call := range c.moving {
				reserved++
				if w == c.dec {
					private += call.prompt
				} else {
					private += call.private
				}
			}
			if w == c.pre {
				for _, call := range c.inflight {
					private += call.private
				}
			}
		}
		stuck := 0
		if w.stuck > 0 {
			stuck = m.private - private // what they held is not on any call
		}
		if m.private != private+stuck || stuck < 0 || w == c.dec && w.reserved != reserved {
			return fmt.Errorf("%v: %s books %d tokens and %d places, its calls hold %d and %d", c.now, w.side, m.private, w.reserved, private, reserved)
		}
		pinned, idle, ring := 0, 0, 0
		for _, e := range m.entries {
			if e.users > 0 {
				pinned += e.tokens
			} else {
				idle += e.tokens
			}
		}
		for e := m.lru.next; e != &m.lru; e = e.next {
			ring += e.tokens
		}
		if pinned != m.pinned || idle != m.idle || ring != idle {
			return fmt.Errorf("%v: %s books %d and %d cached tokens, has %d and %d, %d in the ring", c.now, w.side, m.pinned, m.idle, pinned, idle, ring)
		}
		if w.pinned < 0 || w.reserved < 0 {
			return fmt.Errorf("%v: %s has %d pinned, %d reserved slots", c.now, w.side, w.pinned, w.reserved)
		}
	}
	if r := c.cfg.Router; r != nil && (c.dispatched < 0 || len(c.line) > r.Queue) {
		return fmt.Errorf("%v: the router has %d in line of %d, %d under way", c.now, len(c.line), r.Queue, c.dispatched)
	}
	return nil
}

// settle checks the end: every request ended in exactly one way, and every
// token is on the books once.
func (s *tallies) settle(c *Core) error {
	if c.live != 0 || c.dispatched != 0 {
		return fmt.Errorf("%d live and %d under way when nothing is due", c.live, c.dispatched)
	}
	useful, tokens := 0, 0
	for _, call := range s.calls {
		how, heard := s.ends[call]
		if !heard && !s.left[call] {
			return fmt.Errorf("a request never ended: %+v", call)
		}
		if heard && how.Useful() {
			useful++
			tokens += call.made
		}
		if heard && (s.made[call] != call.made || how == Stopped && call.made != call.want || call.made > call.want) {
			return fmt.Errorf("%d tokens made, %d heard, %d wanted", call.made, s.made[call], call.want)
		}
	}
	all := c.record.Total
	if all.Useful != useful || all.UsefulTokens != tokens || all.Ended() != len(s.calls) {
		return fmt.Errorf("the record says %+v of %d, clients saw %d useful with %d tokens", all, len(s.calls), useful, tokens)
	}
	var sum Tally
	for _, b := range c.record.Bins {
		sum.Useful += b.Useful
		sum.Refused += b.Refused
		sum.Limited += b.Limited
		sum.Broken += b.Broken
		sum.Left += b.Left
		sum.UsefulTokens += b.UsefulTokens
		sum.WastedTokens += b.WastedTokens
	}
	if sum != all {
		return fmt.Errorf("the bins say %+v, the total %+v", sum, all)
	}
	for _, w := range c.workers {
		if w.reserved != 0 || w.pinned != 0 || w.mem.pinned != 0 || w.stuck == 0 && w.mem.private != 0 {
			return fmt.Errorf("%s at rest has %d reserved, %d pinned slots, %d own and %d shared tokens", w.side, w.reserved, w.pinned, w.mem.private, w.mem.pinned)
		}
	}
	return nil
}

// A run can be repeated to the last token.
func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(20) {
		run := func() string {
			cfg := randomConfig(rand.New(rand.NewPCG(seed, 4)))
			s, err := Play(cfg, Load{Agents: 10, Calls: 10, Prompt: 10, Seed: seed, Until: 5 * time.Minute}, Fixed(0))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(s)
		}
		if one, two := run(), run(); one != two {
			t.Errorf("seed %d: %s, then %s", seed, one, two)
		}
	}
}
