package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// An endpoint works but for some time.
type endpoint struct {
	name       string
	down, back time.Duration // since the start
	hangs      bool          // it does not answer while it is down, or fails
	start      time.Time

	mu    sync.Mutex
	asked map[time.Duration]int // while it was down
}

func (e *endpoint) Endpoint() string { return e.name }

func (e *endpoint) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	now := time.Since(e.start)
	if now >= e.down && now < e.back {
		e.mu.Lock()
		e.asked[now]++
		e.mu.Unlock()
		if !e.hangs {
			return nil, fmt.Errorf("connection refused: %w", passing{})
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(e.back - now):
		}
	}
	time.Sleep(10 * time.Second)
	if len(req.Messages) > 8 {
		return says("ok")(ctx, req)
	}
	return calls(call("", "read", fmt.Sprintf(`{"i":%d}`, len(req.Messages))))(ctx, req)
}

func (e *endpoint) requests() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.asked {
		n += k
	}
	return n
}

func newEndpoint(down, back time.Duration, hangs bool) *endpoint {
	return &endpoint{name: "http://model", down: down, back: back, hangs: hangs, start: time.Now(), asked: map[time.Duration]int{}}
}

// group runs agents on the endpoint, and returns what was said about it.
func (e *endpoint) group(t *testing.T, n int, cfg agentloop.GroupConfig) (*agentloop.Report, []string) {
	for i := range n {
		d := &desk{}
		cfg.Agents = append(cfg.Agents, newAgent(t, agentloop.Config{Name: fmt.Sprintf("a%02d", i), Model: e, Tools: d.tools(t)}))
	}
	var said []string
	cfg.OnEvent = func(ev agentloop.Event) {
		switch ev.Kind {
		case agentloop.EventSystemic, agentloop.EventRecovered:
			assert.Empty(t, ev.Agent)
			said = append(said, fmt.Sprintf("%v %s", ev.Time.Sub(e.start).Round(time.Millisecond), ev.Kind))
		}
	}
	return runGroup(t, t.Context(), cfg), said
}

// Trouble of all is recognised once, told once, and waited out by all together:
// nobody's restarts are used up, and the endpoint is asked by one at a time.
func TestAnOutageIsWaitedOutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(15*time.Second, 8*time.Minute, false)
		rep, said := e.group(t, 45, agentloop.GroupConfig{})
		require.True(t, rep.Done(), rep.Counts)
		require.Len(t, said, 2)
		assert.Equal(t, "20s systemic", said[0])
		// 45 find out, then one at a time: after 1, 2, 4 … seconds, later each minute.
		assert.Less(t, e.requests(), 45+15)
		for at, n := range e.asked {
			if at > 30*time.Second {
				assert.Equal(t, 1, n, at)
			}
		}
		// They go on soon after it is back, but not all at the same time.
		assert.Less(t, rep.Duration, 8*time.Minute+time.Minute+10*time.Second+5*time.Second+40*time.Second)
	})
}

// Of few agents each probes more often than it may restart: that costs it nothing.
func TestProbesCostNoRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(15*time.Second, 9*time.Minute, false)
		rep, said := e.group(t, 3, agentloop.GroupConfig{Restarts: 1})
		assert.True(t, rep.Done(), rep.Counts)
		assert.Len(t, said, 2)
		assert.Greater(t, e.requests(), 3+2*3)
	})
}

