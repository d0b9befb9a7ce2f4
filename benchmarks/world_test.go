package benchmarks

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// A guard stands between agents and an engine: one for all of them.
type guard interface {
	// Enter waits until a try of an agent may start.
	Enter(ctx context.Context, agent int) (trip, error)

	// Again says whether and when a call is tried again that has been tried so
	// often and ended like this.
	Again(agent, tries int, o engine.Outcome) (wait time.Duration, again bool)
}

// A trip hears how a try goes. First and Output come from one goroutine, Leave
// comes last.
type trip interface {
	First(after time.Duration)
	Output(pieces int)
	Leave(o engine.Outcome)
}

// A heeder is a trip that looks at rate headers.
type heeder interface{ Heed(r *engine.Rates) }

// load is agents that make calls one after the other.
type load struct {
	agents  int           // zero means 64
	calls   int           // of each; zero means until the end
	timeout time.Duration // for a whole answer; zero means 5 s
	until   time.Duration // zero means engine.SettingTime
	rest    time.Duration // after a call that came to nothing; zero means 1 s
	prompt  int           // zero means 200 tokens
	grow    int           // tokens that each call of a conversation of 20 adds
	faults  float64       // the part of tries that comes to nothing, whatever the load
	kinds   []fault       // nil means allFaults
	seed    uint64
}

// A fault happens on the way to the engine, and back.
type fault int

const (
	hung    fault = iota // it never gets there
	stalled              // no more comes after some output
	reset                // likewise, and the connection breaks
	broken               // a 500
	busy                 // a 503
)

var allFaults = []fault{hung, stalled, reset, broken, busy}

// score is what came of a load.
type score struct {
	calls, useful, tries int
	refused              int
	record               engine.Record
	agents               []int     // useful answers of each
	waits                []float64 // seconds until admission, on average, of each
	half                 []int     // useful answers of each by half time
	sent                 []int     // tries in each second
	took                 time.Duration
}

// goodput is useful answers a second from a moment to another.
func (s score) goodput(from, to time.Duration) float64 {
	n := 0
	for i, b := range s.record.Bins {
		if at := time.Duration(i) * s.record.Bin; at >= from && at < to {
			n += b.Useful
		}
	}
	return float64(n) / (to - from).Seconds()
}

// sentIn is how many tries were sent from a moment to another.
func (s score) sentIn(from, to time.Duration) (n int) {
	for i, k := range s.sent {
		if at := time.Duration(i) * time.Second; at >= from && at < to {
			n += k
		}
	}
	return n
}

// world is an engine that goroutines share.
type world struct {
	load
	start time.Time
	poke  chan struct{}

	mu   sync.Mutex
	core *engine.Core
	out  score
}

// ride is a try on its way.
type ride struct {
	world   *world
	agent   int
	entered time.Duration
	trip    trip
	end     chan engine.Outcome
	fault   fault
	after   int // pieces until the fault; zero: there is none

	mu     sync.Mutex
	over   bool
	first  time.Duration
	pieces int
}

// play plays a load through a guard on a fresh engine, in a bubble of its own.
// The guard is made in the bubble.
func play(t *testing.T, cfg engine.Config, l load, make func() guard) (out score) {
	t.Helper()
	if l.agents == 0 {
		l.agents = 64
	}
	if l.timeout == 0 {
		l.timeout = 5 * time.Second
	}
	if l.until == 0 {
		l.until = engine.SettingTime
	}
	if l.rest == 0 {
		l.rest = time.Second
	}
	if l.prompt == 0 {
		l.prompt = 200
	}
	synctest.Test(t, func(t *testing.T) {
		core, err := engine.NewCore(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{load: l, core: core, start: time.Now(), poke: newPoke()}
		w.out.agents, w.out.half = newInts(l.agents), newInts(l.agents)
		w.out.waits = newFloats(l.agents)
		w.out.sent = newInts(int(l.until/time.Second) + 1)
		g := make()
		ctx, cancel := context.WithTimeout(t.Context(), l.until)
		defer cancel()
		var agents, driver sync.WaitGroup
		stop, halt := context.WithCancel(context.Background())
		driver.Go(func() { w.drive(stop) })
		for i := range l.agents {
			agents.Go(func() { w.agent(ctx, i, g) })
		}
		agents.Wait()
		w.out.took = time.Since(w.start)
		halt()
		driver.Wait()
		w.out.record = core.Record()
		out = w.out
	})
	return out
}

func newPoke() chan struct{}    { return make(chan struct{}, 1) }
func newInts(n int) []int       { return make([]int, n) }
func newFloats(n int) []float64 { return make([]float64, n) }

// drive lets the engine do what is due.
func (w *world) drive(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.mu.Lock()
		outs := w.core.Advance(time.Since(w.start))
		next, due := w.core.Next()
		w.mu.Unlock()
		for _, o := range outs {
			o.Call.Tag.(*ride).hear(o)
		}
		if due {
			timer.Reset(next - time.Since(w.start))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case <-timer.C:
		case <-w.poke:
		case <-ctx.Done():
			return
		}
	}
}

