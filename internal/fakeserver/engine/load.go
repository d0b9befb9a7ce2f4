package engine

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A Load is agents that each make calls one after the other, played on a
// [Core] without a network: millions of tokens a second of real time, so that
// a policy of admission can be measured in many settings.
type Load struct {
	Agents int // zero means 64
	Calls  int // of each agent; zero means 20, negative means until the end

	// Timeout is how long a client waits for a whole answer, from admission.
	// Zero means 5 s, negative means for ever.
	Timeout time.Duration

	// Think is the time between two calls of an agent. Zero means none.
	Think time.Duration

	// Prompt is the tokens of a prompt, all its own. Zero means 200.
	Prompt int

	// Grow makes conversations of an agent's calls: each sends the prompt
	// before it and as many tokens more. After twenty rounds it begins anew.
	Grow int

	// Output fixes the length of answers. Zero leaves it to the engine.
	Output int

	MaxTokens int
	Plain     bool // ask for whole answers instead of streams

	// Tries is how often a call is tried. Zero means once. Between tries a
	// client waits for Backoff, doubled each time, up to a half of it added
	// at random.
	Tries   int
	Backoff time.Duration // zero means 500 ms

	// Retry, if not nil, decides in their place whether and when a call that
	// has been tried a number of times is tried again.
	Retry func(agent, tries int, o Outcome) (wait time.Duration, again bool)

	// Rest is how long an agent waits after a call that came to nothing,
	// before its next one. Zero means 1 s, negative means not at all.
	Rest time.Duration

	// Until ends it early. Zero means when all calls are done, but not after
	// a day.
	Until time.Duration

	Seed uint64
}

// A Gate decides when calls are let through to an engine. Calls are put to it
// in the order in which they came. Methods are called from one goroutine.
type Gate interface {
	// Enter asks for a call at the head of the line. Refused, it stays there
	// and is put again after the next Leave, and when Wake says.
	Enter(now time.Duration, agent int) bool

	// First tells of a first token, and Leave how a call ended.
	First(now time.Duration, agent int, after time.Duration)
	Leave(now time.Duration, agent int, o Outcome)

	// Wake says when to ask again although nothing has ended.
	Wake(now time.Duration) (at time.Duration, ok bool)
}

// An Outcome is how a try ended, as its client sees it.
type Outcome struct {
	Result   Result        // Left for a client that ran out of patience
	At       time.Duration // since the start of the engine
	First    time.Duration // until the first token, zero if none came
	Duration time.Duration
	Tokens   int

	// RetryAfter is what a refusal asked for, zero if it did not say.
	RetryAfter time.Duration
}

// A Score is what came of a [Load].
type Score struct {
	Calls  int // made
	Useful int // answered whole
	Tries  int
	Tokens int           // of useful answers
	Took   time.Duration // until the last call ended, or Until
	Record Record        // the engine's
	Agents []int         // useful answers of each agent
}

// Goodput is useful answers a second.
func (s Score) Goodput() float64 {
	if s.Took <= 0 {
		return 0
	}
	return float64(s.Useful) / s.Took.Seconds()
}

func (s Score) String() string {
	return fmt.Sprintf("%d of %d calls useful in %v, %.2f a second, %.2f tries a call",
		s.Useful, s.Calls, s.Took.Round(time.Millisecond), s.Goodput(), float64(s.Tries)/float64(max(s.Calls, 1)))
}

// client is one agent of a load.
type client struct {
	index   int
	calls   int // begun
	tries   int // of the call under way
	call    *Call
	entered time.Duration
	first   time.Duration
	late    uint64 // numbers what it waits for, so that old events do no harm
}

// player plays a load.
type player struct {
	Load
	core    *Core
	gate    Gate
	clients []*client
	line    []*client
	timers  events // call is unused; seq names the client, try what it is for
	score   Score
	live    int
}

// Play plays a load through a gate on a fresh core; no gate lets everything
// through. It returns an error for a bad config or load.
func Play(cfg Config, l Load, gate Gate) (Score, error) {
	core, err := NewCore(cfg)
	if err != nil {
		return Score{}, err
	}
	orInt(&l.Agents, 64)
	orInt(&l.Calls, 20)
	orTime(&l.Timeout, 5*time.Second)
	if l.Timeout == 0 {
		l.Timeout = never / 2
	}
	orInt(&l.Prompt, 200)
	orInt(&l.Tries, 1)
	orTime(&l.Backoff, 500*time.Millisecond)
	orTime(&l.Rest, time.Second)
	orTime(&l.Until, 24*time.Hour)
	if l.Agents < 0 || l.Prompt < 0 || l.Grow < 0 {
		return Score{}, fmt.Errorf("engine: load of %d agents, %d and %d tokens of prompt, want 0 or more each", l.Agents, l.Prompt, l.Grow)
	}
	if gate == nil {
		gate = Fixed(0)
	}
	p := &player{Load: l, core: core, gate: gate, live: l.Agents}
	if p.Retry == nil {
		p.Retry = p.backOff
	}
	p.score.Agents = make([]int, l.Agents)
	for i := range l.Agents {
		cl := &client{index: i}
		p.clients = append(p.clients, cl)
		p.next(0, cl)
	}
	p.run()
	p.score.Record = core.Record()
	return p.score, nil
}

