package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

const ms = time.Millisecond

// exact has costs that are easy to add up: a step takes 10 ms, 1 ms more for
// each answer in it, and 1 ms for each token of a prompt.
func exact() engine.Config {
	return engine.Config{
		Cost:  engine.Cost{Step: 10 * ms, PerSequence: ms, PerContext: -1, PerPrompt: ms},
		Abort: engine.Abort{Stream: 2 * time.Second, Plain: 4 * time.Second},
	}
}

// An act is something that a client does.
type act struct {
	at    time.Duration
	name  string // of the request
	abort bool

	prompt, output, max int
	plain               bool
	pieces              []engine.Segment
	agent               string
}

// played plays acts until nothing is due or the end has come, and returns
// what clients saw, a line for each moment.
func played(t *testing.T, cfg engine.Config, end time.Duration, acts ...act) (string, *engine.Core) {
	t.Helper()
	core, err := engine.NewCore(cfg)
	require.NoError(t, err)
	calls := map[string]*engine.Call{}
	var lines []string
	last := time.Duration(-1)
	hear := func(now time.Duration) {
		for _, o := range core.Advance(now) {
			word := o.Call.Tag.(string)
			switch {
			case o.Taken:
				word += " taken"
			case o.Tokens > 0:
				word += strings.Repeat("+", o.Tokens)
			default:
				word += " " + string(o.End)
			}
			if o.At != last {
				lines = append(lines, o.At.String()+": "+word)
			} else {
				lines[len(lines)-1] += ", " + word
			}
			last = o.At
		}
	}
	for _, a := range acts {
		hear(a.at)
		if a.abort {
			core.Abort(a.at, calls[a.name])
			continue
		}
		r := engine.Request{
			Agent: a.agent, Key: uint64(len(calls) + 1), Output: a.output, MaxTokens: a.max, Stream: !a.plain,
			Prompt: a.pieces,
		}
		if r.Prompt == nil {
			r.Prompt = []engine.Segment{{Key: uint64(1000 + len(calls)), Tokens: a.prompt}}
		}
		calls[a.name] = core.Submit(a.at, r)
		calls[a.name].Tag = a.name
	}
	for {
		at, ok := core.Next()
		if !ok || at > end {
			break
		}
		hear(at)
	}
	return strings.Join(lines, "\n"), core
}

func change(kind engine.Kind, at, until time.Duration) engine.Change {
	return engine.Change{Kind: kind, At: at, Until: until}
}

