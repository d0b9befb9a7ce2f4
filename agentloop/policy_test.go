package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

func TestNewGroupNamesTheBadPolicy(t *testing.T) {
	a := many(t, 1, agentloop.Config{Model: play(says("ok"))})
	restart := func(of agentloop.Outcome, p agentloop.RestartPolicy) agentloop.GroupConfig {
		return agentloop.GroupConfig{Restart: map[agentloop.Outcome]agentloop.RestartPolicy{of: p}}
	}
	for want, cfg := range map[string]agentloop.GroupConfig{
		`Restart has a policy for the outcome "exhausted", want "failed" or "stalled"`: restart(agentloop.Exhausted, agentloop.RestartPolicy{}),
		`Restart["failed"].Max is -1`:                    restart(agentloop.Failed, agentloop.RestartPolicy{Max: -1}),
		`Restart["stalled"].Per is -1s`:                  restart(agentloop.Stalled, agentloop.RestartPolicy{Per: -time.Second}),
		"RestartsPer is -1ns":                            {RestartsPer: -1},
		"OnStall is 9, want one of the constants":        {OnStall: 9},
		"Systemic.Share is 1.5":                          {Systemic: agentloop.SystemicConfig{Share: 1.5}},
		"Systemic.Share is NaN":                          {Systemic: agentloop.SystemicConfig{Share: math.NaN()}},
		"Systemic.Min is -1":                             {Systemic: agentloop.SystemicConfig{Min: -1}},
		"Systemic.Action is 3, want one of the constant": {Systemic: agentloop.SystemicConfig{Action: 3}},
	} {
		cfg.Agents = a
		_, err := agentloop.NewGroup(cfg)
		assert.ErrorContains(t, err, "agentloop: "+want)
	}
}

// An agent that fell is started again as often as its policy says, and where
// its policy says.
func TestRestartPolicies(t *testing.T) {
	fatal := calls(call("", "broken", "{}"))
	stop := says("All done!")
	save := calls(call("", "save", "{}"))
	begin := []step{calls(call("", "read", "{}")), calls(call("", "write", "{}"))}
	for name, c := range map[string]struct {
		script   []step
		restart  map[agentloop.Outcome]agentloop.RestartPolicy
		want     agentloop.Outcome
		log      string
		restarts int
		took     time.Duration
	}{
		"none": {append(begin, fatal), nil, agentloop.Failed, "read write", 0, 0},
		"goes on where it was": {append(begin, fatal, save), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}},
			agentloop.Done, "read write save", 1, time.Second},
		"starts over": {append(begin, fatal, save, begin[0], begin[1], save), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1, Fresh: true}},
			agentloop.Done, "read write read write save", 1, time.Second},
		"no more than so many": {append(begin, fatal), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 3}},
			agentloop.Failed, "read write", 3, (1 + 2 + 4) * time.Second},
		"for what is meant only": {append(begin, fatal), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Stalled: {Max: 3}},
			agentloop.Failed, "read write", 0, 0},
		"a stall": {append(begin, stop, stop, save), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Stalled: {Max: 1}},
			agentloop.Done, "read write save", 1, time.Second},
		"a model that fails for good": {append(begin, fails(errWrongKey), save), map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}},
			agentloop.Done, "read write save", 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, d := author(t, play(c.script...))
				cfg.Nudges, cfg.NarrowedTries, cfg.ForcedTries = 1, -1, -1
				cfg.Tools = append(cfg.Tools, tool(t, "broken", func(context.Context) (string, error) {
					return "", agentloop.Fatal(errors.New("broken"))
				}))
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{Restart: c.restart})
				assert.Equal(t, c.want, res.Outcome, res.Err)
				assert.Equal(t, c.log, d.log())
				assert.Equal(t, c.restarts, res.Restarts)
				assert.Equal(t, c.took, res.Duration)
			})
		})
	}
}