func TestWhatIsDoneAboutTroubleOfAll(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  agentloop.SystemicConfig
		want agentloop.Outcome
		said []string
		took time.Duration
	}{
		"stop": {agentloop.SystemicConfig{Action: agentloop.SystemicStop}, agentloop.Failed, []string{"20s systemic"}, 20 * time.Second},
		"hold, and stop in the end": {agentloop.SystemicConfig{Limit: 2 * time.Minute}, agentloop.Failed, []string{"20s systemic"},
			20*time.Second + 2*time.Minute},
		"go on": {agentloop.SystemicConfig{Action: agentloop.SystemicGoOn}, agentloop.Failed, []string{"20s systemic"}, 27 * time.Second},
		"never": {agentloop.SystemicConfig{Share: -1}, agentloop.Failed, nil, 27 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(15*time.Second, time.Hour, false)
				rep, said := e.group(t, 9, agentloop.GroupConfig{Systemic: c.cfg, Rand: func() float64 { return 0 }})
				assert.Equal(t, map[agentloop.Outcome]int{c.want: 9}, rep.Counts)
				assert.Equal(t, c.said, said)
				assert.Equal(t, c.took, rep.Duration)
				if c.cfg.Action == agentloop.SystemicGoOn || c.cfg.Share < 0 {
					assert.NoError(t, rep.Err)
					return
				}
				se, ok := errors.AsType[*agentloop.SystemicError](rep.Err)
				require.True(t, ok, rep.Err)
				assert.Equal(t, "http://model", se.Endpoint)
				assert.Equal(t, 9, se.Agents)
				assert.GreaterOrEqual(t, se.Failing, 5)
				assert.Equal(t, e.start.Add(20*time.Second), se.Since)
				assert.ErrorIs(t, se, passing{}, "what the model said is the reason")
				assert.ErrorIs(t, rep.Results[0].Err, rep.Err)
				if c.cfg.Limit > 0 {
					assert.Equal(t, 2*time.Minute, se.Held)
				}
			})
		})
	}
}

// Silence is trouble too, and one that no error tells of.
func TestSilenceOfAllIsTroubleOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(15*time.Second, time.Hour, true)
		rep, said := e.group(t, 9, agentloop.GroupConfig{Systemic: agentloop.SystemicConfig{Action: agentloop.SystemicStop}})
		assert.GreaterOrEqual(t, rep.Stalls, 5, "the watchdog has told of more than half")
		assert.Equal(t, []string{"5m20s systemic"}, said)
		se, ok := errors.AsType[*agentloop.SystemicError](rep.Err)
		require.True(t, ok, rep.Err)
		assert.Equal(t, 5, se.Waiting)
		assert.Zero(t, se.Failing)
		assert.ErrorContains(t, rep.Err, "most agents get no answer from http://model: of 9 at work, 5 wait without a sign of life and the calls of 0 failed")
	})
	t.Run("held, until it is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := newEndpoint(15*time.Second, 7*time.Minute, true)
			rep, said := e.group(t, 9, agentloop.GroupConfig{})
			assert.True(t, rep.Done())
			assert.Equal(t, []string{"5m20s systemic", "7m10s recovered"}, said)
		})
	})
}

// What looks like it, and is not.
func TestTroubleOfSomeIsTheirOwn(t *testing.T) {
	t.Run("fewer than half", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bad, good := newEndpoint(15*time.Second, time.Hour, false), newEndpoint(0, 0, false)
			good.name = "http://other"
			var agents []*agentloop.Agent
			for i := range 8 {
				agents = append(agents, newAgent(t, agentloop.Config{Name: fmt.Sprintf("g%d", i), Model: good, Tools: (&desk{}).tools(t)}))
			}
			// Six of 14 in the group, but all of their endpoint.
			rep, said := bad.group(t, 6, agentloop.GroupConfig{Agents: agents, Systemic: agentloop.SystemicConfig{Action: agentloop.SystemicGoOn}})
			assert.Equal(t, map[agentloop.Outcome]int{agentloop.Done: 8, agentloop.Failed: 6}, rep.Counts)
			assert.Len(t, said, 1, "each endpoint is judged alone")

			same := newEndpoint(15*time.Second, time.Hour, false)
			same.name = "http://other"
			same.start = time.Now()
			good.start = same.start
			rep, said = same.group(t, 6, agentloop.GroupConfig{Agents: agents})
			assert.Equal(t, map[agentloop.Outcome]int{agentloop.Done: 8, agentloop.Failed: 6}, rep.Counts)
			assert.Empty(t, said, "others have answers from there")
		})
	})
	t.Run("too few to tell", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rep, said := newEndpoint(15*time.Second, time.Hour, false).group(t, 2, agentloop.GroupConfig{})
			assert.Equal(t, 2, rep.Counts[agentloop.Failed])
			assert.Empty(t, said)
		})
	})
	t.Run("a limit that all meet at their start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// One in five gets through, the others shall come again in a while.
			var mu sync.Mutex
			n := 0
			m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				mu.Lock()
				n++
				pass := n%5 == 1 || n > 45
				mu.Unlock()
				if !pass {
					return nil, passing{2 * time.Second}
				}
				time.Sleep(time.Second)
				return says("ok")(ctx, req)
			})
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 45, agentloop.Config{Model: m})})
			assert.True(t, rep.Done(), "%v", rep.Counts)
		})
	})
}

