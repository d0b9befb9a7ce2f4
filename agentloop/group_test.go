package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// many returns n agents with the same model.
func many(t testing.TB, n int, cfg agentloop.Config) (list []*agentloop.Agent) {
	for i := range n {
		cfg.Name = fmt.Sprintf("agent%02d", i)
		list = append(list, newAgent(t, cfg))
	}
	return list
}

func runGroup(t testing.TB, ctx context.Context, cfg agentloop.GroupConfig) *agentloop.Report {
	t.Helper()
	g, err := agentloop.NewGroup(cfg)
	require.NoError(t, err)
	rep := g.Run(ctx)
	require.Len(t, rep.Results, len(cfg.Agents))
	total := 0
	for i, res := range rep.Results {
		assert.Equal(t, cfg.Agents[i].Name(), res.Name)
		assert.NoError(t, strict(res.Messages))
		assert.Equal(t, res.Outcome == agentloop.Done, res.Err == nil)
	}
	for _, n := range rep.Counts {
		total += n
	}
	assert.Equal(t, len(cfg.Agents), total)
	return rep
}

func TestNewGroupNamesTheBadField(t *testing.T) {
	a := many(t, 1, agentloop.Config{Model: play(says("ok"))})[0]
	for want, cfg := range map[string]agentloop.GroupConfig{
		"Agents is empty":                  {},
		"Agents[1] is nil":                 {Agents: []*agentloop.Agent{a, nil}},
		`Agents[1] has the name "agent00"`: {Agents: []*agentloop.Agent{a, a}},
		"DraftTimeout is -1s":              {Agents: []*agentloop.Agent{a}, DraftTimeout: -time.Second},
	} {
		_, err := agentloop.NewGroup(cfg)
		assert.ErrorContains(t, err, "agentloop: "+want)
	}
}

// The night: 45 agents, and the model stops answering.
func TestGroupReturnsThoughTheModelNeverAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		obeys    bool
		deadline time.Duration
		took     time.Duration
		want     agentloop.Outcome
	}{
		"a model that obeys its context":   {true, 0, 2 * time.Hour, agentloop.Exhausted},
		"a model that ignores its context": {false, 0, 2*time.Hour + 50*time.Millisecond, agentloop.Abandoned},
		"a deadline that was set":          {true, time.Minute, time.Minute, agentloop.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				model := agentloop.ModelFunc(func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
					if c.obeys {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					<-release
					return says("too late")(ctx, nil)
				})
				cfg := agentloop.Config{Model: model, Tools: (&desk{}).tools(t), Progression: article()}
				start := time.Now()
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 45, cfg), Timeout: c.deadline})

				assert.Equal(t, c.took, time.Since(start))
				assert.Equal(t, c.took, rep.Duration)
				assert.Equal(t, map[agentloop.Outcome]int{c.want: 45}, rep.Counts)
				assert.False(t, rep.Done())
				var de *agentloop.TimeoutError
				require.ErrorAs(t, rep.Err, &de)
				assert.Equal(t, "group", de.Of)
				for _, res := range rep.Results {
					require.ErrorAs(t, res.Err, &de)
					assert.Equal(t, []string{"read", "write", "save"}, res.Missing)
					assert.Equal(t, fmt.Sprintf("waiting for the model for %v", c.took), res.Stuck)
					if !c.obeys {
						require.ErrorIs(t, res.Err, agentloop.ErrAbandoned)
						require.Len(t, res.Abandoned, 1)
						assert.Equal(t, "model", res.Abandoned[0].In)
					}
				}
				close(release)
			})
		})
	}
}

func TestGroupReturnsThoughToolsNeverReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stuck := tool(t, "stuck", func(context.Context) (string, error) { <-release; return "", nil })
		stuck.Timeout = -1
		quick := tool(t, "quick", result("x"))
		bad := agentloop.Config{Name: "bad", Model: play(calls(call("1", "quick", `{}`), call("2", "stuck", `{}`))), Tools: []agentloop.Tool{stuck, quick}}
		good := agentloop.Config{Name: "good", Model: play(after(time.Second, says("ok")))}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: []*agentloop.Agent{newAgent(t, bad), newAgent(t, good)}, Timeout: time.Minute,
		})
		assert.Equal(t, time.Minute+50*time.Millisecond, rep.Duration)
		assert.Equal(t, agentloop.Abandoned, rep.Results[0].Outcome)
		assert.ErrorContains(t, rep.Results[0].Err, "tool stuck ignored its context for 50ms")
		assert.Equal(t, "tool stuck", rep.Results[0].Abandoned[0].In)
		assert.Equal(t, "running quick, stuck for 1m0.05s; before that waiting for the model for 0s", rep.Results[0].Stuck)
		assert.Equal(t, agentloop.Done, rep.Results[1].Outcome)
		assert.Equal(t, time.Second, rep.Results[1].Duration)
	})
}

func TestGraceIsASetting(t *testing.T) {
	for name, c := range map[string]struct{ deadline, grace, took time.Duration }{
		"longer":                     {time.Minute, 2 * time.Second, time.Minute + 50*time.Millisecond},
		"far longer than there is":   {time.Second, 2 * time.Second, time.Second + 80*time.Millisecond},
		"none":                       {time.Second, -1, time.Second},
		"longer, without a deadline": {-1, 2 * time.Second, time.Hour + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				m := play(func(ctx, *chat.Request) (*chat.Response, error) { <-release; return nil, nil })
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour, cancel)
				rep := runGroup(t, ctx, agentloop.GroupConfig{
					Agents: many(t, 2, agentloop.Config{Model: m}), Timeout: c.deadline, Grace: c.grace})
				assert.Equal(t, c.took, rep.Duration)
				assert.Equal(t, 2, rep.Counts[agentloop.Abandoned])
			})
		})
	}
}

func TestAgentsThatHadNoTurnAreNamed(t *testing.T) {
	errStop := errors.New("enough")
	for name, c := range map[string]struct {
		deadline time.Duration
		cancel   bool
		want     agentloop.Outcome
		early    time.Duration
	}{
		"at the deadline": {50 * time.Second, false, agentloop.Exhausted, 1050 * time.Millisecond},
		"at a cancel":     {-1, true, agentloop.Cancelled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel {
					time.AfterFunc(50*time.Second, func() { cancel(errStop) })
				}
				var drafts atomic.Int32
				cfg := agentloop.Config{Model: play(after(20*time.Second, says("ok"))), Tools: (&desk{}).tools(t),
					Draft: func(context.Context, *agentloop.Result) (string, error) { drafts.Add(1); return "", nil }}
				rep := runGroup(t, ctx, agentloop.GroupConfig{Agents: many(t, 9, cfg), MaxParallel: 2, Timeout: c.deadline})
				assert.Equal(t, 50*time.Second-c.early, rep.Duration)
				assert.Equal(t, map[agentloop.Outcome]int{agentloop.Done: 4, c.want: 5}, rep.Counts)
				assert.EqualValues(t, 2, drafts.Load(), "of those that had started")
				for i, res := range rep.Results[6:] {
					assert.Equal(t, c.want, res.Outcome)
					assert.ErrorIs(t, res.Err, agentloop.ErrNeverStarted, i)
					assert.ErrorIs(t, res.Err, rep.Err)
					assert.Zero(t, res.Started)
				}
			})
		})
	}
}

func TestParallelIsABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return says("ok")(ctx, req)
		})
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 10, agentloop.Config{Model: m}), MaxParallel: 4})
		assert.True(t, rep.Done())
		assert.Equal(t, 4, most)
		assert.Equal(t, 3*time.Second, rep.Duration)
		assert.NoError(t, rep.Err)
	})
}

func TestAnyToolCancelsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errDown := errors.New("endpoint is down")
		pull := tool(t, "pull", func(ctx context.Context) (string, error) {
			assert.Equal(t, "puller", agentloop.AgentName(ctx))
			time.Sleep(time.Second)
			assert.True(t, agentloop.CancelGroup(ctx, errDown))
			assert.True(t, agentloop.CancelGroup(ctx, errors.New("second")))
			return "pulled", nil
		})
		puller := agentloop.Config{Name: "puller", Model: play(calls(call("", "pull", `{}`))), Tools: []agentloop.Tool{pull}}
		agents := append(many(t, 3, agentloop.Config{Model: play(silent)}), newAgent(t, puller))
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents})
		assert.Equal(t, time.Second, rep.Duration)
		assert.Equal(t, 4, rep.Counts[agentloop.Cancelled])
		assert.ErrorIs(t, rep.Err, errDown)
		assert.EqualError(t, rep.Err, "endpoint is down")
		for _, res := range rep.Results {
			assert.ErrorIs(t, res.Err, errDown)
		}
	})
	assert.False(t, agentloop.CancelGroup(t.Context(), nil), "no group")
	assert.Empty(t, agentloop.AgentName(t.Context()))
	agentloop.Heartbeat(t.Context()) // does nothing
}

// A slot of the server brackets a request, not an agent's life: parents whose
// children need slots do not lock them out.
func TestChildrenOfToolsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 3)
		var mu sync.Mutex
		served := map[string]int{}
		limited := func(s *strictServer) agentloop.Model {
			return agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				slots <- struct{}{}
				defer func() { <-slots }()
				mu.Lock()
				served[req.Caller]++
				mu.Unlock()
				time.Sleep(time.Second)
				return s.Chat(ctx, req)
			})
		}
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			parent := agentloop.AgentName(ctx)
			child := newAgent(t, agentloop.Config{Name: parent + "/child", Model: limited(play(says("child done")))})
			res := child.Run(ctx)
			return res.Text, res.Err
		})
		var agents []*agentloop.Agent
		for i := range 5 {
			agents = append(agents, newAgent(t, agentloop.Config{
				Name: fmt.Sprintf("p%d", i), Tools: []agentloop.Tool{spawn},
				Model: limited(play(calls(call("", "spawn", `{"n":1}`), call("", "spawn", `{"n":2}`)), says("ok"))),
			}))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents})
		assert.True(t, rep.Done(), rep.Counts)
		assert.Len(t, served, 10)
		assert.Equal(t, 7*time.Second, rep.Duration, "20 requests of a second each, 3 at a time")
	})
}

// A child ends with its parent's clock, and says whose it was.
func TestChildrenEndWithTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var child agentloop.Result
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			child = newAgent(t, agentloop.Config{Name: "child", Model: play(silent)}).Run(ctx)
			return "", child.Err
		})
		res := runOne(t, agentloop.Config{Model: play(calls(call("", "spawn", `{}`)), says("ok")), Tools: []agentloop.Tool{spawn}})
		assert.Equal(t, agentloop.Done, res.Outcome)
		assert.Equal(t, time.Minute, res.Duration)
		assert.Equal(t, agentloop.Exhausted, child.Outcome)
		de, _ := errors.AsType[*agentloop.TimeoutError](child.Err)
		assert.Equal(t, &agentloop.TimeoutError{Of: "tool spawn", Limit: time.Minute}, de)
	})
}

