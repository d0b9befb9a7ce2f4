package health_test

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// changeAt is when incidents begin here: long enough after the start that there
// is something to compare with.
const changeAt = 31 * time.Second

// fill is how long a load that has just begun needs to fill an engine.
const fill = 5 * time.Second

// usually is for how long incidents are watched: verdicts should stay.
func usually() time.Duration {
	if underRace {
		return 35 * time.Second
	}
	return 50 * time.Second
}

// An incident is trouble, or none, and what is to be said of it.
type incident struct {
	server func(seed uint64) engine.ServerConfig
	load   load
	client func(*llmclient.Config)

	// with and without are what is right, with metrics and without.
	with, without []health.State

	// passing are further states that are right in between.
	passing []health.State

	at    time.Duration // when it begins; zero is changeAt
	after time.Duration // how long after that the states of the incident show
	until time.Duration // when it is over; zero is never
	watch time.Duration // for how long after it shows; zero is usually
	whole bool          // the load may not be at rest when it begins

	interval time.Duration // between samples; zero is 10 s
}

func states(s ...health.State) []health.State { return s }

// setting is one of the engine's, whose changes come earlier here.
func setting(name string, more ...func(*engine.ServerConfig)) func(uint64) engine.ServerConfig {
	return func(seed uint64) engine.ServerConfig {
		cfg, err := engine.Setting(name, seed)
		if err != nil {
			panic(err)
		}
		for i := range cfg.Changes {
			c := &cfg.Changes[i]
			c.At = max(0, c.At-(engine.ChangeAt-changeAt))
			if c.Until > 0 {
				c.Until -= engine.ChangeAt - changeAt
			}
		}
		s := engine.ServerConfig{Engine: cfg}
		for _, f := range more {
			f(&s)
		}
		return s
	}
}

func vllm(s *engine.ServerConfig)        { s.Dialect = engine.VLLM }
func noStartTime(s *engine.ServerConfig) { s.NoStartTime = true }
func plainHealth(s *engine.ServerConfig) { s.PlainHealth = true }

// engineOf changes the engine of a setting.
func engineOf(f func(*engine.Config)) func(*engine.ServerConfig) {
	return func(s *engine.ServerConfig) { f(&s.Engine) }
}

var (
	ordinary = load{agents: 12, think: 2 * time.Second, prompt: 200}
	heavy    = load{agents: 30, think: time.Second, prompt: 200}
	// hasty is a load that gives up early, as SDKs with a short timeout do.
	hasty = load{agents: 14, prompt: 200, limit: 5 * time.Second}
)