// Restarts are counted within a time, as supervisors do.
func TestRestartsWithinATime(t *testing.T) {
	// A fault in each minute, at its begin.
	faulty := func(every time.Duration) step {
		n := 0
		return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if n++; n%2 == 1 {
				return nil, passing{}
			}
			time.Sleep(every - time.Second)
			return calls(call("", "read", fmt.Sprintf(`{"i":%d}`, n)))(ctx, req)
		}
	}
	for name, c := range map[string]struct {
		per  time.Duration
		want error
	}{
		"too many":           {10*time.Minute + 1, passing{}},
		"just not too many":  {10 * time.Minute, agentloop.ErrRounds},
		"in a row, no limit": {0, agentloop.ErrRounds},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, _ := author(t, play(faulty(time.Minute)))
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{Restarts: 10, RestartsPer: c.per, Timeout: -1})
				assert.ErrorIs(t, res.Err, c.want)
				if c.per > 0 && c.want != agentloop.ErrRounds {
					assert.ErrorContains(t, res.Err, "(more than 10 passing faults within 10m0.000000001s)")
					assert.Equal(t, 10, res.Restarts)
				}
			})
		})
	}
	t.Run("of a policy", func(t *testing.T) {
		for per, want := range map[time.Duration]int{2*time.Minute + 1: 2, 2 * time.Minute: 9} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				cfg := agentloop.Config{Model: play(func(context.Context, *chat.Request) (*chat.Response, error) {
					time.Sleep(time.Minute)
					if n++; n == 10 {
						return says("ok")(nil, nil)
					}
					return nil, errWrongKey
				})}
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{Timeout: -1, Backoff: -1, Restart: map[agentloop.Outcome]agentloop.RestartPolicy{
					agentloop.Failed: {Max: 2, Per: per}}})
				assert.Equal(t, want, res.Restarts, per)
				assert.Equal(t, want == 9, res.Outcome == agentloop.Done)
			})
		}
	})
}

// A client has a budget for what repeats failed calls; it is told which do.
func TestRequestsAfterAFaultAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := play(calls(call("", "read", "{}")), fails(passing{}), fails(passing{}), calls(call("", "write", "{}")), says("hm"), calls(call("", "save", "{}")))
		cfg, _ := author(t, m)
		res := runOne(t, cfg)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		var marks []bool
		for _, req := range m.requests() {
			marks = append(marks, req.Restart)
		}
		assert.Equal(t, []bool{false, false, true, true, false, false}, marks)
	})
}

// A server that says when it will be back is believed, and others have their
// turn meanwhile.
func TestALongRetryAfterParksTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		kind  agentloop.EventKind
		other time.Duration // when the other one is done
	}{
		"an hour":                 {time.Hour, agentloop.EventParked, 10 * time.Second},
		"a minute and a little":   {time.Minute + 1, agentloop.EventParked, 10 * time.Second},
		"a minute is but a pause": {time.Minute, agentloop.EventRestart, time.Minute + 20*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ends := map[string]time.Duration{}
				var kinds []agentloop.EventKind
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					MaxParallel: 1, Rand: func() float64 { return 0 },
					Agents: []*agentloop.Agent{
						newAgent(t, agentloop.Config{Name: "limited", Model: play(fails(passing{c.after}), after(10*time.Second, says("ok")))}),
						newAgent(t, agentloop.Config{Name: "other", Model: play(after(10*time.Second, says("ok")))}),
					},
					OnEvent: func(e agentloop.Event) {
						switch e.Kind {
						case agentloop.EventEnded:
							ends[e.Agent] = e.Time.Sub(start)
						case agentloop.EventParked, agentloop.EventRestart:
							kinds = append(kinds, e.Kind)
							assert.Equal(t, c.after, e.After)
						}
					},
				})
				require.True(t, rep.Done())
				assert.Equal(t, []agentloop.EventKind{c.kind}, kinds)
				assert.Equal(t, map[string]time.Duration{"limited": c.after + 10*time.Second, "other": c.other}, ends)
			})
		})
	}
	t.Run("and it waits for its turn again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{
				MaxParallel: 1, Rand: func() float64 { return 0 }, Timeout: 3 * time.Hour,
				Agents: []*agentloop.Agent{
					newAgent(t, agentloop.Config{Name: "limited", Model: play(fails(passing{time.Hour}), says("ok"))}),
					newAgent(t, agentloop.Config{Name: "long", Model: play(after(2*time.Hour, says("ok")))}),
					newAgent(t, agentloop.Config{Name: "longer", Model: play(silent)}),
				},
			})
			assert.Equal(t, 2*time.Hour, rep.Results[0].Duration, "behind the one that had its turn meanwhile")
			assert.Equal(t, agentloop.Done, rep.Results[0].Outcome, "and before the one that had not")
			assert.Equal(t, agentloop.Exhausted, rep.Results[2].Outcome)
		})
	})
}