func TestDrafts(t *testing.T) {
	release := make(chan struct{})
	for name, c := range map[string]struct {
		draft func(context.Context, *agentloop.Result) (string, error)
		where string
		err   string
		took  time.Duration
	}{
		"are kept": {func(ctx context.Context, r *agentloop.Result) (string, error) {
			return "drafts/" + r.Name + "-" + string(r.Outcome) + "-" + strings.Join(r.Missing, "-"), nil
		}, "drafts/author-exhausted-write-save", "", 0},
		"live beyond the end": {func(ctx context.Context, r *agentloop.Result) (string, error) {
			return "x", ctx.Err()
		}, "x", "", 0},
		"may fail":        {func(context.Context, *agentloop.Result) (string, error) { return "", errors.New("disk full") }, "", "disk full", 0},
		"may panic":       {func(context.Context, *agentloop.Result) (string, error) { panic("oops") }, "", "panic in draft: oops", 0},
		"have one second": {func(ctx context.Context, _ *agentloop.Result) (string, error) { <-ctx.Done(); return "", ctx.Err() }, "", "deadline exceeded", time.Second},
		"are not waited for": {func(ctx context.Context, _ *agentloop.Result) (string, error) { <-release; return "", nil },
			"", "draft ignored its context", time.Second + 50*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				defer func() { close(release) }()
				cfg, _ := author(t, play(calls(call("", "read", `{}`)), silent))
				cfg.Draft = c.draft
				res, rep := runAgent(t, cfg, agentloop.GroupConfig{Timeout: time.Minute})
				assert.Equal(t, agentloop.Exhausted, res.Outcome)
				assert.Equal(t, c.where, res.Draft)
				if c.err == "" {
					assert.NoError(t, res.DraftErr)
				} else {
					assert.ErrorContains(t, res.DraftErr, c.err)
				}
				// The agent was stopped early enough for the hook to have its time.
				const early = 1050 * time.Millisecond
				assert.Equal(t, time.Minute-early+c.took, rep.Duration)
				assert.LessOrEqual(t, rep.Duration, time.Minute+100*time.Millisecond)
				de, _ := errors.AsType[*agentloop.TimeoutError](res.Err)
				assert.Equal(t, &agentloop.TimeoutError{Of: "group", Limit: time.Minute, Early: early}, de)
			})
		})
	}
	t.Run("are for agents that are not done", func(t *testing.T) {
		cfg := agentloop.Config{Model: play(says("ok")), Draft: func(context.Context, *agentloop.Result) (string, error) {
			t.Error("called")
			return "", nil
		}}
		runOne(t, cfg)
	})
}

// Whatever happens to one agent, the others do not notice.
func TestOneFailureIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := append(many(t, 5, agentloop.Config{Model: play(after(time.Minute, says("ok")))}),
			newAgent(t, agentloop.Config{Name: "failed", Model: play(fails(errWrongKey))}),
			newAgent(t, agentloop.Config{Name: "panicked", Model: play(func(ctx, *chat.Request) (*chat.Response, error) { panic(1) })}),
			newAgent(t, agentloop.Config{Name: "empty", Model: play(says(""))}),
		)
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents})
		assert.Equal(t, map[agentloop.Outcome]int{agentloop.Done: 5, agentloop.Failed: 2, agentloop.Stalled: 1}, rep.Counts)
		assert.NoError(t, rep.Err, "nothing ended the group")
		assert.Equal(t, time.Minute, rep.Duration)
	})
}

// An agent can be cancelled by name between its turn and its beginning, and even if
// it begins later in a tool.
func TestCancelAgentsThatAreAboutToBegin(t *testing.T) {
	t.Run("in a tool", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("not wanted")
			child := newAgent(t, agentloop.Config{Name: "child", Model: agentloop.ModelFunc(silent)})
			spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
				agentloop.CancelAgents(ctx, cause, "child")
				return string(child.Run(ctx).Outcome), nil
			})
			_, rep := runAgent(t, agentloop.Config{Model: play(calls(call("", "spawn", `{}`)), says("ok")), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{})
			require.Len(t, rep.Children, 1)
			assert.Equal(t, agentloop.Cancelled, rep.Children[0].Outcome)
			assert.ErrorIs(t, rep.Children[0].Err, cause)
			assert.Zero(t, rep.Children[0].Duration)
		})
	})
	t.Run("of a group", func(t *testing.T) {
		for range 5 {
			synctest.Test(t, func(t *testing.T) {
				var names []string
				for i := range 500 {
					names = append(names, fmt.Sprint("x", i))
				}
				hit := 0
				first := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					hit = agentloop.CancelAgents(ctx, errors.New("enough"), names...)
					return says("done")(ctx, req)
				})
				list := []*agentloop.Agent{newAgent(t, agentloop.Config{Name: "first", Model: first})}
				for _, name := range names {
					list = append(list, newAgent(t, agentloop.Config{Name: name, Model: agentloop.ModelFunc(silent)}))
				}
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list})
				assert.Equal(t, 500, rep.Counts[agentloop.Cancelled])
				assert.Equal(t, 500, hit)
			})
		}
	})
}