func TestWhatClientsSee(t *testing.T) {
	with := func(mend func(*engine.Config)) engine.Config {
		cfg := exact()
		mend(&cfg)
		return cfg
	}
	changes := func(list ...engine.Change) engine.Config {
		return with(func(c *engine.Config) { c.Changes = list })
	}
	split := func(list ...engine.Change) engine.Config {
		return with(func(c *engine.Config) {
			c.Split = &engine.Split{Base: 3 * ms, PerToken: -1}
			c.Changes = list
		})
	}
	tests := map[string]struct {
		cfg  engine.Config
		acts []act
		end  time.Duration
		want string
	}{
		"a request takes the front end, its prompt and a step for each further token": {
			cfg:  exact(),
			acts: []act{{name: "a", prompt: 5, output: 3}},
			want: `
				1ms: a taken
				16ms: a+
				27ms: a+
				38ms: a+, a stop`,
		},
		"max_tokens cuts it": {
			cfg:  exact(),
			acts: []act{{name: "a", prompt: 5, output: 3, max: 2}},
			want: `
				1ms: a taken
				16ms: a+
				27ms: a+, a length`,
		},
		"as long as max_tokens is not cut": {
			cfg:  exact(),
			acts: []act{{name: "a", prompt: 5, output: 2, max: 2}},
			want: `
				1ms: a taken
				16ms: a+
				27ms: a+, a stop`,
		},
		"two prompts share a step, and the answers the steps after it": {
			cfg:  exact(),
			acts: []act{{name: "a", prompt: 5, output: 2}, {name: "b", prompt: 5, output: 3}},
			want: `
				1ms: a taken, b taken
				21ms: a+, b+
				33ms: a+, a stop, b+
				44ms: b+, b stop`,
		},
		"who comes during a step waits for its end, and slows down the one before it": {
			cfg:  exact(),
			acts: []act{{name: "a", prompt: 5, output: 4}, {at: 20 * ms, name: "b", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				16ms: a+
				21ms: b taken
				27ms: a+
				43ms: a+, b+, b stop
				54ms: a+, a stop`,
		},
		"a long prompt is computed in chunks": {
			cfg:  with(func(c *engine.Config) { c.Cost.Chunk = 4 }),
			acts: []act{{name: "a", prompt: 9, output: 1}},
			want: `
				1ms: a taken
				40ms: a+, a stop`,
		},
		"a full queue refuses": {
			cfg: with(func(c *engine.Config) { c.Slots, c.Queue = 1, 1 }),
			acts: []act{
				{name: "a", prompt: 5, output: 2}, {at: 2 * ms, name: "b", prompt: 5, output: 1}, {at: 3 * ms, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				3ms: b taken
				4ms: c refused
				16ms: a+
				27ms: a+, a stop
				42ms: b+, b stop`,
		},
		"a prompt that can never fit is refused": {
			cfg:  with(func(c *engine.Config) { c.Context = 10 }),
			acts: []act{{name: "a", prompt: 10, output: 1}, {at: ms, name: "b", prompt: 9, output: 3}},
			want: `
				1ms: a too-long
				2ms: b taken
				21ms: b+, b length`,
		},
		"what was computed before is not computed again": {
			cfg: exact(),
			acts: []act{
				{name: "a", output: 1, pieces: []engine.Segment{{Key: 7, Tokens: 20}, {Key: 8, Tokens: 5}}},
				{at: 100 * ms, name: "b", output: 1, pieces: []engine.Segment{{Key: 7, Tokens: 20}, {Key: 9, Tokens: 5}}},
			},
			want: `
				1ms: a taken
				36ms: a+, a stop
				101ms: b taken
				116ms: b+, b stop`,
		},
		"a streamed abort is noticed two seconds late, and nobody hears of it": {
			cfg: with(func(c *engine.Config) { c.Slots = 1 }),
			acts: []act{
				{name: "a", prompt: 5, output: 1000}, {at: 17 * ms, name: "a", abort: true},
				{at: 18 * ms, name: "b", prompt: 5, output: 1},
			},
			// a is under way until 2.017 s; the step under way then ends at 2.018.
			want: `
				1ms: a taken
				16ms: a+
				19ms: b taken
				2.033s: b+, b stop`,
		},
		"a plain one four seconds late": {
			cfg: with(func(c *engine.Config) { c.Slots = 1 }),
			acts: []act{
				{name: "a", prompt: 5, output: 1000, plain: true}, {at: 17 * ms, name: "a", abort: true},
				{at: 18 * ms, name: "b", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				16ms: a+
				19ms: b taken
				4.035s: b+, b stop`,
		},
		"an abort pins the slot": {
			cfg: with(func(c *engine.Config) { c.Slots, c.Abort.Pin = 1, 10*time.Second }),
			acts: []act{
				{name: "a", prompt: 5, output: 1000}, {at: 17 * ms, name: "a", abort: true},
				{at: 18 * ms, name: "b", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				16ms: a+
				19ms: b taken
				12.032s: b+, b stop`,
		},
		"one that only waited pins nothing": {
			cfg: with(func(c *engine.Config) {
				c.Slots, c.Abort = 1, engine.Abort{Stream: -1, Pin: 10 * time.Second}
			}),
			acts: []act{
				{name: "a", prompt: 5, output: 2}, {name: "b", prompt: 5, output: 1}, {at: 5 * ms, name: "b", abort: true},
				{at: 6 * ms, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken, b taken
				7ms: c taken
				16ms: a+
				27ms: a+, a stop
				42ms: c+, c stop`,
		},
		"without memory the youngest is put off and computed again": {
			cfg:  with(func(c *engine.Config) { c.KVTokens = 12 }),
			acts: []act{{name: "a", prompt: 5, output: 4}, {name: "b", prompt: 5, output: 3}},
			// After the second token all 12 are taken. b goes on once a is done;
			// even its cached prompt had to make room, so 7 tokens are computed.
			want: `
				1ms: a taken, b taken
				21ms: a+, b+
				33ms: a+, b+
				44ms: a+
				55ms: a+, a stop
				72ms: b+, b stop`,
		},
		"batching gets dearer for a time": {
			cfg:  changes(engine.Change{Kind: engine.BatchCost, Factor: 6, At: 16 * ms, Until: 30 * ms}),
			acts: []act{{name: "a", prompt: 5, output: 4}},
			want: `
				1ms: a taken
				16ms: a+
				32ms: a+
				43ms: a+
				54ms: a+, a stop`,
		},
		"a step that began before a change is as long as it was": {
			cfg:  changes(engine.Change{Kind: engine.BatchCost, Factor: 6, At: 16*ms + 1}),
			acts: []act{{name: "a", prompt: 5, output: 3}},
			want: `
				1ms: a taken
				16ms: a+
				27ms: a+
				43ms: a+, a stop`,
		},
		"it degrades little by little and stays there": {
			cfg:  changes(engine.Change{Kind: engine.Degrade, Factor: 3, At: 0, Until: 32 * ms}),
			acts: []act{{name: "a", prompt: 5, output: 3}},
			// Twice as slow at 16 ms, had the first step not been slow itself.
			want: `
				1ms: a taken
				16.9375ms: a+
				39.582031ms: a+
				72.582031ms: a+, a stop`,
		},
		"half of an engine is half as fast": {
			cfg: with(func(c *engine.Config) {
				c.Slots, c.Changes = 2, []engine.Change{{Kind: engine.Capacity, Factor: 0.5, At: 20 * ms}}
			}),
			acts: []act{{name: "a", prompt: 4, output: 3}, {name: "b", prompt: 4, output: 3}},
			// b is put off, and has one token to compute again when its turn comes.
			want: `
				1ms: a taken, b taken
				19ms: a+, b+
				31ms: a+
				43ms: a+, a stop
				55ms: b+
				67ms: b+, b stop`,
		},
		"serialised, one after the other": {
			cfg:  changes(engine.Change{Kind: engine.Serial, N: 1}),
			acts: []act{{name: "a", prompt: 5, output: 2}, {name: "b", prompt: 5, output: 2}},
			want: `
				1ms: a taken, b taken
				16ms: a+
				27ms: a+, a stop
				42ms: b+
				53ms: b+, b stop`,
		},
		"a wedged scheduler stands still in its step": {
			cfg:  changes(change(engine.Wedge, 20*ms, time.Second)),
			acts: []act{{name: "a", prompt: 5, output: 3}, {at: 500 * ms, name: "b", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				16ms: a+
				501ms: b taken
				1s: a+
				1.016s: a+, a stop, b+, b stop`,
		},
		"a process that goes takes all with it, and is back": {
			cfg: changes(change(engine.Down, 20*ms, time.Second)),
			acts: []act{
				{name: "a", prompt: 5, output: 3}, {at: 500 * ms, name: "b", prompt: 5, output: 1},
				{at: time.Second, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				16ms: a+
				20ms: a broken
				501ms: b broken
				1.001s: c taken
				1.016s: c+, c stop`,
		},
		"silence: what comes is lost, what was there goes on after it": {
			cfg: changes(change(engine.Silent, 20*ms, time.Second)),
			acts: []act{
				{name: "a", prompt: 5, output: 2}, {at: 500 * ms, name: "b", prompt: 5, output: 1},
				{at: time.Second, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				16ms: a+
				1s: a+, a stop
				1.001s: c taken
				1.016s: c+, c stop`,
		},
		"unavailable for those who come": {
			cfg:  changes(change(engine.Unavailable, 10*ms, 20*ms)),
			acts: []act{{name: "a", prompt: 5, output: 1}, {at: 9 * ms, name: "b", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				10ms: b unavailable
				16ms: a+, a stop`,
		},
		"the last moment of it and the first after it": {
			cfg:  changes(change(engine.Unavailable, 10*ms, 20*ms)),
			acts: []act{{at: 19*ms - 1, name: "a", prompt: 5, output: 1}, {at: 19 * ms, name: "b", prompt: 5, output: 1}},
			want: `
				19.999999ms: a unavailable
				20ms: b taken
				35ms: b+, b stop`,
		},
		"no quota": {
			cfg:  changes(change(engine.OutOfQuota, 0, 0)),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: `1ms: a no-quota`,
		},
		"all that comes is lost": {
			cfg:  changes(engine.Change{Kind: engine.Lose, Factor: 1}),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: ``,
		},
		"long prompts hang, short ones do not": {
			cfg: changes(engine.Change{Kind: engine.WedgeLong, N: 5}),
			acts: []act{
				{name: "a", prompt: 6, output: 1}, {name: "b", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken, b taken
				16ms: b+, b stop`,
		},
		"long prompts are answered without end, which the context is": {
			cfg: with(func(c *engine.Config) {
				c.Context = 10
				c.Changes = []engine.Change{{Kind: engine.RunawayLong, N: 5}}
			}),
			acts: []act{{name: "a", prompt: 6, output: 1}, {name: "b", prompt: 5, output: 1}},
			want: `
				1ms: a taken, b taken
				22ms: a+, b+, b stop
				33ms: a+
				44ms: a+
				55ms: a+, a length`,
		},
		"requests over the limit are told so": {
			cfg: with(func(c *engine.Config) { c.Limits.Requests = 1 }),
			acts: []act{
				{name: "a", prompt: 5, output: 1}, {at: 500 * ms, name: "b", prompt: 5, output: 1},
				{at: time.Minute, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				16ms: a+, a stop
				501ms: b rate-limited
				1m0.001s: c taken
				1m0.016s: c+, c stop`,
		},
		"split: prefill, transfer, and a step for the first token": {
			cfg:  split(),
			acts: []act{{name: "a", prompt: 5, output: 2}},
			want: `
				1ms: a taken
				30ms: a+
				41ms: a+, a stop`,
		},
		"split: a wedged transfer fails after five minutes": {
			cfg:  split(change(engine.WedgeTransfer, 0, 0)),
			acts: []act{{name: "a", prompt: 5, output: 2}},
			want: `
				1ms: a taken
				5m0.016s: a failed`,
		},
		"split: one that is freed goes on": {
			cfg:  split(change(engine.WedgeTransfer, 0, time.Minute)),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				1m0.011s: a+, a stop`,
		},
		"split: a handshake that fails": {
			cfg:  split(change(engine.WedgeBootstrap, 0, 0)),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				5m0.001s: a failed`,
		},
		"split: a handshake that comes late": {
			cfg:  split(change(engine.WedgeBootstrap, 0, time.Minute)),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				1m0.029s: a+, a stop`,
		},
		"split: transfers fail at once": {
			cfg:  split(engine.Change{Kind: engine.FailTransfer, Factor: 1}),
			acts: []act{{name: "a", prompt: 5, output: 1}},
			want: `
				1ms: a taken
				19ms: a failed`,
		},
		"split: only so many transfers at a time": {
			cfg: with(func(c *engine.Config) { c.Split = &engine.Split{Base: 30 * ms, PerToken: -1, Transfers: 1} }),
			acts: []act{
				{name: "a", prompt: 5, output: 1}, {name: "b", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken, b taken
				62ms: a+, a stop
				92ms: b+, b stop`,
		},
		"split: decode restarts alone": {
			cfg: split(engine.Change{Kind: engine.Down, Side: engine.Decode, At: 35 * ms, Until: time.Second}),
			acts: []act{
				{name: "a", prompt: 5, output: 3}, {at: 20 * ms, name: "b", prompt: 5, output: 1},
				{at: 100 * ms, name: "c", prompt: 5, output: 1}, {at: time.Second, name: "d", prompt: 5, output: 1},
			},
			// b had its prompt computed and waits for a decode side.
			want: `
				1ms: a taken
				21ms: b taken
				30ms: a+
				35ms: a broken
				101ms: c unavailable
				1.001s: d taken
				1.014s: b+, b stop
				1.03s: d+, d stop`,
		},
		"router: it passes on what it may, keeps some and refuses the rest": {
			cfg: with(func(c *engine.Config) { c.Router = &engine.Router{InFlight: 1, Queue: 1} }),
			acts: []act{
				{name: "a", prompt: 5, output: 1}, {at: ms, name: "b", prompt: 5, output: 1}, {at: 2 * ms, name: "c", prompt: 5, output: 1},
			},
			want: `
				1ms: a taken
				3ms: c refused
				16ms: a+, a stop, b taken
				31ms: b+, b stop`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			end := tt.end
			if end == 0 {
				end = time.Hour
			}
			got, _ := played(t, tt.cfg, end, tt.acts...)
			var want []string
			for line := range strings.Lines(tt.want) {
				if line = strings.TrimSpace(line); line != "" {
					want = append(want, line)
				}
			}
			assert.Equal(t, strings.Join(want, "\n"), got)
		})
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		cfg  engine.Config
		want string
	}{
		"no slots":              {engine.Config{Slots: -1}, "engine: Slots is -1, want 1 or more"},
		"no memory":             {engine.Config{KVTokens: -5}, "engine: KVTokens is -5, want 1 or more"},
		"a limit below nothing": {engine.Config{Limits: engine.Limits{Tokens: -1}}, "engine: Limits.Tokens is -1, want 0 or more"},
		"an unknown format":     {engine.Config{Limits: engine.Limits{Format: "x"}}, `engine: Limits.Format is "x", want one of [openai azure anthropic groq openrouter ietf none]`},
		"no transfers":          {engine.Config{Split: &engine.Split{Transfers: -1}}, "engine: Split.Transfers is -1, want 1 or more"},
		"a router for nobody":   {engine.Config{Router: &engine.Router{InFlight: -1}}, "engine: Router.InFlight is -1, want 1 or more"},
		"lengths too wide":      {engine.Config{Answers: engine.Lengths{Spread: 4}}, "engine: Answers.Spread is 4, want at most 3"},
		"a change that ends first": {
			engine.Config{Changes: []engine.Change{{Kind: engine.Silent, At: 2, Until: 1}}},
			"engine: Changes[0]: Until is 1ns, want more than At of 2ns",
		},
		"a change without its factor": {
			engine.Config{Changes: []engine.Change{{Kind: engine.Slow}}},
			"engine: Changes[0]: Factor is 0, want 0.001 to 1000 for slow",
		},
		"a change without its number": {
			engine.Config{Changes: []engine.Change{{Kind: engine.Silent}, {Kind: engine.Serial}}},
			"engine: Changes[1]: N is 0, want 1 or more for serial",
		},
		"a slope without an end": {
			engine.Config{Changes: []engine.Change{{Kind: engine.Degrade, Factor: 2}}},
			"engine: Changes[0]: Until is 0, want the end of degrade",
		},
		"a transfer in one piece": {
			engine.Config{Changes: []engine.Change{{Kind: engine.WedgeTransfer}}},
			"engine: Changes[0]: wedge-transfer needs Split",
		},
		"a side that is not there": {
			engine.Config{Changes: []engine.Change{{Kind: engine.Down, Side: engine.Prefill}}},
			`engine: Changes[0]: Side is "prefill", which this engine has not`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := engine.NewCore(tt.cfg)
			assert.EqualError(t, err, tt.want)
		})
	}
	_, err := engine.NewCore(engine.Config{Changes: []engine.Change{{Kind: "rain"}}})
	assert.ErrorContains(t, err, `engine: Changes[0]: Kind is "rain", want one of [batch-cost capacity`)
}

func TestConfigIsCopied(t *testing.T) {
	cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Lose, Factor: 1}}, Split: &engine.Split{Slots: 3}}
	core, err := engine.NewCore(cfg)
	require.NoError(t, err)
	cfg.Changes[0].Kind = engine.Silent
	cfg.Split.Slots = 9
	assert.Equal(t, engine.Lose, core.Config().Changes[0].Kind)
	assert.Equal(t, 3, core.Config().Split.Slots)
}

// Requests that come at the same moment are served in the same order however
// they were handed in.
func TestOrderOfOneMomentIsItsOwn(t *testing.T) {
	run := func(order []int) string {
		cfg := exact()
		cfg.Slots, cfg.Queue = 1, 2
		core, err := engine.NewCore(cfg)
		require.NoError(t, err)
		for _, i := range order {
			call := core.Submit(0, engine.Request{Agent: fmt.Sprint(i), Key: 1, Prompt: []engine.Segment{{Key: uint64(i), Tokens: 5}}, Output: 2})
			call.Tag = i
		}
		var got []string
		for at, ok := core.Next(); ok; at, ok = core.Next() {
			for _, o := range core.Advance(at) {
				got = append(got, fmt.Sprint(o.Call.Tag, o.At, o.Taken, o.Tokens, o.End))
			}
		}
		return strings.Join(got, "\n")
	}
	want := run([]int{0, 1, 2, 3, 4})
	assert.Contains(t, want, "refused")
	assert.Equal(t, want, run([]int{4, 3, 2, 1, 0}))
	assert.Equal(t, want, run([]int{2, 0, 4, 1, 3}))
}

// What the books of each side show of the incidents.
func TestWhatTheBooksShow(t *testing.T) {
	many := func(n int, mend func(*act)) []act {
		var out []act
		for i := range n {
			a := act{name: fmt.Sprint(i), prompt: 5, output: 100}
			if mend != nil {
				mend(&a)
			}
			out = append(out, a)
		}
		return out
	}
	at := func(cfg engine.Config, end time.Duration, acts []act, side engine.Side) engine.Stats {
		t.Helper()
		_, core := played(t, cfg, end, acts...)
		core.Advance(end)
		return core.Stats(side)
	}
	split := exact()
	split.Split = &engine.Split{Base: 3 * ms, PerToken: -1}

	t.Run("a wedged engine: running stays, counters are flat", func(t *testing.T) {
		cfg := exact()
		cfg.Changes = []engine.Change{change(engine.Wedge, time.Second, 0)}
		one, two := at(cfg, time.Second, many(4, nil), engine.Decode), at(cfg, time.Minute, many(4, nil), engine.Decode)
		assert.Equal(t, one, two)
		assert.Equal(t, 4, two.Running)
		assert.Positive(t, two.GenerationTokens)
	})
	t.Run("its healthy twin moves on", func(t *testing.T) {
		one, two := at(exact(), time.Second, many(4, nil), engine.Decode), at(exact(), time.Second+14*ms, many(4, nil), engine.Decode)
		assert.Equal(t, one.GenerationTokens+4, two.GenerationTokens)
	})
	t.Run("serialised decode: running 1, many in the queue", func(t *testing.T) {
		cfg := exact()
		cfg.Changes = []engine.Change{{Kind: engine.Serial, N: 1}}
		st := at(cfg, time.Second, many(4, nil), engine.Decode)
		assert.Equal(t, []int{1, 3}, []int{st.Running, st.Queue})
	})
	t.Run("a partial restart: decode idle and young, prefill in flight constant, failures late", func(t *testing.T) {
		cfg := split
		cfg.Changes = []engine.Change{
			{Kind: engine.Down, Side: engine.Decode, At: time.Second, Until: 10 * time.Second},
			{Kind: engine.WedgeTransfer, At: time.Second},
		}
		acts := many(6, func(a *act) { a.at = 20 * time.Second })
		for _, end := range []time.Duration{21 * time.Second, 5 * time.Minute} {
			pre, dec := at(cfg, end, acts, engine.Prefill), at(cfg, end, acts, engine.Decode)
			assert.Equal(t, 6, pre.Inflight)
			assert.Zero(t, dec.Running)
			assert.Equal(t, []int{2, 4}, []int{dec.Preallocating, dec.Transferring})
			assert.Equal(t, 10*time.Second, dec.Started)
			assert.Zero(t, pre.Started)
			assert.Zero(t, pre.TransferFailed)
		}
		assert.Equal(t, 6, at(cfg, 11*time.Minute, acts, engine.Prefill).TransferFailed)
	})
	t.Run("aborts in transfer stay in flight", func(t *testing.T) {
		cfg := split
		cfg.Changes = []engine.Change{change(engine.WedgeTransfer, 0, 2*time.Minute), change(engine.StickAborts, 0, 0)}
		acts := many(3, nil)
		acts = append(acts, act{at: time.Second, name: "1", abort: true})
		pre := at(cfg, time.Hour, acts, engine.Prefill)
		assert.Equal(t, 1, pre.Inflight)
		assert.Equal(t, 1, pre.Aborted+at(cfg, time.Hour, acts, engine.Decode).Aborted)
	})
	t.Run("memory exhausted: sequences are put off and nothing is lost", func(t *testing.T) {
		cfg := exact()
		cfg.KVTokens = 130
		st := at(cfg, time.Hour, many(4, nil), engine.Decode)
		assert.Positive(t, st.Retractions)
		assert.Equal(t, 400, st.GenerationTokens)
		assert.Equal(t, 4, st.Finished[engine.Stopped])
	})
	t.Run("stale gauges", func(t *testing.T) {
		cfg := exact()
		cfg.GaugeEvery = 10 * time.Second
		acts := append(many(2, nil), act{at: 100 * ms, name: "late", prompt: 5, output: 100})
		assert.Equal(t, 0, at(cfg, time.Second, acts, engine.Decode).Running)
		assert.Equal(t, 3, at(exact(), time.Second, acts, engine.Decode).Running)
	})
	t.Run("prompts found in the cache", func(t *testing.T) {
		pieces := []engine.Segment{{Key: 1, Tokens: 50}, {Key: 2, Tokens: 10}}
		st := at(exact(), time.Hour, []act{
			{name: "a", pieces: pieces, output: 1}, {at: time.Second, name: "b", pieces: pieces, output: 1},
		}, engine.Decode)
		assert.Equal(t, []int{120, 60, 61}, []int{st.PromptTokens, st.CachedTokens, st.Computed})
	})
	t.Run("the oldest leaves the cache first", func(t *testing.T) {
		cfg := exact()
		cfg.KVTokens = 110
		a, b := []engine.Segment{{Key: 1, Tokens: 50}}, []engine.Segment{{Key: 2, Tokens: 50}}
		c := []engine.Segment{{Key: 3, Tokens: 50}}
		st := at(cfg, time.Hour, []act{
			{name: "a", pieces: a, output: 1}, {at: 1 * time.Second, name: "b", pieces: b, output: 1},
			{at: 2 * time.Second, name: "a again", pieces: a, output: 1}, {at: 3 * time.Second, name: "c", pieces: c, output: 1},
			{at: 4 * time.Second, name: "a still", pieces: a, output: 1}, {at: 5 * time.Second, name: "b gone", pieces: b, output: 1},
		}, engine.Decode)
		assert.Equal(t, 100, st.CachedTokens)
	})
}

// What is lost is a request, not a text: one that is sent again has a fate of
// its own. What a model makes of a text does not change by sending it again.
func TestARequestSentAgainHasAFateOfItsOwn(t *testing.T) {
	const texts = 2000
	// hit says of the texts which of their two requests a change hits.
	hit := func(t *testing.T, kind engine.Kind, seed uint64, backwards bool) (first, again [texts]bool) {
		cfg := exact()
		cfg.Seed, cfg.Slots, cfg.Queue, cfg.Context = seed, 4*texts, -1, 30
		cfg.Cost.PerSequence = -1
		cfg.Changes = []engine.Change{{Kind: kind, Factor: 0.3}}
		if kind == engine.FailTransfer {
			cfg.Split = &engine.Split{Slots: 4 * texts, Queue: -1, Transfers: 4 * texts}
		}
		core, err := engine.NewCore(cfg)
		require.NoError(t, err)
		for round, bad := range []*[texts]bool{&first, &again} {
			now := time.Duration(round) * time.Minute
			core.Advance(now)
			for i := range texts {
				if backwards {
					i = texts - 1 - i
				}
				bad[i] = true
				core.Submit(now, engine.Request{Key: uint64(i), Output: 1, Prompt: []engine.Segment{{Key: uint64(i), Tokens: 5}}})
			}
			for _, out := range core.Advance(now + 30*time.Second) {
				if out.End == engine.Stopped {
					bad[out.Call.Key] = false
				}
			}
		}
		return first, again
	}
	for kind, anew := range map[engine.Kind]bool{engine.Lose: true, engine.FailTransfer: true, engine.Runaway: false} {
		t.Run(string(kind), func(t *testing.T) {
			first, again := hit(t, kind, 1, false)
			n, both := 0, 0
			for i := range texts {
				if first[i] {
					n++
					if again[i] {
						both++
					}
				}
			}
			assert.InDelta(t, 0.3, float64(n)/texts, 0.04)
			if anew {
				assert.InDelta(t, 0.3, float64(both)/float64(n), 0.08, "of those that were hit")
			} else {
				assert.Equal(t, n, both, "the same text gets the same")
			}
			f, a := hit(t, kind, 1, true)
			assert.Equal(t, first, f, "however they were handed in")
			assert.Equal(t, again, a)
			f, _ = hit(t, kind, 2, false)
			assert.NotEqual(t, first, f, "another seed")
		})
	}
}
