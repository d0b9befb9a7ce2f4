package agentloop_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Whatever hangs, and however much of it at once, Run is back within 100 ms of
// the deadline, with every name.
func TestRunIsBackInTime(t *testing.T) {
	const m = time.Minute
	for name, c := range map[string]struct {
		group              agentloop.GroupConfig
		model, tool, draft bool // it hangs, and ignores its context
		hears              bool // the consumer of events hangs
		want               agentloop.Outcome
		took               time.Duration
	}{
		"nothing hangs":               {agentloop.GroupConfig{}, false, false, false, false, agentloop.Exhausted, m - 1050*time.Millisecond},
		"the model":                   {agentloop.GroupConfig{}, true, false, false, false, agentloop.Abandoned, m - time.Second},
		"a tool":                      {agentloop.GroupConfig{}, false, true, false, false, agentloop.Abandoned, m - time.Second},
		"a hook":                      {agentloop.GroupConfig{}, false, false, true, false, agentloop.Exhausted, m},
		"a tool and a hook":           {agentloop.GroupConfig{}, false, true, true, false, agentloop.Abandoned, m + 40*time.Millisecond},
		"a tool, a hook, the events":  {agentloop.GroupConfig{}, false, true, true, true, agentloop.Abandoned, m + 80*time.Millisecond},
		"without winding down":        {agentloop.GroupConfig{WindDown: -1}, false, true, true, true, agentloop.Abandoned, m + 80*time.Millisecond},
		"with much patience":          {agentloop.GroupConfig{Grace: time.Hour, DraftTimeout: time.Hour}, false, true, true, true, agentloop.Abandoned, m + 80*time.Millisecond},
		"with much to wind down":      {agentloop.GroupConfig{WindDown: 30 * time.Second, DraftTimeout: 20 * time.Second}, false, true, true, false, agentloop.Abandoned, m - 30*time.Second + 20*time.Second + 100*time.Millisecond},
		"with no time but to wind up": {agentloop.GroupConfig{WindDown: time.Hour}, false, false, false, false, agentloop.Exhausted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				hang := func(ctx context.Context, hangs bool) error {
					if hangs {
						<-release
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				stuck := tool(t, "stuck", func(ctx context.Context) (string, error) { return "", hang(ctx, c.tool) })
				stuck.Timeout = -1
				script := play(calls(call("", "stuck", "{}")))
				if c.model {
					script = play(func(ctx context.Context, _ *chat.Request) (*chat.Response, error) { return nil, hang(ctx, true) })
				}
				drafts := 0
				cfg := agentloop.Config{Model: script, Tools: []agentloop.Tool{stuck}, Draft: func(context.Context, *agentloop.Result) (string, error) {
					if c.draft {
						<-release
					}
					drafts++
					return "here", nil
				}}
				group := c.group
				group.Agents, group.Timeout = []*agentloop.Agent{newAgent(t, cfg)}, m
				if c.hears {
					group.OnEvent = func(agentloop.Event) { <-release }
				}
				start := time.Now()
				rep := runGroup(t, t.Context(), group)
				assert.Equal(t, c.took, time.Since(start))
				assert.LessOrEqual(t, time.Since(start), m+100*time.Millisecond)
				assert.Equal(t, map[agentloop.Outcome]int{c.want: 1}, rep.Counts)
				var left []string
				for _, a := range rep.Abandoned {
					left = append(left, a.In)
					assert.NotEmpty(t, a.Stack)
				}
				for what, hangs := range map[string]bool{"model": c.model, "tool stuck": c.tool, "draft": c.draft} {
					assert.Equal(t, hangs, slices.Contains(left, what), "%s in %v", what, left)
				}
				if c.took > 0 && !c.draft {
					assert.Equal(t, "here", rep.Results[0].Draft)
					assert.Equal(t, 1, drafts)
				}
				close(release)
			})
		})
	}
}

// What was left behind is listed, with where it is and since when.
func TestWhatIsAbandonedIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		stuck := tool(t, "stuck", func(context.Context) (string, error) { waitsForTheDisk(release); return "", nil })
		model := func() *strictServer {
			return play(after(time.Second, calls(call("c1", "stuck", "{}"))), func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
				waitsForTheServer(release)
				return nil, nil
			})
		}
		var agents []*agentloop.Agent
		for i := range 3 {
			agents = append(agents, newAgent(t, agentloop.Config{Name: fmt.Sprint(i), Model: model(), Tools: []agentloop.Tool{stuck}}))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents, Timeout: 5 * time.Minute})
		require.Len(t, rep.Abandoned, 6)
		for i, a := range rep.Abandoned {
			assert.Equal(t, fmt.Sprint(i/2), a.Agent)
			if a.In == "tool stuck" {
				assert.Equal(t, "c1", a.CallID)
				assert.Equal(t, time.Minute+50*time.Millisecond, a.Waited)
				assert.Contains(t, a.Stack, "agentloop_test.waitsForTheDisk")
				assert.NotContains(t, a.Stack, "waitsForTheServer", "it is its own")
				continue
			}
			assert.Equal(t, "model", a.In)
			assert.Equal(t, 5*time.Minute+50*time.Millisecond, a.Waited+a.Started.Sub(rep.Started))
			assert.Contains(t, a.Stack, "agentloop_test.waitsForTheServer")
			assert.NotContains(t, a.Stack, "waitsForTheDisk")
		}
	})
}

func waitsForTheDisk(c chan struct{})   { <-c }
func waitsForTheServer(c chan struct{}) { <-c }

// Did the watchdog ever speak? The last line of the log says so in any case.
func TestTheLastEventSaysHowItWent(t *testing.T) {
	for name, c := range map[string]struct {
		model step
		want  string
	}{
		"without a stall": {says("ok"), "1 done, 0 stalls, 0 abandoned"},
		"with one":        {after(9*time.Minute, says("ok")), "1 done, 1 stalls, 0 abandoned"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				var last agentloop.Event
				var seq uint64
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: many(t, 1, agentloop.Config{Model: play(c.model)}),
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
					OnEvent: func(e agentloop.Event) {
						seq++
						assert.Equal(t, seq, e.Seq, "without gaps")
						last = e
					},
				})
				require.True(t, rep.Done())
				assert.Equal(t, agentloop.EventGroupEnded, last.Kind)
				assert.Equal(t, c.want, last.Text)
				assert.Contains(t, log.String(), fmt.Sprintf(`level=INFO msg="agentloop: group_ended" text=%q`, c.want))
			})
		})
	}
}

// Life of a child that belongs to the group is told of by its own name alone.
func TestAStallOfAChildIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			return "", newAgent(t, agentloop.Config{Name: "child", Model: play(after(9*time.Minute, says("ok")))}).Run(ctx).Err
		})
		spawn.Timeout = -1
		_, events, _ := stalls(t, agentloop.Config{Name: "parent", Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{})
		require.Len(t, events, 1)
		assert.Equal(t, "child", events[0].Agent)
	})
}