func incidents() map[string]incident {
	down := func(c *engine.Config) {
		c.Changes = []engine.Change{{Kind: engine.Down, At: changeAt, Until: changeAt + 2*time.Minute}}
	}
	return map[string]incident{
		"wedged engine": {
			server: setting("wedged-engine"), load: ordinary,
			with: states(health.StateWedgedEngine, health.StateFrontEndAlone), without: states(health.StateFrontEndAlone),
		},
		"wedged engine, vLLM": {
			server: setting("wedged-engine", vllm), load: ordinary, whole: true,
			with: states(health.StateWedgedEngine), without: states(health.StateCannotTell),
		},
		"engine stopped at rest, vLLM": {
			server: setting("wedged-engine", vllm), load: load{agents: 8, think: 2 * time.Second, prompt: 200, begin: changeAt + 4*time.Second}, whole: true, at: changeAt + 4*time.Second,
			with: states(health.StateLost), without: states(health.StateCannotTell),
		},
		"front end alone alive": {
			server: setting("wedged-engine", plainHealth), load: load{agents: 8, think: 2 * time.Second, prompt: 200, begin: changeAt + 4*time.Second}, whole: true, at: changeAt + 4*time.Second,
			with: states(health.StateFrontEndAlone), without: states(health.StateFrontEndAlone),
		},
		"serialised decode": {
			server: setting("serialised-decode"), load: heavy,
			with: states(health.StateSerialised), without: states(health.StateCannotTell),
		},
		"serialised decode, vLLM": {
			server: setting("serialised-decode", vllm), load: heavy,
			with: states(health.StateSerialised), without: states(health.StateCannotTell),
		},
		"memory exhausted": {
			server: setting("kv-exhausted", engineOf(func(c *engine.Config) { c.Changes[0].Factor = 0.05 })), load: heavy,
			with: states(health.StateMemoryFull), without: states(health.StateCannotTell, health.StateHealthy),
		},
		"memory exhausted, vLLM": {
			server: setting("kv-exhausted", vllm, engineOf(func(c *engine.Config) { c.Changes[0].Factor = 0.05 })), load: heavy,
			with: states(health.StateMemoryFull), without: states(health.StateCannotTell, health.StateHealthy),
		},
		"router full": {
			server: setting("router-full"), load: load{agents: 40, prompt: 200, begin: changeAt}, whole: true, after: fill,
			with: states(health.StateRouterFull), without: states(health.StateCannotTell),
		},
		"wedged transfer": {
			server: setting("wedged-transfer"), load: ordinary,
			with: states(health.StateWedgedTransfer), without: states(health.StateCannotTell),
		},
		"partial restart": {
			server: setting("partial-restart"), load: ordinary, after: 20 * time.Second,
			with: states(health.StatePartialRestart), without: states(health.StateCannotTell), passing: states(health.StateUnreachable, health.StateFailing),
		},
		"partial restart, no start times": {
			server: setting("partial-restart", noStartTime), load: ordinary, after: 20 * time.Second,
			with: states(health.StatePartialRestart), without: states(health.StateCannotTell), passing: states(health.StateUnreachable, health.StateFailing),
		},
		"prefill stuck after aborts": {
			server: setting("stuck-prefill"), load: load{agents: 12, think: 2 * time.Second, prompt: 200, limit: 5 * time.Second}, after: 30 * time.Second,
			with: states(health.StateStuckPrefill), without: states(health.StateCannotTell, health.StateHealthy), passing: states(health.StateWedgedTransfer, health.StateStuckPrefill, health.StateCannotTell),
		},
		"wedged handshake": {
			server: setting("wedged-bootstrap"), load: ordinary,
			with: states(health.StateWedgedHandshake), without: states(health.StateCannotTell),
		},
		"aborts of our own, after a pause of the server": {
			// Slots are pinned for a minute.
			server: setting("abort-storm"), load: hasty, whole: true, after: 6 * time.Second, until: changeAt + 66*time.Second,
			with: states(health.StateOwnAborts), without: states(health.StateCannotTell), passing: states(health.StateSaturated, health.StateWedgedEngine, health.StateCannotTell),
		},
		"aborts of our own, by too much at once": {
			server: setting("overload"), load: load{agents: 64, prompt: 200, limit: 5 * time.Second, begin: changeAt}, whole: true, after: fill,
			with: states(health.StateOwnAborts), without: states(health.StateCannotTell), passing: states(health.StateSaturated),
		},
		"requests lost": {
			server: setting("lost-requests"), load: ordinary,
			with: states(health.StateLost), without: states(health.StateLost, health.StateCannotTell),
		},
		"all requests lost": {
			server: setting("lost-requests", engineOf(func(c *engine.Config) { c.Changes[0].Factor = 1 })), load: ordinary,
			with: states(health.StateLost), without: states(health.StateCannotTell),
		},
		"silent": {
			server: setting("silent-outage"), load: ordinary, until: changeAt + time.Minute,
			with: states(health.StateUnreachable), without: states(health.StateUnreachable),
		},
		"refused": {
			server: setting("outage-recovery", engineOf(down)), load: ordinary,
			with: states(health.StateUnreachable), without: states(health.StateUnreachable),
		},
		"a gateway refuses all": {
			server: setting("refusing-outage"), load: ordinary, until: changeAt + time.Minute,
			with: states(health.StateFailing), without: states(health.StateFailing),
		},
		"out of quota": {
			server: setting("out-of-quota"), load: ordinary,
			with: states(health.StateOutOfQuota), without: states(health.StateOutOfQuota),
		},
		"throttled": {
			// Limits that headers tell of are kept by the pacer before they show.
			server: setting("rate-limited", func(c *engine.ServerConfig) { c.Engine.Limits.Format = engine.Silently }),
			load:   load{agents: 12, prompt: 200, begin: changeAt}, whole: true,
			with: states(health.StateThrottled), without: states(health.StateThrottled),
		},
		"long contexts hang": {
			server: setting("long-context-hang"), load: load{agents: 12, think: 2 * time.Second, prompt: 200, wide: true}, after: 15 * time.Second,
			with: states(health.StateLongContext), without: states(health.StateLongContext),
		},
		"runaway": {
			server: setting("runaway"), load: ordinary, watch: 2 * time.Minute,
			with: states(health.StateRunaway), without: states(health.StateRunaway),
		},
		"long contexts run away": {
			// A long prompt has to come first, and to be answered for a while.
			server: setting("long-context-runaway"), load: load{agents: 12, think: 2 * time.Second, prompt: 200, wide: true}, after: 20 * time.Second, watch: 2 * time.Minute,
			with: states(health.StateRunaway), without: states(health.StateRunaway),
		},
		"prefill-bound": {
			server: setting("overload"), load: load{agents: 12, prompt: 30_000, output: 5, begin: changeAt}, whole: true, after: fill,
			with: states(health.StatePrefillBound), without: states(health.StateHealthy, health.StateCannotTell),
		},
		"saturated": {
			server: setting("overload"), load: load{agents: 40, prompt: 200, begin: changeAt}, whole: true, after: fill,
			with: states(health.StateSaturated), without: states(health.StateHealthy, health.StateCannotTell),
		},
		"saturated, vLLM": {
			server: setting("overload", vllm), load: load{agents: 40, prompt: 200, begin: changeAt}, whole: true, after: fill,
			with: states(health.StateSaturated), without: states(health.StateHealthy, health.StateCannotTell),
		},
		"our pacer is the queue": {
			server: setting("overload"), load: load{agents: 30, prompt: 200, begin: changeAt}, whole: true, after: fill,
			client: func(c *llmclient.Config) { c.Pacer = pacer.Config{MaxInFlight: 1, StartInFlight: -1} },
			with:   states(health.StateOwnQueue), without: states(health.StateOwnQueue),
		},
		"slower and slower": {
			server: setting("slow-degradation"), load: ordinary,
			with: states(health.StateHealthy, health.StateBusy), without: states(health.StateHealthy),
		},
	}
}

