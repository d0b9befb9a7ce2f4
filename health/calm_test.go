package health_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// slow is an engine that makes few tokens, so that half an hour of it does not
// take long to play.
func slow(c engine.Config) engine.Config {
	c.Slots = 8
	c.Answers = engine.Lengths{Mean: 40, Spread: 0.5}
	c.Cost = engine.Cost{Step: 250 * time.Millisecond, PerPrompt: 200 * time.Microsecond}
	c.GaugeEvery = 3 * time.Second
	return c
}

// TestNoFalseAlarms plays health for long (half an hour with three seeds), at rest, under light load and
// saturated, of every kind of service, and prints what was said.
func TestNoFalseAlarms(t *testing.T) {
	services := map[string]engine.ServerConfig{
		"SGLang": {Engine: slow(engine.Config{})},
		"vLLM":   {Engine: slow(engine.Config{}), Dialect: engine.VLLM},
		"split":  {Engine: slow(engine.Config{Split: &engine.Split{}, Router: &engine.Router{}})},
		"dark":   {Engine: slow(engine.Config{}), NoMetrics: true},
	}
	loads := map[string]struct {
		load load
		want []health.State
	}{
		// A call every five minutes, and nothing else.
		"at rest": {load{agents: 1, think: 5 * time.Minute, prompt: 200}, states(health.StateHealthy, health.StateBusy)},
		"light":   {load{agents: 3, think: 20 * time.Second, prompt: 500}, states(health.StateHealthy, health.StateBusy)},
		"long prompts now and then": {
			load{agents: 3, think: 30 * time.Second, prompt: 700, wide: true},
			states(health.StateHealthy, health.StateBusy, health.StatePrefillBound, health.StateSaturated),
		},
		// Agents that call tools for a while, and then write a file at once.
		"files now and then": {
			load{agents: 6, think: 2 * time.Second, prompt: 300, output: 20, file: 1500},
			states(health.StateHealthy, health.StateBusy, health.StateSaturated),
		},
		"in bursts": {load{
			agents: 6, think: 3 * time.Second, prompt: 300, pause: 3 * time.Minute,
			pauses: []time.Duration{2 * time.Minute, 9 * time.Minute, 20 * time.Minute},
		}, states(health.StateHealthy, health.StateBusy, health.StateSaturated)},
		"saturated": {load{agents: 24, prompt: 300}, states(health.StateSaturated, health.StateBusy, health.StateHealthy)},
	}
	// The first seed alone is a short look.
	long := 30 * time.Minute
	if *howMany < 3 {
		long = 8 * time.Minute
	}
	if underRace {
		long = 3 * time.Minute
	}
	var mu sync.Mutex
	var rows []string
	t.Run("for long", func(t *testing.T) {
		for service, server := range services {
			for name, l := range loads {
				t.Run(service+" "+name, func(t *testing.T) {
					t.Parallel()
					server := server // its seed is this one's own
					samples, alarms := 0, 0
					said := make(map[health.State]bool)
					for _, seed := range seeds(1) {
						server.Engine.Seed = seed
						out := watch(t, incident{interval: *interval}, server, l.load, seed, long)
						samples += len(out.samples)
						for _, turn := range out.turns {
							said[turn.verdict.State] = true
							if s := turn.verdict.State; s != health.StateIdle && !slices.Contains(l.want, s) && (service != "dark" || turn.verdict.State != health.StateCannotTell || name == "at rest" || name == "light") {
								alarms++
								t.Errorf("seed %d, after %v:\n%s", seed, turn.at, turn.verdict)
							}
						}
					}
					var list []string
					for s := range said {
						list = append(list, string(s))
					}
					slices.Sort(list)
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, fmt.Sprintf("%-34s | %7d | %6d | %s", service+", "+name, samples, alarms, strings.Join(list, ", ")))
				})
			}
		}
	})
	slices.Sort(rows)
	t.Logf("\n%-34s | %7s | %6s | %s\n%s", long.String()+" of", "samples", "alarms", "said", strings.Join(rows, "\n"))
}

// TestAfterwards plays faults that end, and looks at what is said then.
func TestAfterwards(t *testing.T) {
	fault := func(kind engine.Kind) engine.Config {
		return engine.Config{Changes: []engine.Change{{Kind: kind, At: changeAt, Until: changeAt + time.Minute}}}
	}
	tests := map[string]struct {
		engine engine.Config
		load   load
		want   []health.State // in this order, among others
		last   health.State
	}{
		"a wedge that ends while calls go on": {
			fault(engine.Wedge), load{agents: 6, think: time.Second, prompt: 200}, states(health.StateHealthy, health.StateWedgedEngine, health.StateRecovered), health.StateHealthy,
		},
		"an outage that ends while calls go on": {
			fault(engine.Down), few, states(health.StateHealthy, health.StateUnreachable, health.StateRecovered), health.StateHealthy,
		},
		"a wedge after which nobody asks any more": {
			fault(engine.Wedge), load{agents: 6, think: 2 * time.Second, prompt: 200, limit: 40 * time.Second, pause: time.Hour, pauses: []time.Duration{changeAt + 20*time.Second}},
			states(health.StateHealthy, health.StateWedgedEngine, health.StateUnproven), health.StateUnproven,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := watch(t, incident{}, engine.ServerConfig{Engine: tt.engine}, tt.load, 1, 12*time.Minute)
			want := tt.want
			for _, turn := range out.turns {
				if len(want) > 0 && turn.verdict.State == want[0] {
					want = want[1:]
				}
			}
			assert.Empty(t, want, "not said: it was %v", out.said())
			assert.Equal(t, tt.last, out.turns[len(out.turns)-1].verdict.State, "%v", out.said())
		})
	}
}

// TestWithAnAdaptivePacer plays the incidents as clients meet them by default:
// their pacers take load from a server that gets slow, and what is left to see
// is less.
func TestWithAnAdaptivePacer(t *testing.T) {
	if *howMany < 3 && *onlyIncident == "" {
		t.Skip("with -seeds 3")
	}
	for name, in := range incidents() {
		if in.client != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in.client = func(c *llmclient.Config) { c.Pacer = pacer.Config{} }
			in.whole = true
			// The pacer takes the load away, and with it what there was to see.
			in.passing = append(in.passing, health.StateSaturated, health.StateCannotTell)
			judge(t, in, seeds(4), false, *onlyIncident == name)
		})
	}
}