// A server that names a time is not asked before it, not even to see whether it
// is there again.
func TestWhoWasToldATimeWaitsForIt(t *testing.T) {
	for name, after := range map[string]time.Duration{"soon": 20 * time.Second, "a minute": time.Minute, "much later": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				told := map[string]time.Time{}
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					if was, again := told[req.Caller]; again {
						assert.GreaterOrEqual(t, time.Since(was), after, req.Caller)
						return says("ok")(ctx, req)
					}
					told[req.Caller] = time.Now()
					return nil, passing{after}
				})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 20, agentloop.Config{Model: m})})
				assert.True(t, rep.Done(), "%v", rep.Counts)
				// Those who were held back before they had asked are told a time as well, one
				// after the other at worst: fewer than half of them.
				assert.Less(t, rep.Duration, 10*after+2*time.Minute)
			})
		})
	}
}

// The one that probes may leave; another one takes its place.
func TestAProbeThatLeavesIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		probe step // what the first probe meets
		left  agentloop.Outcome
	}{
		"with a fault for good": {fails(errWrongKey), agentloop.Failed},
		"for good reasons": {func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
			agentloop.CancelAgents(ctx, nil, agentloop.AgentName(ctx))
			<-ctx.Done()
			return nil, ctx.Err()
		}, agentloop.Cancelled},
		"with a fault, and more to do": {fails(passing{}), agentloop.Done},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				asked := 0
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					mu.Lock()
					asked++
					n := asked
					mu.Unlock()
					switch {
					case n <= 5:
						return nil, passing{}
					case n == 6:
						return c.probe(ctx, req)
					}
					return says("ok")(ctx, req)
				})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 5, agentloop.Config{Model: m})})
				want := map[agentloop.Outcome]int{agentloop.Done: 5}
				if c.left != agentloop.Done {
					want = map[agentloop.Outcome]int{agentloop.Done: 4, c.left: 1}
				}
				assert.Equal(t, want, rep.Counts)
			})
		})
	}
}

// A server that forgets three requests of many is no systemic trouble, even when only
// those three are left. One that dies after its first answers is.
func TestRequestsThatAreForgottenAreNoTroubleOfAll(t *testing.T) {
	for name, c := range map[string]struct {
		model func(i int) agentloop.Model
		told  int
	}{
		"three are forgotten": {func(i int) agentloop.Model {
			if i < 3 {
				return agentloop.ModelFunc(silent)
			}
			return play(after(4*time.Minute+time.Duration(i)*time.Second, says("done")))
		}, 0},
		"it dies after half of the first answers": {func(i int) agentloop.Model {
			if i < 25 {
				return agentloop.ModelFunc(silent)
			}
			return play(after(5*time.Second, calls(call("", "look", `{}`))), silent)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var list []*agentloop.Agent
				for i := range 45 {
					list = append(list, newAgent(t, agentloop.Config{Name: fmt.Sprint("a", i), Model: c.model(i), Tools: []agentloop.Tool{tool(t, "look", result("page"))}}))
				}
				told := 0
				runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, Timeout: time.Hour, OnEvent: func(e agentloop.Event) {
					if e.Kind == agentloop.EventSystemic {
						told++
					}
				}})
				assert.Equal(t, c.told, told)
			})
		})
	}
}

