package agentloop_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// An agent that hands all it is given to its like ends somewhere, and its model is told
// that it is to do the work itself.
func TestAgentsInToolsOfAgentsHaveABoundedDepth(t *testing.T) {
	for name, c := range map[string]struct {
		depth, asked int
		inGroups     bool
	}{
		"4 by default":                 {0, 5, false},
		"as set":                       {1, 2, false},
		"deeper":                       {9, 10, false},
		"without a bound":              {-1, 20, false},
		"in groups, 4 by default":      {0, 5, true},
		"in groups, bound by the last": {9, 6, true}, // the group in the first tool has 4 of its own
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a *agentloop.Agent
				var asked atomic.Int32
				spawn := tool(t, "delegate", func(ctx context.Context) (string, error) {
					if !c.inGroups {
						res := a.Run(ctx)
						return res.Text, res.Err
					}
					g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{a}})
					require.NoError(t, err)
					res := g.Run(ctx).Results[0]
					return res.Text, res.Err
				})
				spawn.RunsAgents = true
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					last := req.Messages[len(req.Messages)-1]
					if last.Role == chat.RoleTool {
						return says(last.Content)(ctx, req)
					}
					if asked.Add(1) >= 20 {
						return says("That is deep.")(ctx, req)
					}
					return calls(call("", "delegate", `{}`))(ctx, req)
				})
				a = newAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{spawn}})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{a}, MaxDepth: c.depth})
				assert.True(t, rep.Done(), rep.Results[0].Err)
				assert.EqualValues(t, c.asked, asked.Load(), "agents that asked their models")
				if c.depth < 0 {
					assert.Equal(t, "That is deep.", rep.Results[0].Text)
					return
				}
				assert.Contains(t, rep.Results[0].Text, "do the work without a further agent")
				if !c.inGroups {
					require.Len(t, rep.Children, c.asked)
					assert.ErrorIs(t, rep.Children[0].Err, agentloop.ErrTooDeep)
					assert.Zero(t, rep.Children[0].Rounds)
				}
			})
		})
	}
}

// However a tool starts an agent, that ends with the group, and is in the report.
func TestAgentsInTheBackgroundEndWithTheirGroup(t *testing.T) {
	for name, c := range map[string]struct {
		spawn   func(child *agentloop.Agent, ctx context.Context)
		deaf    bool // its model does not listen to its context
		lasts   time.Duration
		outcome agentloop.Outcome
		asked   int32 // at the end
	}{
		"in the background": {spawn: func(child *agentloop.Agent, ctx context.Context) { go child.Run(ctx) },
			lasts: 5 * time.Minute, outcome: agentloop.Cancelled}, // with the call of its tool, at once
		"with a context that lives longer": {spawn: func(child *agentloop.Agent, ctx context.Context) { go child.Run(context.WithoutCancel(ctx)) },
			lasts: 5*time.Minute + time.Second, outcome: agentloop.Cancelled, asked: 6},
		"and a model that does not listen": {spawn: func(child *agentloop.Agent, ctx context.Context) { go child.Run(context.WithoutCancel(ctx)) },
			deaf: true, lasts: 5*time.Minute + time.Second, outcome: agentloop.Abandoned, asked: 6},
		"waited for": {spawn: func(child *agentloop.Agent, ctx context.Context) { child.Run(ctx) },
			lasts: 10 * time.Minute, outcome: agentloop.Done, asked: 8},
		"one that is done before": {spawn: func(child *agentloop.Agent, ctx context.Context) { go child.Run(context.WithoutCancel(ctx)) },
			lasts: 10 * time.Minute, outcome: agentloop.Done, asked: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				child := newAgent(t, agentloop.Config{Name: "child", Model: agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					if asked.Add(1) == 8 {
						return says("done")(ctx, req)
					}
					if c.deaf {
						time.Sleep(time.Minute)
						return calls(call("", "look", `{}`))(ctx, req)
					}
					return after(time.Minute, calls(call("", "look", `{}`)))(ctx, req)
				}), Tools: []agentloop.Tool{tool(t, "look", result("x"))}})
				spawn := tool(t, "spawn", func(ctx context.Context) (string, error) { c.spawn(child, ctx); return "started", nil })
				spawn.RunsAgents = true
				parent := newAgent(t, agentloop.Config{Name: "parent", Model: play(calls(call("", "spawn", `{}`)), after(c.lasts, says("done"))), Tools: []agentloop.Tool{spawn}})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{parent}})
				assert.True(t, rep.Done(), rep.Results[0].Err)
				require.Len(t, rep.Children, 1)
				assert.Equal(t, c.outcome, rep.Children[0].Outcome, rep.Children[0].Err)
				if name != "in the background" && c.outcome != agentloop.Done {
					assert.ErrorIs(t, rep.Children[0].Err, agentloop.ErrGroupEnded)
				}
				time.Sleep(time.Hour)
				if c.asked > 0 {
					assert.Equal(t, c.asked, asked.Load())
				}
			})
		})
	}
	t.Run("one that comes later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := play(says("done"))
			child := newAgent(t, agentloop.Config{Name: "child", Model: m})
			var late [2]agentloop.Result
			spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
				go func() {
					time.Sleep(time.Hour)
					for i := range late { // more than one may come
						late[i] = child.Run(context.WithoutCancel(ctx))
					}
				}()
				return "started", nil
			})
			parent := newAgent(t, agentloop.Config{Name: "parent", Model: play(calls(call("", "spawn", `{}`)), says("done")), Tools: []agentloop.Tool{spawn}})
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{parent}})
			assert.Empty(t, rep.Children)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			for _, res := range late {
				assert.Equal(t, agentloop.Cancelled, res.Outcome)
				assert.ErrorIs(t, res.Err, agentloop.ErrGroupEnded)
			}
			assert.Empty(t, m.requests())
		})
	})
}

