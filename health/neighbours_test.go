package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// TestNeighbours plays what lies beside the incidents, and looks at what was
// said in the end, and at what should never have been.
func TestNeighbours(t *testing.T) {
	if underRace {
		t.Skip("the same code as that of the incidents")
	}
	changes := func(list ...engine.Change) engine.Config { return engine.Config{Changes: list} }
	apart := func(list ...engine.Change) engine.Config {
		return engine.Config{Changes: list, Split: &engine.Split{}, Router: &engine.Router{}}
	}
	three := func(c *llmclient.Config) { c.Pacer = pacer.Config{MaxInFlight: 3, StartInFlight: -1} }
	for name, tt := range map[string]struct {
		server engine.ServerConfig
		load   load
		client func(*llmclient.Config)
		want   []health.State // that are right in the end
		never  []health.State
		lasts  time.Duration // after it began; zero is 60 s
	}{
		"the prefill side alone restarted, and nothing gets through since": {
			server: engine.ServerConfig{Engine: apart(
				engine.Change{Kind: engine.Down, Side: engine.Prefill, At: changeAt, Until: changeAt + 15*time.Second},
				engine.Change{Kind: engine.WedgeTransfer, At: changeAt},
			)}, load: ordinary, want: states(health.PartialRestart), never: states(health.WedgedEngine),
		},
		"the decode side alone restarted, and all is well": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, Side: engine.Decode, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.Recovered, health.Healthy), never: states(health.PartialRestart, health.WedgedTransfer), lasts: 2 * time.Minute,
		},
		"both sides restarted": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.Recovered, health.Healthy), never: states(health.PartialRestart, health.WedgedTransfer), lasts: 2 * time.Minute,
		},
		"the router restarted": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, Side: engine.Front, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.Recovered, health.Healthy), never: states(health.PartialRestart, health.WedgedTransfer, health.WedgedEngine), lasts: 2 * time.Minute,
		},
		"the router forgot all that it had, and goes on": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Lose, Factor: 1, At: changeAt, Until: changeAt + 3*time.Second})},
			load:   ordinary, want: states(health.Recovered, health.Healthy, health.Busy), never: states(health.PartialRestart, health.WedgedTransfer, health.WedgedEngine), lasts: 4 * time.Minute,
		},
		"the prefill side's scheduler stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Prefill, At: changeAt})},
			load:   ordinary, want: states(health.WedgedEngine, health.FrontEndAlone), never: states(health.PartialRestart),
		},
		"the decode side's scheduler stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Decode, At: changeAt})},
			load:   ordinary, want: states(health.WedgedEngine, health.FrontEndAlone), never: states(health.PartialRestart),
		},
		"the router stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Front, At: changeAt})},
			load:   ordinary, want: states(health.Lost, health.RouterFull, health.CannotTell), never: states(health.PartialRestart, health.WedgedTransfer, health.WedgedEngine),
		},
		"some transfers fail": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.FailTransfer, Factor: 0.9, At: changeAt})},
			load:   ordinary, want: states(health.Failing), never: states(health.PartialRestart, health.WedgedTransfer, health.WedgedEngine),
		},
		"metrics are switched off while all is well": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.NoMetrics, At: changeAt})},
			load:   ordinary, want: states(health.Healthy), never: states(health.Unreachable, health.CannotTell, health.WedgedEngine, health.Lost),
		},
		"half of the engine is lost, and what is left is enough": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Capacity, Factor: 0.5, At: changeAt})},
			load:   few, want: states(health.Healthy, health.Busy, health.Saturated), never: states(health.WedgedEngine, health.Lost),
		},
		"the scheduler pauses for six seconds": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt, Until: changeAt + 6*time.Second})},
			load:   ordinary, want: states(health.Healthy, health.Busy, health.Recovered), never: states(health.WedgedEngine, health.FrontEndAlone, health.Lost, health.Unreachable),
		},
		"the scheduler stops, and our pacer lets three calls through": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt})},
			load:   load{agents: 12, think: time.Second, prompt: 200}, client: three, want: states(health.WedgedEngine), never: states(health.OwnQueue),
		},
		"a server without metrics answers nothing more, and our pacer lets three calls through": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt}), NoMetrics: true},
			load:   load{agents: 12, think: time.Second, prompt: 200}, client: three, want: states(health.CannotTell, health.FrontEndAlone), never: states(health.OwnQueue),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range seeds(1) {
				tt.server.Engine.Seed = seed
				lasts := tt.lasts
				if lasts == 0 {
					lasts = time.Minute
				}
				out := watch(t, incident{client: tt.client}, tt.server, tt.load, seed, changeAt+lasts)
				last := out.turns[len(out.turns)-1].verdict
				assert.Contains(t, tt.want, last.State, "seed %d: %v\n%s", seed, out.said(), last)
				for _, turn := range out.turns {
					if s := turn.verdict.State; turn.at < changeAt && s.Fault() || slices.Contains(tt.never, s) {
						t.Errorf("seed %d, after %v:\n%s", seed, turn.at, turn.verdict)
					}
				}
			}
		})
	}
}