// A group that runs in a tool has turns and a journal of its own.
func TestAGroupInATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(nil)
		j := openJournal(t, d)
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			rep := runGroup(t, ctx, agentloop.GroupConfig{
				MaxParallel: 1, Rand: func() float64 { return 0 }, Journal: j,
				Agents: []*agentloop.Agent{
					newAgent(t, agentloop.Config{Name: "limited", Model: play(fails(passing{time.Hour}), says("ok"))}),
					newAgent(t, agentloop.Config{Name: "other", Model: play(after(time.Minute, says("ok")))}),
				},
			})
			assert.True(t, rep.Done())
			assert.Equal(t, time.Hour, rep.Duration, "the other one had its turn meanwhile")
			return "", nil
		})
		spawn.Timeout = 2 * time.Hour
		res := runOne(t, agentloop.Config{Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{spawn}})
		require.NoError(t, j.Close())
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Contains(t, string(d.files["agents/limited.jsonl"]), `"outcome":"done"`)
		assert.Contains(t, string(d.files["run.jsonl"]), `"k":"run_end"`)
	})
}

// What the watchdog does about a stall, once it has told of it.
func TestWhatIsDoneAboutAStall(t *testing.T) {
	const m = time.Minute
	deaf := func(release chan struct{}) step {
		return func(context.Context, *chat.Request) (*chat.Response, error) { <-release; return nil, nil }
	}
	for name, c := range map[string]struct {
		action    agentloop.StallAction
		tool      bool // it is a tool that stalls
		ignores   bool // its context
		want      agentloop.Outcome
		took      time.Duration
		restarts  int
		abandoned int
	}{
		"nothing":                  {agentloop.StallReport, false, false, agentloop.Exhausted, 2 * time.Hour, 0, 0},
		"the call is retried":      {agentloop.StallRetry, false, false, agentloop.Done, 5*m + time.Second, 1, 0},
		"a deaf call too":          {agentloop.StallRetry, false, true, agentloop.Done, 5*m + 50*time.Millisecond + time.Second, 1, 1},
		"a tool's call is ended":   {agentloop.StallRetry, true, false, agentloop.Done, 5 * m, 0, 0},
		"a deaf tool's too":        {agentloop.StallRetry, true, true, agentloop.Done, 5*m + 50*time.Millisecond, 0, 1},
		"the agent is ended":       {agentloop.StallEnd, false, false, agentloop.Stalled, 5 * m, 0, 0},
		"the agent, with its tool": {agentloop.StallEnd, true, false, agentloop.Stalled, 5 * m, 0, 0},
		"a deaf one is abandoned":  {agentloop.StallEnd, false, true, agentloop.Abandoned, 5*m + 50*time.Millisecond, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				hang := agentloop.Tool{Name: "hang", Timeout: -1, Run: func(ctx context.Context, _ raw) (string, error) {
					if c.ignores {
						<-release
					}
					<-ctx.Done()
					return "", context.Cause(ctx)
				}}
				script := []step{silent, says("ok")}
				switch {
				case c.tool:
					script[0] = calls(call("", "hang", "{}"))
				case c.ignores:
					script[0] = deaf(release)
				}
				model := play(script...)
				var story []agentloop.EventKind
				res, rep := runAgent(t, agentloop.Config{Model: model, Tools: []agentloop.Tool{hang}}, agentloop.GroupConfig{
					OnStall: c.action,
					OnEvent: func(e agentloop.Event) {
						switch e.Kind {
						case agentloop.EventStalled, agentloop.EventRestart, agentloop.EventToolEnded, agentloop.EventToolAbandoned, agentloop.EventEnded:
							story = append(story, e.Kind)
						}
					},
				})
				assert.Equal(t, c.want, res.Outcome, res.Err)
				assert.Equal(t, c.took, res.Duration)
				assert.Equal(t, c.restarts, res.Restarts)
				assert.Len(t, rep.Abandoned, c.abandoned)
				assert.Equal(t, 1, rep.Stalls)
				assert.Equal(t, agentloop.EventStalled, story[0], "it tells before it acts: %v", story)
				if c.want == agentloop.Stalled {
					stall, ok := errors.AsType[*agentloop.StallError](res.Err)
					require.True(t, ok)
					assert.Equal(t, 5*m, stall.Silent)
					assert.True(t, stall.Timeout())
				}
				if c.tool && c.want == agentloop.Done {
					assert.Contains(t, model.last(chat.RoleTool)[0], "showed no life for 5m0s")
				}
			})
		})
	}
}

func TestAgentsAreCancelledByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errBored := errors.New("not needed any more")
		var found []int
		var child agentloop.Result
		judge := tool(t, "judge", func(ctx context.Context) (string, error) {
			time.Sleep(time.Second)
			found = append(found,
				agentloop.CancelAgents(ctx, errBored, "first", "parent/child", "waiting", "nobody", "quick"),
				agentloop.CancelAgents(ctx, errors.New("again"), "first"))
			return "judged", nil
		})
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			child = newAgent(t, agentloop.Config{Name: "parent/child", Model: play(silent)}).Run(ctx)
			return "", child.Err
		})
		one := func(name string, m agentloop.Model, tools ...agentloop.Tool) *agentloop.Agent {
			return newAgent(t, agentloop.Config{Name: name, Model: m, Tools: tools})
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{MaxParallel: 5, Agents: []*agentloop.Agent{
			one("judge", play(calls(call("", "judge", "{}")), says("ok")), judge),
			one("first", play(silent)),
			one("second", play(after(time.Minute, says("ok")))),
			one("parent", play(calls(call("", "spawn", "{}")), says("alone, then")), spawn),
			one("quick", play(says("ok"))),
			one("slow", play(after(time.Hour, says("ok")))),
			one("waiting", play(says("never asked"))),
		}})
		assert.Equal(t, []int{3, 0}, found, "the first, the child, the one without a turn")
		want := map[string]agentloop.Outcome{"judge": agentloop.Done, "first": agentloop.Cancelled, "second": agentloop.Done,
			"parent": agentloop.Done, "quick": agentloop.Done, "slow": agentloop.Done, "waiting": agentloop.Cancelled}
		for _, res := range rep.Results {
			assert.Equal(t, want[res.Name], res.Outcome, res.Name)
			assert.Equal(t, res.Outcome == agentloop.Cancelled, errors.Is(res.Err, errBored), res.Name)
		}
		assert.Equal(t, time.Second, rep.Results[1].Duration)
		assert.ErrorIs(t, rep.Results[6].Err, agentloop.ErrNeverStarted)
		assert.NoError(t, rep.Err, "the group went on")
		assert.Equal(t, agentloop.Cancelled, child.Outcome)
		assert.ErrorIs(t, child.Err, errBored)
		require.Len(t, rep.Children, 1)
		assert.Equal(t, child, rep.Children[0])
	})
	assert.Zero(t, agentloop.CancelAgents(t.Context(), nil, "a"), "no group")
}

// A place for a call is held for the call alone: parents that wait for their
// children hold none.
func TestInFlightBracketsTheCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, total := 0, 0, 0
		model := func(s *strictServer) agentloop.Model {
			return agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				mu.Lock()
				now, total = now+1, total+1
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return s.Chat(ctx, req)
			})
		}
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			child := newAgent(t, agentloop.Config{Name: agentloop.AgentName(ctx) + "/" + agentloop.CallID(ctx), Model: model(play(says("ok")))})
			return "", child.Run(ctx).Err
		})
		var agents []*agentloop.Agent
		for i := range 5 {
			agents = append(agents, newAgent(t, agentloop.Config{Name: fmt.Sprintf("p%d", i), Tools: []agentloop.Tool{spawn},
				Model: model(play(calls(call("", "spawn", `{"n":1}`), call("", "spawn", `{"n":2}`)), says("ok")))}))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents, MaxInFlight: 3})
		assert.True(t, rep.Done(), rep.Counts)
		assert.Len(t, rep.Children, 10)
		assert.Equal(t, 3, most)
		assert.Equal(t, 20, total)
		assert.Equal(t, 7*time.Second, rep.Duration)
	})
	t.Run("and given back by those who leave", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := agentloop.Config{Model: play(silent), Timeout: time.Minute}
			rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 9, cfg), MaxInFlight: 2})
			assert.Equal(t, map[agentloop.Outcome]int{agentloop.Exhausted: 9}, rep.Counts)
			assert.Equal(t, time.Minute, rep.Duration)
			waited := 0
			for _, res := range rep.Results {
				if strings.HasPrefix(res.Stuck, "waiting for its turn to call the model for 1m0s") {
					waited++
				}
			}
			assert.Positive(t, waited)
		})
	})
}

// The pause before an agent is started again is not begun if it does not fit.
func TestARestartOfAPolicyThatDoesNotFitIsNotBegun(t *testing.T) {
	for limit, want := range map[time.Duration]agentloop.Outcome{time.Second: agentloop.Exhausted, time.Second + 1: agentloop.Done} {
		synctest.Test(t, func(t *testing.T) {
			m := play(fails(errWrongKey), says("done"))
			res, _ := runAgent(t, agentloop.Config{Model: m, Timeout: limit}, agentloop.GroupConfig{
				Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}},
			})
			assert.Equal(t, want, res.Outcome, res.Err)
			if want == agentloop.Exhausted {
				assert.ErrorIs(t, res.Err, errWrongKey)
				assert.Zero(t, res.Duration)
				assert.Zero(t, res.Restarts)
			}
		})
	}
}