var (
	interval     = flag.Duration("interval", 0, "the time between two samples; 0 is 10s")
	howMany      = flag.Int("seeds", 1, "how many seeds of everything are played")
	onlyIncident = flag.String("incident", "", "the one incident to play, with its pages")
)

// seeds are the ones to play, from the first.
func seeds(first uint64) []uint64 {
	var out []uint64
	for i := range *howMany {
		out = append(out, first+uint64(i))
	}
	return out
}

// A turn is a verdict that was another than the one before.
type turn struct {
	at      time.Duration
	verdict health.Verdict
}

// A counter counts samples: the times at which metrics, or what stands in for
// them, are asked for.
type counter struct {
	http.RoundTripper
	start time.Time
	mu    sync.Mutex
	times []time.Duration
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	at := time.Since(c.start)
	c.mu.Lock()
	if n := len(c.times); n == 0 || c.times[n-1] != at {
		c.times = append(c.times, at)
	}
	c.mu.Unlock()
	return c.RoundTripper.RoundTrip(r)
}

// outcome is what came of an incident.
type outcome struct {
	turns   []turn
	samples []time.Duration
}

// watch plays an incident for a time and returns what was said of it.
func watch(t *testing.T, in incident, server engine.ServerConfig, l load, seed uint64, d time.Duration) (out outcome) {
	t.Helper()
	var start time.Time
	var count *counter
	s := setup{server: server, client: in.client, monitor: func(c *health.Config) {
		start = time.Now()
		count = &counter{RoundTripper: c.HTTPClient.Transport, start: start}
		c.HTTPClient = &http.Client{Transport: count}
		c.Interval = cmp.Or(in.interval, c.Interval)
		c.OnVerdict = func(v health.Verdict) { out.turns = append(out.turns, turn{v.At.Sub(start), v}) }
	}}
	play(t, s, func(r *rig) {
		r.run(l, seed)
		time.Sleep(d)
		require.NoError(t, r.mon.Close())
		r.stop()
		r.agents.Wait()
	})
	out.samples = count.times
	return out
}

