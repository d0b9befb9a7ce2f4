package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// useful plays a setting with a fixed limit for its whole time.
func useful(t testing.TB, name string, seed uint64, gate engine.Gate) int {
	t.Helper()
	cfg, err := engine.Setting(name, seed)
	require.NoError(t, err)
	s, err := engine.Play(cfg, engine.Load{Calls: -1, Until: engine.SettingTime, Seed: seed}, gate)
	require.NoError(t, err)
	return s.Useful
}

// best finds the best fixed limit for a setting, where it may be.
func best(t testing.TB, name string, seed uint64, from, to int) (limit, most int) {
	t.Helper()
	for l := from; l <= to; l++ {
		if n := useful(t, name, seed, engine.Fixed(l)); n > most {
			limit, most = l, n
		}
	}
	return limit, most
}

// The shape that the settings were made for.
func TestOverloadHasItsBestAtTen(t *testing.T) {
	for seed := range uint64(3) {
		limit, most := best(t, "overload", seed, 7, 13)
		share := func(l int) float64 { return float64(useful(t, "overload", seed, engine.Fixed(l))) / float64(most) }
		assert.InDelta(t, 10, limit, 1, "seed %d", seed)
		assert.InDelta(t, 0.63, share(20), 0.07, "seed %d", seed)
		assert.Less(t, share(24), 0.05, "seed %d", seed)
		assert.Less(t, share(0), 0.05, "seed %d", seed)
	}
}

// Clients that give up and ask again, all at once, take a server down that
// would have been fine with fewer.
func TestAnAbortStormIsMadeByItsClients(t *testing.T) {
	cfg, err := engine.Setting("abort-storm", 1)
	require.NoError(t, err)
	_, most := best(t, "abort-storm", 1, 8, 10)
	s, err := engine.Play(cfg, engine.Load{Calls: -1, Tries: 3, Until: engine.SettingTime}, engine.Fixed(0))
	require.NoError(t, err)
	assert.Less(t, float64(s.Useful), 0.2*float64(most))
}

// Half of an engine does half, with half as many in flight.
func TestHalving(t *testing.T) {
	cfg, err := engine.Setting("overload", 1)
	require.NoError(t, err)
	half := cfg
	half.Changes = []engine.Change{{Kind: engine.Capacity, Factor: 0.5}}
	rate := func(cfg engine.Config, limit int) float64 {
		s, err := engine.Play(cfg, engine.Load{Calls: -1, Until: engine.SettingTime, Timeout: -1}, engine.Fixed(limit))
		require.NoError(t, err)
		return float64(s.Useful)
	}
	assert.InEpsilon(t, rate(cfg, 10)/2, rate(half, 5), 0.02)
}

// One who knows the phases does better than any fixed limit, though not by
// much.
func TestAnOracleIsNoWorse(t *testing.T) {
	_, fixed := best(t, "batch-cost", 1, 5, 9)
	most := 0
	for dear := 3; dear <= 6; dear++ {
		most = max(most, useful(t, "batch-cost", 1, engine.Planned(
			engine.Stage{Limit: 10}, engine.Stage{From: engine.ChangeAt, Limit: dear}, engine.Stage{From: 2 * engine.ChangeAt, Limit: 10},
		)))
	}
	assert.Greater(t, most, fixed)
}

func TestEverySettingIsAnEngine(t *testing.T) {
	for _, name := range engine.Names() {
		n := useful(t, name, 2, engine.Fixed(4))
		assert.Positive(t, n, name)
		assert.Equal(t, n, useful(t, name, 2, engine.Fixed(4)), "%s plays twice the same", name)
	}
	_, err := engine.Setting("sunshine", 1)
	assert.ErrorContains(t, err, `engine: setting "sunshine" is not known; there are [abort-storm batch-cost`)
}

func TestAFiniteLoadEnds(t *testing.T) {
	s, err := engine.Play(exact(), engine.Load{Agents: 3, Calls: 2, Prompt: 5, Output: 2, Think: time.Second}, engine.Fixed(1))
	require.NoError(t, err)
	assert.Equal(t, "6 of 6 calls useful in 1.108s, 5.42 a second, 1.00 tries a call", s.String())
	assert.Equal(t, []int{2, 2, 2}, s.Agents)
	assert.Equal(t, map[string]int{"0": 2, "1": 2, "2": 2}, s.Record.Agents)
	assert.Equal(t, 12, s.Tokens)
}