// The places in flight are those of the outermost group, whatever groups run in tools:
// as few as it has, and as few as those have.
func TestGroupsInToolsShareThePlacesInFlight(t *testing.T) {
	for name, c := range map[string]struct{ outer, inner, most int }{
		"those around them": {3, 0, 3},
		"one for all":       {1, 0, 1},
		"their own as well": {9, 1, 5},
		"no bound":          {0, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int32
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer now.Add(-1)
					if len(req.Tools) > 0 && len(req.Messages) == 1 { // not a kid
						return after(time.Second, calls(call("", "fan_out", `{}`)))(ctx, req)
					}
					return after(time.Second, says("done"))(ctx, req)
				})
				fan := tool(t, "fan_out", func(ctx context.Context) (string, error) {
					kids := many(t, 2, agentloop.Config{Model: m})
					g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: kids, MaxInFlight: c.inner})
					require.NoError(t, err)
					if rep := g.Run(ctx); !rep.Done() {
						return "", rep.Results[0].Err
					}
					return "both are done", nil
				})
				fan.RunsAgents = true
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: many(t, 5, agentloop.Config{Model: m, Tools: []agentloop.Tool{fan}}), MaxInFlight: c.outer,
				})
				require.True(t, rep.Done(), rep.Results[0].Err)
				assert.EqualValues(t, c.most, most.Load())
			})
		})
	}
}

// An agent that waits for a place of a group around its own is in no trouble.
func TestWaitingForThePlacesOfAnOuterGroupIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := play(after(4*time.Minute, says("done")))
		var inner *agentloop.Report
		fan := tool(t, "fan_out", func(ctx context.Context) (string, error) {
			g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: many(t, 9, agentloop.Config{Model: m}), OnEvent: func(e agentloop.Event) {
				assert.NotEqual(t, agentloop.EventSystemic, e.Kind)
			}})
			require.NoError(t, err)
			inner = g.Run(ctx)
			return "ok", nil
		})
		fan.RunsAgents = true
		parent := agentloop.Config{Model: play(calls(call("", "fan_out", `{}`)), says("done")), Tools: []agentloop.Tool{fan}}
		_, rep := runAgent(t, parent, agentloop.GroupConfig{MaxInFlight: 1})
		assert.True(t, rep.Done())
		assert.True(t, inner.Done())
		assert.Zero(t, inner.Stalls+rep.Stalls)
		assert.Equal(t, 36*time.Minute, inner.Duration)
	})
}

// A tool that runs agents has their bounds and the group's; another one has a minute.
func TestAToolThatRunsAgentsHasTheirTime(t *testing.T) {
	for name, c := range map[string]struct {
		runs     bool
		deadline time.Duration // of the tool
		lasts    time.Duration
		cut      time.Duration // 0: it is not
	}{
		"it says so":                  {runs: true, lasts: 90 * time.Minute},
		"it does not":                 {lasts: 90 * time.Minute, cut: time.Minute},
		"it does not, and is quick":   {lasts: time.Minute - 1},
		"with a deadline of its own":  {runs: true, deadline: time.Hour, lasts: 90 * time.Minute, cut: time.Hour},
		"and the group's in any case": {runs: true, lasts: 3 * time.Hour, cut: 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				child := newAgent(t, agentloop.Config{Name: "child", Model: agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					req.OnWait(c.lasts)
					return after(c.lasts, says("done"))(ctx, req)
				})})
				var took time.Duration
				spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
					res := child.Run(ctx)
					took = res.Duration
					return res.Text, res.Err
				})
				spawn.RunsAgents, spawn.Timeout = c.runs, c.deadline
				_, rep := runAgent(t, agentloop.Config{Model: play(calls(call("", "spawn", `{}`)), says("done")), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{OnStall: agentloop.StallEnd})
				if c.cut == 0 {
					assert.Equal(t, c.lasts, took)
					assert.Equal(t, agentloop.Done, rep.Children[0].Outcome)
				} else {
					assert.Equal(t, c.cut, took)
					assert.NotEqual(t, agentloop.Done, rep.Children[0].Outcome)
				}
				assert.Zero(t, rep.Stalls)
			})
		})
	}
}

// A model may be made of agents itself: while it waits for them its own agent holds no
// place that they would need.
func TestAModelThatIsMadeOfAgents(t *testing.T) {
	for name, own := range map[string]bool{"agents of the group": false, "a group of its own": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				team := agentloop.ModelFunc(func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
					inner := newAgent(t, agentloop.Config{Name: "inner", Model: agentloop.ModelFunc(after(time.Second, says("inner says")))})
					var res agentloop.Result
					if own {
						g, _ := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{inner}, MaxInFlight: 1})
						res = g.Run(ctx).Results[0]
					} else {
						res = inner.Run(ctx)
					}
					if res.Err != nil {
						return nil, res.Err
					}
					return says(res.Text)(ctx, nil)
				})
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 3, agentloop.Config{Model: team}), MaxInFlight: 2})
				assert.True(t, rep.Done(), "%v", rep.Results[0].Err)
				assert.Equal(t, 2*time.Second, rep.Duration)
			})
		})
	}
}