// What counts are the agents that can be at work: neither those that have ended nor those
// that cannot have begun yet say that the endpoint works.
func TestTroubleOfAllIsOfThoseAtWork(t *testing.T) {
	for name, c := range map[string]struct {
		agents, well int // the first of them are done soon
		cfg          agentloop.GroupConfig
		want         string
	}{
		"most have ended":                  {10, 7, agentloop.GroupConfig{}, "systemic at 1m0s"},
		"most have ended, and two are bad": {10, 8, agentloop.GroupConfig{}, ""},
		"most have no turn yet":            {40, 0, agentloop.GroupConfig{MaxParallel: 3}, "systemic at 1m0s"},
		"most have no place yet":           {40, 0, agentloop.GroupConfig{MaxInFlight: 3}, "systemic at 1m0s"},
		"all are there, three are bad":     {10, 0, agentloop.GroupConfig{}, "systemic at 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				cfg := c.cfg
				for i := range c.agents {
					m := after(time.Minute, fails(passing{}))
					if i < c.well {
						m = after(time.Second, says("done"))
					}
					cfg.Agents = append(cfg.Agents, newAgent(t, agentloop.Config{Name: fmt.Sprintf("a%02d", i), Model: agentloop.ModelFunc(m)}))
				}
				cfg.Systemic.Action = agentloop.SystemicStop
				said := ""
				cfg.OnEvent = func(e agentloop.Event) {
					if e.Kind == agentloop.EventSystemic {
						said = fmt.Sprintf("systemic at %v", e.Time.Sub(start))
					}
				}
				runGroup(t, t.Context(), cfg)
				assert.Equal(t, c.want, said)
			})
		})
	}
}

// However the call that probes ends, the next one may probe: none keeps the turn.
func TestTheTurnToProbeIsGivenBack(t *testing.T) {
	type end = func(context.Context) error
	for name, c := range map[string]struct {
		ends end
		next time.Duration // when the next one is asked
	}{
		"an error that is final": {func(context.Context) error { return errWrongKey }, 7 * time.Second},
		"a panic":                {func(context.Context) error { panic("no") }, 7 * time.Second},
		"its goroutine's end":    {func(context.Context) error { runtime.Goexit(); return nil }, 7 * time.Second},
		"its agent's cancel": {func(ctx context.Context) error {
			agentloop.CancelAgents(ctx, nil, agentloop.AgentName(ctx))
			<-ctx.Done()
			return ctx.Err()
		}, 7 * time.Second},
		"a time that it is given": {func(context.Context) error { return passing{2 * time.Minute} }, 7 * time.Second},
		"a passing fault":         {func(context.Context) error { return passing{} }, 8 * time.Second},
		"one with a time":         {func(context.Context) error { return passing{7 * time.Second} }, 14 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var mu sync.Mutex
				var asked []time.Duration
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					mu.Lock()
					asked = append(asked, time.Since(start))
					n := len(asked)
					mu.Unlock()
					switch {
					case n <= 6:
						time.Sleep(time.Second)
						return nil, passing{}
					case n == 7:
						time.Sleep(5 * time.Second)
						return nil, c.ends(ctx)
					}
					return says("done")(ctx, req)
				})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: many(t, 6, agentloop.Config{Model: m}), Rand: func() float64 { return 0 },
				})
				assert.GreaterOrEqual(t, rep.Counts[agentloop.Done], 5)
				assert.Equal(t, []time.Duration{2 * time.Second, c.next}, asked[6:8])
			})
		})
	}
}