// The conversation of an agent grows, so a fault of long prompts alone shows
// after some rounds, and what was sent before is in the cache.
func TestALoadOfConversations(t *testing.T) {
	cfg := exact()
	cfg.Changes = []engine.Change{{Kind: engine.WedgeLong, N: 100}}
	load := engine.Load{Agents: 2, Calls: 25, Prompt: 50, Grow: 10, Output: 1, Timeout: 10 * time.Second}
	s, err := engine.Play(cfg, load, engine.Fixed(0))
	require.NoError(t, err)
	// Of each twenty rounds the first six have 50 to 100 tokens.
	assert.Equal(t, []int{6 + 5, 6 + 5}, s.Agents)
	s, err = engine.Play(exact(), load, engine.Fixed(0))
	require.NoError(t, err)
	assert.Equal(t, 50, s.Useful)
	assert.Less(t, s.Took, 2*time.Second, "only what is new is computed")
}

func TestALoadGivesUpAndTriesAgain(t *testing.T) {
	cfg := exact()
	cfg.Changes = []engine.Change{{Kind: engine.Lose, Factor: 1, Until: 7 * time.Second}}
	load := engine.Load{Agents: 1, Calls: 1, Prompt: 5, Output: 1, Timeout: 3 * time.Second}
	s, err := engine.Play(cfg, load, engine.Fixed(1))
	require.NoError(t, err)
	assert.Equal(t, []any{0, 1}, []any{s.Useful, s.Tries})
	assert.Equal(t, 3*time.Second, s.Took)

	load.Tries = 3
	s, err = engine.Play(cfg, load, engine.Fixed(1))
	require.NoError(t, err)
	assert.Equal(t, []any{1, 3}, []any{s.Useful, s.Tries})
}

func TestALoadsOwnRetries(t *testing.T) {
	cfg := exact()
	cfg.RetryAfter = 2 * time.Second
	cfg.Changes = []engine.Change{change(engine.Unavailable, 0, 5*time.Second)}
	s, err := engine.Play(cfg, engine.Load{
		Agents: 1, Calls: 1, Prompt: 5, Output: 1,
		Retry: func(_, tries int, o engine.Outcome) (time.Duration, bool) { return o.RetryAfter, tries < 10 },
	}, nil)
	require.NoError(t, err)
	assert.Equal(t, []any{1, 4}, []any{s.Useful, s.Tries})
	assert.Equal(t, 6*time.Second+19*ms, s.Took, "three refusals of a millisecond, and an answer of 16")
}

// watcher is a gate that opens at times, and notes what it is told.
type watcher struct {
	open  time.Duration
	notes []string
}

func (w *watcher) Enter(now time.Duration, agent int) bool {
	w.notes = append(w.notes, fmt.Sprintf("%v enter %d", now, agent))
	return now >= w.open
}
func (w *watcher) First(now time.Duration, agent int, after time.Duration) {
	w.notes = append(w.notes, fmt.Sprintf("%v first %d after %v", now, agent, after))
}
func (w *watcher) Leave(now time.Duration, agent int, o engine.Outcome) {
	w.notes = append(w.notes, fmt.Sprintf("%v leave %d %+v", now, agent, o))
}
func (w *watcher) Wake(now time.Duration) (time.Duration, bool) { return w.open, now < w.open }

func TestWhatAGateIsTold(t *testing.T) {
	w := &watcher{open: time.Second}
	_, err := engine.Play(exact(), engine.Load{Agents: 1, Calls: 1, Prompt: 5, Output: 2}, w)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"0s enter 0",
		"1s enter 0",
		"1.016s first 0 after 16ms",
		"1.027s leave 0 {Result:stop At:1.027s First:16ms Duration:27ms Tokens:2 RetryAfter:0s}",
	}, w.notes)
}

func TestALoadSaysWhatIsWrong(t *testing.T) {
	_, err := engine.Play(engine.Config{}, engine.Load{Agents: -1}, engine.Fixed(1))
	assert.EqualError(t, err, "engine: load of -1 agents, 200 and 0 tokens of prompt, want 0 or more each")
	_, err = engine.Play(engine.Config{Slots: -1}, engine.Load{}, engine.Fixed(1))
	assert.EqualError(t, err, "engine: Slots is -1, want 1 or more")
}
