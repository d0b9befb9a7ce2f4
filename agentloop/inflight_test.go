package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Agents that wait for a place in flight do not hide systemic trouble of those that
// have one: if all agents that may ask fail or are silent, it is systemic.
func TestTroubleOfAllIsSeenThroughFewPlaces(t *testing.T) {
	const m = time.Minute
	busy := agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) { return nil, passing{} })
	slow := agentloop.ModelFunc(after(4*m, says("ok")))
	for name, c := range map[string]struct {
		model  agentloop.Model
		places int
		agents int
		told   int
		took   time.Duration
	}{
		"silent, four places":             {agentloop.ModelFunc(silent), 4, 20, 1, 5 * m},
		"silent, one place":               {agentloop.ModelFunc(silent), 1, 20, 1, 5 * m},
		"silent, more places than agents": {agentloop.ModelFunc(silent), 100, 20, 1, 5 * m},
		"silent, too few agents to tell":  {agentloop.ModelFunc(silent), 1, 2, 0, 2 * time.Hour},
		"failing, four places":            {busy, 4, 20, 1, 0},
		"slow and well, four places":      {slow, 4, 20, 0, 20 * m},
		"slow and well, one place":        {slow, 1, 20, 0, 80 * m},
	} {
		t.Run(name, func(t *testing.T) {
			for _, action := range []agentloop.StallAction{agentloop.StallReport, agentloop.StallRetry} {
				synctest.Test(t, func(t *testing.T) {
					var told []*agentloop.SystemicError
					rep := runGroup(t, t.Context(), agentloop.GroupConfig{
						Agents: many(t, c.agents, agentloop.Config{Model: c.model}), MaxInFlight: c.places, OnStall: action,
						Systemic: agentloop.SystemicConfig{Action: agentloop.SystemicStop},
						OnEvent: func(e agentloop.Event) {
							if e.Kind == agentloop.EventSystemic {
								told = append(told, e.Err.(*agentloop.SystemicError))
							}
						},
					})
					require.Len(t, told, c.told, "%v after %v", rep.Counts, rep.Duration)
					if action == agentloop.StallReport || c.told > 0 {
						assert.Equal(t, c.took, rep.Duration)
					}
					if c.told > 0 {
						assert.Equal(t, c.agents, rep.Counts[agentloop.Failed])
					}
					if c.places == 1 && c.told > 0 {
						assert.Equal(t, c.agents, told[0].Agents)
						assert.Equal(t, 1, told[0].Waiting)
						assert.Equal(t, c.agents-1, told[0].Queued)
						assert.ErrorContains(t, rep.Err, "19 get no place, for the silent calls hold all")
					}
				})
			}
		})
	}
}

// One agent's trouble is not that of all because the others have no place.
func TestAFewFaultsUnderFewPlacesAreNoTroubleOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ill := agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) { return nil, passing{} })
		well := agentloop.ModelFunc(after(time.Second, says("ok")))
		var list []*agentloop.Agent
		for i := range 20 {
			m := agentloop.Model(well)
			if i < 2 {
				m = ill
			}
			list = append(list, newAgent(t, agentloop.Config{Name: fmt.Sprint("a", i), Model: m}))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, MaxInFlight: 2, OnEvent: func(e agentloop.Event) {
			assert.NotEqual(t, agentloop.EventSystemic, e.Kind)
		}})
		assert.Equal(t, 18, rep.Counts[agentloop.Done], "%v", rep.Counts)
	})
}

// forgetful is a server that never answers some of the requests, the first of an
// agent each time, and all others after a second.
type forgetful struct {
	mu      sync.Mutex
	forgets map[string]bool
	busy    int
	most    int
}

func (f *forgetful) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	f.mu.Lock()
	forgets := f.forgets[req.Caller]
	if !forgets {
		f.busy++
		f.most = max(f.most, f.busy)
	}
	f.mu.Unlock()
	if forgets {
		return silent(ctx, req)
	}
	defer func() {
		f.mu.Lock()
		f.busy--
		f.mu.Unlock()
	}()
	return after(time.Second, says("ok"))(ctx, req)
}

// Requests that the server has forgotten hold no place for ever: all the others
// come to their answers, and never more of them at a time than there are places.
func TestForgottenRequestsHoldNoPlace(t *testing.T) {
	for name, forgotten := range map[string][]string{
		"one of the first":   {"a1"},
		"all of the first":   {"a0", "a1", "a2", "a3"},
		"some of the others": {"a1", "a5", "a9", "a13", "a14", "a15", "a16", "a17"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &forgetful{forgets: map[string]bool{}}
				for _, who := range forgotten {
					f.forgets[who] = true
				}
				var list []*agentloop.Agent
				for i := range 30 {
					list = append(list, newAgent(t, agentloop.Config{Name: fmt.Sprint("a", i), Model: f}))
				}
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, MaxInFlight: 4, Rand: func() float64 { return 0 }})
				assert.Equal(t, 30-len(forgotten), rep.Counts[agentloop.Done], "%v %v", rep.Counts, rep.Err)
				assert.Equal(t, len(forgotten), rep.Counts[agentloop.Exhausted])
				assert.LessOrEqual(t, f.most, 4)
			})
		})
	}
}