func (p *player) run() {
	now := time.Duration(0)
	for p.live > 0 {
		p.admit(now)
		at := never
		if t, ok := p.core.Next(); ok {
			at = t
		}
		if len(p.timers) > 0 {
			at = min(at, p.timers[0].at)
		}
		if len(p.line) > 0 {
			if t, ok := p.gate.Wake(now); ok {
				at = min(at, max(t, now))
			}
		}
		if at > p.Until {
			p.score.Took = p.Until
			return
		}
		now = at
		for _, o := range p.core.Advance(now) {
			p.hear(o)
		}
		for len(p.timers) > 0 && p.timers[0].at <= now {
			e := p.timers.pop()
			cl := p.clients[e.seq]
			if uint64(e.try) != cl.late {
				continue
			}
			if cl.call != nil {
				// Out of patience.
				p.core.Abort(now, cl.call)
				p.over(now, cl, Left)
			} else {
				p.line = append(p.line, cl)
			}
		}
	}
	p.score.Took = now
}

// next begins an agent's next call at a moment, or ends the agent.
func (p *player) next(at time.Duration, cl *client) {
	if cl.calls == p.Calls {
		p.live--
		return
	}
	cl.calls++
	cl.tries = 0
	p.score.Calls++
	p.later(at, cl)
}

func (p *player) later(at time.Duration, cl *client) {
	cl.late++
	p.timers.push(event{at: at, kind: arrived, key: uint64(cl.index), seq: uint64(cl.index), try: int(cl.late)})
}

func (p *player) admit(now time.Duration) {
	for len(p.line) > 0 {
		cl := p.line[0]
		if !p.gate.Enter(now, cl.index) {
			return
		}
		p.line = p.line[1:]
		cl.tries++
		p.score.Tries++
		cl.entered, cl.first = now, 0
		cl.call = p.core.Submit(now, p.request(cl))
		cl.call.Tag = cl
		p.later(now+p.Timeout, cl)
	}
}

// rounds is how long a conversation is.
const rounds = 20

func (p *player) request(cl *client) Request {
	key := func(call int) uint64 { return mix(p.Seed ^ mix(uint64(cl.index)<<32|uint64(call))) }
	r := Request{
		Agent: strconv.Itoa(cl.index), Key: key(cl.calls),
		MaxTokens: p.MaxTokens, Output: p.Output, Stream: !p.Plain,
	}
	first := cl.calls
	if p.Grow > 0 {
		first -= (cl.calls - 1) % rounds
	}
	r.Prompt = append(r.Prompt, Segment{Key: key(first), Tokens: p.Prompt})
	for call := first + 1; call <= cl.calls; call++ {
		r.Prompt = append(r.Prompt, Segment{Key: key(call), Tokens: p.Grow})
	}
	return r
}

func (p *player) hear(o Output) {
	cl := o.Call.Tag.(*client)
	if o.Tokens > 0 && o.Call.made == o.Tokens {
		cl.first = o.At - cl.entered
		p.gate.First(o.At, cl.index, cl.first)
	}
	if o.End != "" {
		p.over(o.At, cl, o.End)
	}
}

// over ends a try.
func (p *player) over(now time.Duration, cl *client, how Result) {
	call := cl.call
	cl.call = nil
	o := Outcome{Result: how, At: now, First: cl.first, Duration: now - cl.entered, Tokens: call.made}
	switch how {
	case Refused, Unready:
		o.RetryAfter = p.core.cfg.RetryAfter
	case Limited:
		o.RetryAfter = call.rates.RetryAfter
	}
	p.gate.Leave(now, cl.index, o)
	if how.Useful() {
		p.score.Useful++
		p.score.Tokens += call.made
		p.score.Agents[cl.index]++
		p.next(now+p.Think, cl)
		return
	}
	if wait, again := p.Retry(cl.index, cl.tries, o); again {
		p.later(now+max(wait, 0), cl)
		return
	}
	p.next(now+p.Rest+p.Think, cl)
}

// backOff is the retry of a load that has none of its own.
func (p *player) backOff(agent, tries int, _ Outcome) (time.Duration, bool) {
	wait := float64(p.Backoff) * math.Pow(2, float64(tries-1))
	wait *= 1 + unit(p.Seed^mix(uint64(agent)<<32|uint64(p.score.Tries)))/2
	return time.Duration(min(wait, float64(24*time.Hour))), tries < p.Tries
}