// agent makes calls until there are enough, or time is up.
func (w *world) agent(ctx context.Context, me int, g guard) {
	waits := 0
	for call := 1; (w.calls == 0 || call <= w.calls) && ctx.Err() == nil; call++ {
		w.count(func(s *score) { s.calls++ })
		for tries := 1; ; tries++ {
			asked := time.Now()
			tr, err := g.Enter(ctx, me)
			if ctx.Err() != nil {
				if err == nil {
					tr.Leave(engine.Outcome{Result: engine.Broken})
				}
				return
			}
			o := engine.Outcome{Result: engine.Refused, At: time.Since(w.start)}
			if err == nil {
				waits++
				waited := time.Since(asked).Seconds()
				w.count(func(s *score) { s.waits[me] += (waited - s.waits[me]) / float64(waits) })
				o = w.try(ctx, me, call, tries, tr)
			}
			if o.Result.Useful() {
				w.count(func(s *score) {
					s.useful++
					s.agents[me]++
					if o.At < w.until/2 {
						s.half[me]++
					}
				})
				break
			}
			wait, again := g.Again(me, tries, o)
			if !again {
				wait = w.rest
			}
			if !sleep(ctx, wait) {
				return
			}
			if !again {
				break
			}
		}
	}
}

func (w *world) count(f func(s *score)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.out)
}

// try sends one request and waits for its end, or runs out of patience.
func (w *world) try(ctx context.Context, me, call, tries int, tr trip) engine.Outcome {
	r := &ride{world: w, agent: me, trip: tr, end: make(chan engine.Outcome, 1)}
	w.mu.Lock()
	r.entered = time.Since(w.start)
	req := w.request(me, call)
	req.Key += uint64(tries - 1) // a model asked twice does not answer the same
	lost := r.deal(req.Key)
	var c *engine.Call
	if !lost {
		c = w.core.Submit(r.entered, req)
		c.Tag = r
	}
	w.out.tries++
	w.out.sent[min(int(r.entered/time.Second), len(w.out.sent)-1)]++
	w.mu.Unlock()
	abort := func() {
		if c != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.core.Abort(time.Since(w.start), c)
		}
	}
	if lost && r.fault != hung {
		time.AfterFunc(networkTime, func() { r.finish(r.fault.result()) })
	}
	select {
	case w.poke <- struct{}{}:
	default:
	}
	patience := time.NewTimer(w.timeout)
	defer patience.Stop()
	var o engine.Outcome
	select {
	case o = <-r.end:
		if r.after > 0 {
			abort()
		}
	case <-patience.C:
		abort()
		o = r.leave(engine.Left)
	case <-ctx.Done():
		abort()
		o = r.leave(engine.Left)
	}
	switch o.Result {
	case engine.Refused, engine.Unready:
		o.RetryAfter = w.core.Config().RetryAfter
		w.count(func(s *score) { s.refused++ })
	case engine.Limited:
		if rates := c.Rates(); rates != nil { // never of a fault
			o.RetryAfter = rates.RetryAfter
		}
		w.count(func(s *score) { s.refused++ })
	}
	tr.Leave(o)
	return o
}

const rounds = 20

func (w *world) request(me, call int) engine.Request {
	key := func(call int) uint64 {
		return rand.New(rand.NewPCG(w.seed, uint64(me)<<32|uint64(call))).Uint64()
	}
	r := engine.Request{Agent: strconv.Itoa(me), Key: key(call), Stream: true}
	first := call
	if w.grow > 0 {
		first -= (call - 1) % rounds
	}
	r.Prompt = append(r.Prompt, engine.Segment{Key: key(first), Tokens: w.prompt})
	for c := first + 1; c <= call; c++ {
		r.Prompt = append(r.Prompt, engine.Segment{Key: key(c), Tokens: w.grow})
	}
	return r
}

// hear hears of output, and of the end.
func (r *ride) hear(o engine.Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if h, ok := r.trip.(heeder); ok && o.Taken && o.Call.Rates() != nil {
		h.Heed(o.Call.Rates())
	}
	if r.after > 0 && r.pieces+o.Tokens >= r.after {
		if r.fault == reset {
			r.over = true
			r.end <- r.outcome(o.At, engine.Broken)
		}
		return // and of what is stalled nothing more is heard
	}
	if o.Tokens > 0 {
		r.pieces += o.Tokens
		if r.first == 0 {
			r.first = o.At - r.entered
			r.trip.First(r.first)
		} else {
			r.trip.Output(r.pieces)
		}
	}
	if o.End != "" {
		r.over = true
		r.end <- r.outcome(o.At, o.End)
	}
}

// networkTime is how long it takes to be told of a fault.
const networkTime = 20 * time.Millisecond

// deal deals a fault or none, and reports whether the engine will never hear of
// the request.
func (r *ride) deal(key uint64) (lost bool) {
	w := r.world
	if w.faults == 0 {
		return false
	}
	luck := rand.New(rand.NewPCG(w.seed+1, key))
	if luck.Float64() >= w.faults {
		return false
	}
	kinds := w.kinds
	if kinds == nil {
		kinds = allFaults
	}
	r.fault = kinds[luck.IntN(len(kinds))]
	if r.fault == stalled || r.fault == reset && luck.IntN(3) > 0 {
		r.after = 2 + luck.IntN(40)
		return false
	}
	return true
}

func (f fault) result() engine.Result {
	if f == busy {
		return engine.Refused
	}
	return engine.Broken
}

// finish ends it with a fault.
func (r *ride) finish(how engine.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.over = true
		r.end <- r.outcome(time.Since(r.world.start), how)
	}
}

// leave ends it from our side.
func (r *ride) leave(how engine.Result) engine.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over { // the end has come in the same moment
		return <-r.end
	}
	r.over = true
	return r.outcome(time.Since(r.world.start), how)
}

func (r *ride) outcome(at time.Duration, how engine.Result) engine.Outcome {
	return engine.Outcome{Result: how, At: at, First: r.first, Duration: at - r.entered, Tokens: r.pieces}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