// aWord is what comes of an engine that is wedged behind its first token.
func aWord(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	time.Sleep(5 * time.Second)
	req.OnOutput()
	return silent(ctx, req)
}

// A probe that hangs is not waited for: another agent's is let through after 30
// seconds without output. One whose output has gone on for as long shows that the
// endpoint works, long before its answer is whole; a first word does not.
func TestAProbeThatHangsDoesNotHoldAll(t *testing.T) {
	for name, c := range map[string]struct {
		first step // the first probe
		done  int
		back  time.Duration // when the trouble is over
	}{
		"answers":             {says("ok"), 20, time.Second},
		"hangs":               {silent, 19, 31 * time.Second},
		"takes less than 30s": {after(30*time.Second-1, says("ok")), 20, 31*time.Second - 1},
		"streams for long":    {streams(10*time.Minute, 20*time.Second), 20, 71 * time.Second},
		"streams too seldom":  {streams(10*time.Minute, 40*time.Second), 20, 31 * time.Second},
		"pings for long":      {pings(10*time.Minute, 20*time.Second), 20, 31 * time.Second},
		"gives one word":      {aWord, 19, 36 * time.Second},
		"fails":               {fails(passing{}), 20, 2 * time.Second},
		"fails for good":      {fails(errors.New("400")), 19, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var mu sync.Mutex
				probes := 0
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					if time.Since(start) < time.Second {
						return nil, passing{}
					}
					mu.Lock()
					probes++
					first := probes == 1
					mu.Unlock()
					if first {
						return c.first(ctx, req)
					}
					return says("done")(ctx, req)
				})
				var back []time.Duration
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: many(t, 20, agentloop.Config{Model: m}), Rand: func() float64 { return 0 },
					Systemic: agentloop.SystemicConfig{Limit: time.Hour},
					OnEvent: func(e agentloop.Event) {
						if e.Kind == agentloop.EventRecovered {
							back = append(back, e.Time.Sub(start))
						}
					},
				})
				assert.Equal(t, c.done, rep.Counts[agentloop.Done], "%v after %v: %v", rep.Counts, rep.Duration, rep.Err)
				assert.Equal(t, []time.Duration{c.back}, back)
			})
		})
	}
}

// While the endpoint hangs, probes get rarer: a slow server is not buried in them.
func TestProbesThatHangGetRarer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		var mu sync.Mutex
		m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if time.Since(start) < time.Second {
				return nil, passing{}
			}
			mu.Lock()
			at = append(at, time.Since(start))
			mu.Unlock()
			return silent(ctx, req)
		})
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: many(t, 20, agentloop.Config{Model: m}), Rand: func() float64 { return 0 }, StallAfter: time.Hour,
		})
		const s = time.Second
		assert.Equal(t, []time.Duration{1 * s, 31 * s, 91 * s, 211 * s, 451 * s}, at)
		assert.Equal(t, 20, rep.Counts[agentloop.Failed], rep.Counts)
		assert.Equal(t, 10*time.Minute, rep.Duration)
	})
}

// Agents that wait for places that silent calls hold begin to probe. When one has an
// answer all go on, except those whose calls were silent.
func TestWhoWaitsForAPlaceProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked atomic.Int32
		m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if asked.Add(1) <= 2 {
				return silent(ctx, req)
			}
			return after(time.Second, says("done"))(ctx, req)
		})
		var said []string
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: many(t, 10, agentloop.Config{Model: m}), MaxInFlight: 2, StallAfter: time.Minute, Timeout: 9 * time.Minute, WindDown: -1,
			Rand: func() float64 { return 0 }, OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventSystemic || e.Kind == agentloop.EventRecovered || e.Outcome == agentloop.Done {
					said = append(said, fmt.Sprint(e.Time.Sub(start), " ", e.Kind))
				}
			},
		})
		assert.Equal(t, map[agentloop.Outcome]int{agentloop.Done: 8, agentloop.Exhausted: 2}, rep.Counts)
		assert.Equal(t, []string{
			"1m0s systemic", "1m2s recovered", "1m2s ended",
			"1m3s ended", "1m3s ended", "1m4s ended", "1m4s ended", "1m5s ended", "1m5s ended", "1m6s ended",
		}, said)
	})
}

// An agent that was parked and ended before it had a turn again has none to give.
func TestWhoEndsWithoutATurnGivesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var list []*agentloop.Agent
		var began []string
		for i, m := range []step{fails(passing{2 * time.Minute}), after(10*time.Minute, says("done")), after(time.Minute, says("done"))} {
			list = append(list, newAgent(t, agentloop.Config{Name: fmt.Sprint("a", i), Model: agentloop.ModelFunc(m), Timeout: time.Duration(3+17*i) * time.Minute}))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, MaxParallel: 1, OnEvent: func(e agentloop.Event) {
			if e.Kind == agentloop.EventStarted || e.Kind == agentloop.EventEnded {
				began = append(began, fmt.Sprint(e.Agent, " ", e.Kind, " ", e.Time.Sub(start)))
			}
		}})
		assert.Equal(t, agentloop.Exhausted, rep.Results[0].Outcome)
		assert.Equal(t, []string{
			"a0 started 0s", "a1 started 0s", "a0 ended 3m0s", "a1 ended 10m0s", "a2 started 10m0s", "a2 ended 11m0s",
		}, began)
	})
}
