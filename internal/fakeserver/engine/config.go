package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Config sets up an engine. The zero value is a healthy unified engine of 16
// slots that refuses what its queue of 32 cannot hold.
type Config struct {
	// Seed decides on everything that is drawn: lengths of answers, their
	// words, and which requests a partial fault hits.
	Seed uint64

	// Model is the name it answers with. Empty means sim-model.
	Model string

	// Slots is how many sequences are decoded at a time. Zero means 16.
	Slots int

	// Queue is how many requests may wait for a slot; one more is refused
	// with 503. Zero means 32, negative means any number.
	Queue int

	// KVTokens is the memory for keys and values, in tokens: prompts and
	// answers of everything that runs, and the prefix cache in what is left.
	// Zero means 1,000,000.
	KVTokens int

	// Context is the longest prompt and answer together; a longer prompt is
	// refused with 400. Zero means 128 Ki tokens.
	Context int

	// Cost says how long things take. Each zero field has its own default.
	Cost Cost

	// Answers says how long answers are that no hint fixes.
	Answers Lengths

	// Abort says what becomes of requests whose client has left.
	Abort Abort

	// Split, if not nil, runs prefill and decode as two services with a
	// transfer between them. Slots, Queue and KVTokens then are the decode
	// side's and, with Queue, the prefill side's.
	Split *Split

	// Router, if not nil, stands in front with a queue of its own.
	Router *Router

	// RetryAfter is what a refusal asks for. Zero means it does not say.
	RetryAfter time.Duration

	// Limits are the rates that the account may use.
	Limits Limits

	// GaugeEvery is how stale gauges may be while the scheduler works: servers
	// renew them on their log's interval. A scheduler that has stopped leaves
	// the last value standing in any case. Zero means always fresh.
	GaugeEvery time.Duration

	// Changes are what happens to it over time.
	Changes []Change

	// Bin is the width of the bins of [Record]. Zero means one second.
	Bin time.Duration
}

// Cost is how long things take. A step of the scheduler computes up to Chunk
// tokens of prompts and one token of each answer, and takes
//
//	Step + PerSequence·n + PerPair·n² + PerContext·context + PerPrompt·chunk
//
// where n counts the answers in it and context their tokens so far. Zero
// means the default, negative means nothing.
type Cost struct {
	Step        time.Duration // zero means 20 ms
	PerSequence time.Duration // zero means 0.5 ms
	PerPair     time.Duration // zero means nothing: caches and bandwidth shared by all
	PerContext  time.Duration // zero means 20 ns
	PerPrompt   time.Duration // zero means 50 µs
	Chunk       int           // zero means 2048 tokens

	// FrontEnd is what passes between the arrival of a request and the
	// scheduler's hearing of it. Requests that arrive at the same moment are
	// put in an order of their own meanwhile, so that a run can be repeated.
	// Zero means 1 ms.
	FrontEnd time.Duration
}

// Lengths are how long answers are: drawn from a log-normal distribution, as
// a function of the seed and the request's content alone.
type Lengths struct {
	Mean   int     // the median's tokens, zero means 100
	Spread float64 // sigma of the logarithm, zero means 0.4, negative means none
	Most   int     // zero means 4096
}

// Abort says what becomes of a request whose client has left.
type Abort struct {
	// Stream and Plain are how late the server notices, by the kind of
	// request. Until then it goes on generating. Zero means 2 s and 4 s,
	// negative means at once.
	Stream, Plain time.Duration

	// Pin is how long the slot stays taken after that. Zero means not at all.
	Pin time.Duration
}

// Split sets up prefill and decode as two services.
type Split struct {
	// Slots is how many prompts the prefill side works on at a time, and
	// Queue how many may wait there. Zero means 8 and the engine's Queue.
	Slots, Queue int

	// KVTokens is the prefill side's memory. Zero means the decode side's.
	KVTokens int

	// Transfers is how many transfers run at a time. Zero means 4.
	Transfers int

	// Base and PerToken are how long a transfer takes. Zero means 5 ms and
	// 1 µs, negative means nothing.
	Base, PerToken time.Duration

	// Timeout is how long a handshake or a transfer may take before it fails.
	// Zero means 300 s.
	Timeout time.Duration
}

// Router sets up a router.
type Router struct {
	// InFlight is how many requests it has under way with the engine. Zero
	// means 64.
	InFlight int

	// Queue is how many may wait for that. Zero means 128, negative means
	// any number.
	Queue int
}

// Limits are the rates that the account may use. Each is a bucket that fills
// up evenly. Zero means no limit.
type Limits struct {
	Requests int // a minute; a day if the format is Groq's
	Tokens   int // a minute; a request takes its prompt and max_tokens

	// Window is the time over which the limits of a minute may be used at
	// once. Zero means a minute; a shorter one leaves less room for bursts.
	Window time.Duration

	// Refund gives back the tokens that an answer did not use.
	Refund bool

	// Format is the provider whose headers tell about the limits. Empty means
	// OpenAI's, if there are limits.
	Format Format
}

func orInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

func orTime(v *time.Duration, def time.Duration) {
	switch {
	case *v == 0:
		*v = def
	case *v < 0:
		*v = 0
	}
}

// filled returns a copy with defaults, or an error that names a bad field.
func (cfg Config) filled() (Config, error) {
	if cfg.Model == "" {
		cfg.Model = "sim-model"
	}
	orInt(&cfg.Slots, 16)
	orInt(&cfg.Queue, 32)
	orInt(&cfg.KVTokens, 1_000_000)
	orInt(&cfg.Context, 128<<10)
	orTime(&cfg.Cost.Step, 20*time.Millisecond)
	orTime(&cfg.Cost.PerSequence, 500*time.Microsecond)
	orTime(&cfg.Cost.PerPair, 0)
	orTime(&cfg.Cost.PerContext, 20*time.Nanosecond)
	orTime(&cfg.Cost.PerPrompt, 50*time.Microsecond)
	orInt(&cfg.Cost.Chunk, 2048)
	orTime(&cfg.Cost.FrontEnd, time.Millisecond)
	orInt(&cfg.Answers.Mean, 100)
	orInt(&cfg.Answers.Most, 4096)
	if cfg.Answers.Spread == 0 {
		cfg.Answers.Spread = 0.4
	}
	cfg.Answers.Spread = max(cfg.Answers.Spread, 0)
	orTime(&cfg.Abort.Stream, 2*time.Second)
	orTime(&cfg.Abort.Plain, 4*time.Second)
	orTime(&cfg.Abort.Pin, 0)
	orTime(&cfg.RetryAfter, 0)
	orTime(&cfg.GaugeEvery, 0)
	orTime(&cfg.Limits.Window, time.Minute)
	orTime(&cfg.Bin, time.Second)
	if cfg.Split != nil {
		s := *cfg.Split
		orInt(&s.Slots, 8)
		orInt(&s.Queue, cfg.Queue)
		orInt(&s.KVTokens, cfg.KVTokens)
		orInt(&s.Transfers, 4)
		orTime(&s.Base, 5*time.Millisecond)
		orTime(&s.PerToken, time.Microsecond)
		orTime(&s.Timeout, 300*time.Second)
		cfg.Split = &s
	}
	if cfg.Router != nil {
		r := *cfg.Router
		orInt(&r.InFlight, 64)
		orInt(&r.Queue, 128)
		cfg.Router = &r
	}
	cfg.Changes = slices.Clone(cfg.Changes)
	if bad := cfg.check(); bad != "" {
		return Config{}, errors.New("engine: " + bad)
	}
	return cfg, nil
}

// check returns what is wrong with a filled config, naming the field.
func (cfg Config) check() (bad string) {
	atLeast := map[string]int{
		"Slots": cfg.Slots, "KVTokens": cfg.KVTokens, "Context": cfg.Context, "Cost.Chunk": cfg.Cost.Chunk,
		"Answers.Mean": cfg.Answers.Mean, "Answers.Most": cfg.Answers.Most,
		"Limits.Requests": cfg.Limits.Requests + 1, "Limits.Tokens": cfg.Limits.Tokens + 1,
	}
	if s := cfg.Split; s != nil {
		atLeast["Split.Slots"], atLeast["Split.KVTokens"], atLeast["Split.Transfers"] = s.Slots, s.KVTokens, s.Transfers
	}
	if r := cfg.Router; r != nil {
		atLeast["Router.InFlight"] = r.InFlight
	}
	for _, name := range sorted(atLeast) {
		if n := atLeast[name]; n < 1 {
			if name == "Limits.Requests" || name == "Limits.Tokens" {
				return fmt.Sprintf("%s is %d, want 0 or more", name, n-1)
			}
			return fmt.Sprintf("%s is %d, want 1 or more", name, n)
		}
	}
	if s := cfg.Answers.Spread; math.IsNaN(s) || s > 3 {
		return fmt.Sprintf("Answers.Spread is %v, want at most 3", s)
	}
	if cfg.Bin <= 0 {
		return fmt.Sprintf("Bin is %v, want more than 0", cfg.Bin)
	}
	if !cfg.Limits.Format.known() {
		return fmt.Sprintf("Limits.Format is %q, want one of %v", cfg.Limits.Format, Formats())
	}
	for i, ch := range cfg.Changes {
		if bad := ch.check(cfg.Split != nil); bad != "" {
			return fmt.Sprintf("Changes[%d]: %s", i, bad)
		}
	}
	return ""
}