// right returns when, and after how many samples since a moment, a right state
// was told, and what wrong faults were told before and after.
func (o outcome) right(want, passing []health.State, from, shows time.Duration) (took time.Duration, samples int, false1, wrong []string) {
	took = -1
	var already health.State // what is right was said before, and stayed
	for _, turn := range o.turns {
		s := turn.verdict.State
		switch ok := slices.Contains(want, s); {
		case turn.at < from:
			if in := slices.Contains(want, s); in {
				already = turn.verdict.State
			} else {
				already = ""
			}
			if s.Fault() || s == health.StateCannotTell {
				false1 = append(false1, fmt.Sprintf("%s at %v", s, turn.at))
			}
		case ok && took < 0:
			took = max(0, turn.at-shows)
			for _, at := range o.samples {
				// One that is taken as it begins cannot show it.
				if at > shows+2*time.Second && at <= turn.at {
					samples++
				}
			}
		case s == health.StateUnproven:
		case !ok && took >= 0 && !slices.Contains(passing, s):
			wrong = append(wrong, fmt.Sprintf("%s at %v", s, turn.at))
		case !ok && s.Fault() && !slices.Contains(passing, s):
			wrong = append(wrong, fmt.Sprintf("%s at %v", s, turn.at))
		}
	}
	if took < 0 && already != "" {
		took = 0
	}
	return took, samples, false1, wrong
}

// TestVerdicts plays every incident with several seeds, with metrics and
// without, under load and with the load at rest when it begins, and prints a
// table of how often the verdict was right, how many samples it took at most,
// and how long:
//
//	go test -v -run 'TestVerdicts|TestNoFalseAlarms' ./health -seeds 3
func TestVerdicts(t *testing.T) {
	only := *onlyIncident
	var mu sync.Mutex
	var rows []string
	t.Run("incidents", func(t *testing.T) {
		for name, in := range incidents() {
			if only != "" && only != name {
				continue
			}
			if underRace && in.watch > 0 {
				continue // it takes long, and is the same code
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				row := fmt.Sprintf("%-48s", name)
				for _, off := range []bool{false, true} {
					if off && underRace {
						continue // the same code, and less of it
					}
					r := judge(t, in, seeds(1), off, only != "")
					row += " | " + r
				}
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row)
			})
		}
	})
	slices.Sort(rows)
	t.Logf("\n%-48s | %-44s | %s\n%s", "incident", "with metrics: verdict, samples, time", "without", strings.Join(rows, "\n"))
}

// judge plays an incident with all seeds and says how it went.
func judge(t *testing.T, in incident, seeds []uint64, off, show bool) string {
	want := in.with
	if off {
		want = in.without
	}
	from := cmp.Or(in.at, changeAt)
	var (
		worst   time.Duration
		most    int
		said    = make(map[health.State]int)
		rightly int
		runs    int
	)
	for _, seed := range seeds {
		for _, rested := range []bool{false, true} {
			if rested && (in.whole || off || underRace) {
				continue
			}
			runs++
			l, shows := in.load, from+in.after
			if rested {
				// At rest from before it begins until it has gone on for a while.
				l.pause, l.pauses = 25*time.Second, []time.Duration{from - 8*time.Second}
				shows = max(shows, from+17*time.Second)
			} else if !in.whole {
				l.pause, l.pauses = 6*time.Second, []time.Duration{10 * time.Second}
			}
			server := in.server(seed)
			server.NoMetrics = off
			out := watch(t, in, server, l, seed, min(shows+cmp.Or(in.watch, usually()), cmp.Or(in.until, time.Hour)))
			took, samples, before, wrong := out.right(want, in.passing, from, shows)
			label := fmt.Sprintf("seed %d, rested %v, metrics off %v", seed, rested, off)
			if show {
				for _, turn := range out.turns {
					t.Logf("%s: %v\n%s", label, turn.at, turn.verdict)
				}
			}
			assert.Empty(t, before, "%s: false alarms before it began", label)
			assert.Empty(t, wrong, "%s: wrong verdicts", label)
			if !assert.GreaterOrEqual(t, took, time.Duration(0), "%s: never right, but %v", label, out.said()) {
				continue
			}
			rightly++
			worst, most = max(worst, took), max(most, samples)
			for _, turn := range out.turns {
				if turn.at >= shows && slices.Contains(want, turn.verdict.State) {
					said[turn.verdict.State]++
					break
				}
			}
		}
	}
	var names []string
	for s := range said {
		names = append(names, string(s))
	}
	slices.Sort(names)
	return fmt.Sprintf("%d/%d %s, %d, %v", rightly, runs, strings.Join(names, " or "), most, worst.Round(time.Second))
}

func (o outcome) said() []string {
	var out []string
	for _, turn := range o.turns {
		out = append(out, fmt.Sprintf("%v %s", turn.at, turn.verdict.State))
	}
	return out
}
