package agentloop_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A number that is never reached means no bound: it causes patience without end, and
// no overflow.
func TestANumberThatIsNeverReachedIsNoBound(t *testing.T) {
	const most, large = math.MaxInt, math.MaxInt / 2
	for name, set := range map[string]func(*agentloop.Config){
		"Nudges":             func(c *agentloop.Config) { c.Nudges = most },
		"NarrowedTries":      func(c *agentloop.Config) { c.NarrowedTries = most },
		"ForcedTries":        func(c *agentloop.Config) { c.ForcedTries = most },
		"all of them":        func(c *agentloop.Config) { c.Nudges, c.NarrowedTries, c.ForcedTries = most, most, most },
		"all of them, large": func(c *agentloop.Config) { c.Nudges, c.NarrowedTries, c.ForcedTries = large, large, large },
	} {
		t.Run("useless answers, "+name, func(t *testing.T) {
			empty := answer(chat.Message{}, "")
			m := play(empty, empty, empty, empty, empty, empty, empty, calls(call("", "save", `{}`)))
			cfg := agentloop.Config{Model: m, Tools: (&desk{}).tools(t), Progression: agentloop.Progression{{Name: "save", Tools: []string{"save"}}}}
			set(&cfg)
			assert.Equal(t, agentloop.Done, runOne(t, cfg).Outcome)
		})
	}
	for name, n := range map[string]int{"the most": most, "large": large, "a quarter": most / 4} {
		t.Run("repeats, "+name, func(t *testing.T) {
			same := calls(call("", "read", `{}`))
			steps := []step{}
			for range 150 {
				steps = append(steps, same)
			}
			cfg := agentloop.Config{Model: play(append(steps, says("ok"))...), MaxRounds: most, Repeats: n, RepeatWindow: n}
			cfg.Tools = []agentloop.Tool{tool(t, "read", result("x"))}
			assert.Equal(t, agentloop.Done, runOne(t, cfg).Outcome)
		})
	}
	t.Run("depth", func(t *testing.T) {
		inner := tool(t, "inner", func(ctx context.Context) (string, error) {
			g, err := agentloop.NewGroup(agentloop.GroupConfig{
				Agents: []*agentloop.Agent{newAgent(t, agentloop.Config{Name: "b", Model: play(says("here"))})}, MaxDepth: most,
			})
			require.NoError(t, err)
			res := g.Run(ctx).Results[0]
			return res.Text, res.Err
		})
		m := play(calls(call("", "inner", `{}`)), says("ok"))
		runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{inner}}, agentloop.GroupConfig{MaxDepth: most})
		assert.Equal(t, []string{"here"}, m.last("tool"))
	})
}

// The same of times.
func TestATimeThatNeverPassesIsNoBound(t *testing.T) {
	const ever = math.MaxInt64
	for name, set := range map[string]func(*agentloop.GroupConfig){
		"Grace":        func(c *agentloop.GroupConfig) { c.Grace = ever },
		"DraftTimeout": func(c *agentloop.GroupConfig) { c.DraftTimeout = ever },
		"both":         func(c *agentloop.GroupConfig) { c.Grace, c.DraftTimeout = ever, ever },
		"large":        func(c *agentloop.GroupConfig) { c.Grace, c.DraftTimeout = ever/2, ever/2 },
		"all": func(c *agentloop.GroupConfig) {
			c.Grace, c.DraftTimeout, c.Timeout, c.StallAfter, c.Backoff = ever, ever, ever, ever, ever
			c.RestartsPer, c.WindDown, c.Systemic.Limit = ever, 1, ever
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(errors.New("enough")) })
				slow := tool(t, "slow", func(ctx context.Context) (string, error) {
					<-ctx.Done()
					time.Sleep(10 * time.Second)
					return "at last", nil
				})
				slow.Timeout = ever
				cfg := agentloop.Config{
					Name: "a", Task: "t", Model: play(calls(call("", "slow", `{}`))), Tools: []agentloop.Tool{slow}, Timeout: ever,
					Draft: func(context.Context, *agentloop.Result) (string, error) {
						time.Sleep(10 * time.Second)
						return strings.Repeat("x", 3), nil
					},
				}
				group := agentloop.GroupConfig{Agents: []*agentloop.Agent{newAgent(t, cfg)}, Timeout: -1}
				set(&group)
				if group.Grace == 0 {
					slowGrace := 20 * time.Second
					group.Grace = slowGrace
				}
				if group.DraftTimeout == 0 {
					group.DraftTimeout = 20 * time.Second
				}
				began := time.Now()
				rep := runGroup(t, ctx, group)
				res := rep.Results[0]
				assert.Equal(t, agentloop.Cancelled, res.Outcome, res.Err)
				assert.Empty(t, rep.Abandoned)
				assert.Equal(t, "xxx", res.Draft)
				assert.Equal(t, 1, res.ToolCalls)
				assert.Equal(t, 80*time.Second, time.Since(began))
			})
		})
	}
}

// Nanoseconds where seconds were meant are a short time, and no reason to spin.
func TestTimesWithoutAUnitAreShortTimes(t *testing.T) {
	for name, set := range map[string]func(*agentloop.GroupConfig){
		"StallAfter":     func(c *agentloop.GroupConfig) { c.StallAfter = 30 },
		"Grace":          func(c *agentloop.GroupConfig) { c.Grace = 30 },
		"DraftTimeout":   func(c *agentloop.GroupConfig) { c.DraftTimeout = 30 },
		"Backoff":        func(c *agentloop.GroupConfig) { c.Backoff = 30 },
		"RestartsPer":    func(c *agentloop.GroupConfig) { c.RestartsPer = 30 },
		"WindDown":       func(c *agentloop.GroupConfig) { c.WindDown = 30 },
		"Systemic.Limit": func(c *agentloop.GroupConfig) { c.Systemic.Limit = 30 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := agentloop.GroupConfig{Timeout: time.Minute, Agents: many(t, 4, agentloop.Config{
					Model: play(fails(passing{}), after(time.Second, fails(passing{})), after(10*time.Second, says("done"))),
					Draft: func(context.Context, *agentloop.Result) (string, error) { return "", nil },
				})}
				set(&group)
				rep := runGroup(t, t.Context(), group)
				assert.LessOrEqual(t, rep.Duration, time.Minute+100*time.Millisecond)
				assert.True(t, rep.Done(), rep)
			})
		})
	}
}
