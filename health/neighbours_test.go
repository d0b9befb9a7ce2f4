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
			)}, load: ordinary, want: states(health.StatePartialRestart), never: states(health.StateWedgedEngine),
		},
		"the decode side alone restarted, and all is well": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, Side: engine.Decode, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.StateRecovered, health.StateHealthy), never: states(health.StatePartialRestart, health.StateWedgedTransfer), lasts: 2 * time.Minute,
		},
		"both sides restarted": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.StateRecovered, health.StateHealthy), never: states(health.StatePartialRestart, health.StateWedgedTransfer), lasts: 2 * time.Minute,
		},
		"the router restarted": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Down, Side: engine.Front, At: changeAt, Until: changeAt + 15*time.Second})},
			load:   ordinary, want: states(health.StateRecovered, health.StateHealthy), never: states(health.StatePartialRestart, health.StateWedgedTransfer, health.StateWedgedEngine), lasts: 2 * time.Minute,
		},
		"the router forgot all that it had, and goes on": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Lose, Factor: 1, At: changeAt, Until: changeAt + 3*time.Second})},
			load:   ordinary, want: states(health.StateRecovered, health.StateHealthy, health.StateBusy), never: states(health.StatePartialRestart, health.StateWedgedTransfer, health.StateWedgedEngine), lasts: 4 * time.Minute,
		},
		"the prefill side's scheduler stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Prefill, At: changeAt})},
			load:   ordinary, want: states(health.StateWedgedEngine, health.StateFrontEndAlone), never: states(health.StatePartialRestart),
		},
		"the decode side's scheduler stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Decode, At: changeAt})},
			load:   ordinary, want: states(health.StateWedgedEngine, health.StateFrontEndAlone), never: states(health.StatePartialRestart),
		},
		"the router stops": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.Wedge, Side: engine.Front, At: changeAt})},
			load:   ordinary, want: states(health.StateLost, health.StateRouterFull, health.StateCannotTell), never: states(health.StatePartialRestart, health.StateWedgedTransfer, health.StateWedgedEngine),
		},
		"some transfers fail": {
			server: engine.ServerConfig{Engine: apart(engine.Change{Kind: engine.FailTransfer, Factor: 0.9, At: changeAt})},
			load:   ordinary, want: states(health.StateFailing), never: states(health.StatePartialRestart, health.StateWedgedTransfer, health.StateWedgedEngine),
		},
		"metrics are switched off while all is well": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.NoMetrics, At: changeAt})},
			load:   ordinary, want: states(health.StateHealthy), never: states(health.StateUnreachable, health.StateCannotTell, health.StateWedgedEngine, health.StateLost),
		},
		"half of the engine is lost, and what is left is enough": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Capacity, Factor: 0.5, At: changeAt})},
			load:   few, want: states(health.StateHealthy, health.StateBusy, health.StateSaturated), never: states(health.StateWedgedEngine, health.StateLost),
		},
		"the scheduler pauses for six seconds": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt, Until: changeAt + 6*time.Second})},
			load:   ordinary, want: states(health.StateHealthy, health.StateBusy, health.StateRecovered), never: states(health.StateWedgedEngine, health.StateFrontEndAlone, health.StateLost, health.StateUnreachable),
		},
		"the scheduler stops, and our pacer lets three calls through": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt})},
			load:   load{agents: 12, think: time.Second, prompt: 200}, client: three, want: states(health.StateWedgedEngine), never: states(health.StateOwnQueue),
		},
		"a server without metrics answers nothing more, and our pacer lets three calls through": {
			server: engine.ServerConfig{Engine: changes(engine.Change{Kind: engine.Wedge, At: changeAt}), NoMetrics: true},
			load:   load{agents: 12, think: time.Second, prompt: 200}, client: three, want: states(health.StateCannotTell, health.StateFrontEndAlone), never: states(health.StateOwnQueue),
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
