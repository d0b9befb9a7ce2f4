package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
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

func TestParallelCallsGetTheirOwnResultsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		tl, err := agentloop.NewTool("wait", "", func(_ context.Context, in struct{ S int }) (int, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Duration(in.S) * time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return in.S, nil
		})
		require.NoError(t, err)
		tl.Effect = agentloop.EffectNone // then equal calls are made as often as they are asked for
		run := func(width int, secs ...int) (time.Duration, string) {
			var list []chat.ToolCall
			for _, s := range secs {
				list = append(list, call("", "wait", fmt.Sprintf(`{"S":%d}`, s)))
			}
			most = 0
			m := play(calls(list...), says("ok"))
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tl}, MaxParallelTools: width})
			require.Equal(t, agentloop.Done, res.Outcome)
			return res.Duration, strings.Join(m.last(chat.RoleTool), " ")
		}

		took, got := run(0, 3, 1, 2)
		assert.Equal(t, 3*time.Second, took)
		assert.Equal(t, "3 1 2", got)

		took, _ = run(1, 3, 1, 2)
		assert.Equal(t, 6*time.Second, took)
		assert.Equal(t, 1, most)

		took, _ = run(0, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		assert.Equal(t, 2*time.Second, took, "8 at a time by default")
		assert.Equal(t, 8, most)

		took, _ = run(-1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		assert.Equal(t, time.Second, took)

		tl.Sequential = true
		took, got = run(0, 3, 1, 2)
		assert.Equal(t, 6*time.Second, took)
		assert.Equal(t, "3 1 2", got)
	})
}

func TestAFailedCallLeavesItsSiblingsAlone(t *testing.T) {
	m := play(calls(call("a", "fine", `{}`), call("b", "broken", `{}`), call("c", "cancelled", `{}`)), says("ok"))
	res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{
		tool(t, "fine", result("good")),
		tool(t, "broken", func(context.Context) (string, error) { return "half", errors.New("no such file") }),
		tool(t, "cancelled", func(context.Context) (string, error) { return "", context.Canceled }),
	}})
	require.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, []string{"good", "error: no such file\nWhat it returned beside the error:\nhalf", "error: context canceled"}, m.last(chat.RoleTool))
}

func TestFatalEndsTheAgentAndItsSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errGone := errors.New("disk is gone")
		m := play(calls(call("", "slow", `{}`), call("", "bad", `{}`), call("", "late", `{}`)))
		var cause error
		late := tool(t, "late", result("ran"))
		late.Sequential = true
		res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{
			tool(t, "slow", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return "", ctx.Err()
			}),
			tool(t, "bad", func(context.Context) (string, error) {
				time.Sleep(time.Second)
				return "", fmt.Errorf("cannot write: %w", agentloop.Fatal(errGone))
			}),
			late,
		}})
		assert.Equal(t, agentloop.Failed, res.Outcome)
		assert.ErrorIs(t, res.Err, errGone)
		assert.ErrorIs(t, cause, errGone)
		assert.Equal(t, time.Second, res.Duration)
		assert.Equal(t, 2, res.ToolCalls)
		assert.Equal(t, 1, len(m.requests()))
		assert.Contains(t, res.Messages[4].Content, "not run")
	})
	assert.NoError(t, agentloop.Fatal(nil))
}

func TestToolTimeout(t *testing.T) {
	sleepy := func(d time.Duration, obeys bool) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			if !obeys {
				time.Sleep(d)
				return "late", nil
			}
			select {
			case <-time.After(d):
				return "fine", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	}
	for name, c := range map[string]struct {
		run           func(context.Context) (string, error)
		own, default_ time.Duration
		took          time.Duration
		want          string
		abandoned     int
	}{
		"of one minute": {sleepy(time.Hour, true), 0, 0, time.Minute, "error: t was stopped after 1m0s without a result", 0},
		"kept":          {sleepy(time.Minute-1, true), 0, 0, time.Minute - 1, "fine", 0},
		"of the agent":  {sleepy(time.Hour, true), 0, time.Second, time.Second, "error: t was stopped after 1s", 0},
		"of its own":    {sleepy(time.Hour, true), 2 * time.Second, time.Second, 2 * time.Second, "error: t was stopped after 2s", 0},
		"none":          {sleepy(time.Hour, true), -1, time.Second, time.Hour, "fine", 0},
		"none at all":   {sleepy(time.Hour, true), 0, -1, time.Hour, "fine", 0},
		"ignored": {sleepy(time.Hour, false), 200 * time.Millisecond, 0, 250 * time.Millisecond,
			"error: t gave no result within 200ms and does not stop; it may still take effect", 1},
		"missed, but within the grace": {sleepy(250*time.Millisecond-1, false), 200 * time.Millisecond, 0, 250*time.Millisecond - 1, "late", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tl := tool(t, "t", c.run)
				tl.Timeout = c.own
				m := play(calls(call("a", "t", `{}`), call("b", "other", `{}`)), says("went on"))
				res := runOne(t, agentloop.Config{
					Model: m, ToolTimeout: c.default_,
					Tools: []agentloop.Tool{tl, tool(t, "other", result("here"))},
				})
				assert.Equal(t, agentloop.Done, res.Outcome)
				assert.Equal(t, c.took, res.Duration)
				got := m.last(chat.RoleTool)
				assert.Contains(t, got[0], c.want)
				assert.Equal(t, "here", got[1])
				require.Len(t, res.Abandoned, c.abandoned)
				if c.abandoned > 0 {
					a := res.Abandoned[0]
					assert.Equal(t, "tool t", a.In)
					assert.Equal(t, "a", a.CallID)
					assert.Equal(t, c.took, a.Waited)
					assert.Equal(t, res.Started, a.Started)
				}
				time.Sleep(time.Hour) // lets the abandoned one come back, unheard
				assert.Len(t, res.Messages, 5)
			})
		})
	}
}

var unmade map[string]int

func TestPanicsCostOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		run  func()
		want string
	}{
		"a text":           {func() { panic("boom") }, "error: bad crashed: boom"},
		"nil":              {func() { panic(nil) }, "error: bad crashed: panic called with nil"},
		"a runtime error":  {func() { unmade["x"] = 1 }, "error: bad crashed: assignment to entry in nil map"},
		"goroutine exited": {runtime.Goexit, "error: bad ended without a result"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := tool(t, "bad", func(context.Context) (string, error) { c.run(); return "", nil })
			fine := tool(t, "fine", result("good"))
			m := play(
				calls(call("", "bad", `{}`)),
				calls(call("", "fine", `{}`), call("", "bad", `{}`), call("", "fine", `{"n":2}`)),
				says("ok"),
			)
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{bad, fine}})
			require.Equal(t, agentloop.Done, res.Outcome)
			assert.Empty(t, res.Abandoned, "nothing is left running")
			assert.Equal(t, 4, res.ToolCalls)
			got := m.last(chat.RoleTool)
			require.Len(t, got, 3)
			assert.Equal(t, "good", got[0])
			assert.Contains(t, got[1], c.want)
			assert.Equal(t, "good", got[2])
			if name == "goroutine exited" {
				assert.Empty(t, res.Panics)
				return
			}
			require.Len(t, res.Panics, 2)
			assert.Equal(t, "tool bad", res.Panics[0].In)
			assert.Contains(t, string(res.Panics[0].Stack), "calls_test.go")
		})
	}
}

func TestPanicOfTheModelIsAFailure(t *testing.T) {
	cause := errors.New("cause")
	for name, s := range map[string]step{
		"panic":  func(ctx, *chat.Request) (*chat.Response, error) { panic(cause) },
		"goexit": func(ctx, *chat.Request) (*chat.Response, error) { runtime.Goexit(); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			res := runOne(t, agentloop.Config{Model: agentloop.ModelFunc(s)})
			assert.Equal(t, agentloop.Failed, res.Outcome)
			if name == "goexit" {
				assert.ErrorIs(t, res.Err, agentloop.ErrExited)
				return
			}
			require.Len(t, res.Panics, 1)
			assert.Equal(t, "model", res.Panics[0].In)
			assert.ErrorIs(t, res.Err, cause)
		})
	}
}

// A cancel in the middle of a batch leaves every call with one result, and what
// was done counts.
func TestCancelDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		m := play(calls(call("1", "quick", `{}`), call("2", "slow", `{}`), call("3", "quick", `{}`), call("4", "slow", `{}`)))
		res := newAgent(t, agentloop.Config{
			Model: m, MaxParallelTools: 2,
			Tools: []agentloop.Tool{
				tool(t, "quick", result("done")),
				tool(t, "slow", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
			},
			Progression: agentloop.Progression{{Name: "quick", Tools: []string{"quick"}}, {Name: "slow", Tools: []string{"slow"}}},
		}).Run(ctx)
		assert.Equal(t, agentloop.Cancelled, res.Outcome)
		require.NoError(t, strict(res.Messages))
		assert.Equal(t, time.Second, res.Duration)
		assert.Equal(t, []string{"quick"}, res.Steps)
		assert.Equal(t, "done", res.Messages[2].Content)

		next := runOne(t, agentloop.Config{Model: play(says("ok")), Messages: res.Messages, Task: "Go on."})
		assert.Equal(t, agentloop.Done, next.Outcome, next.Err)
	})
}

// Work that was completed while the end came is done.
func TestLastStepTakenAtTheEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, _ := author(t, play(calls(call("", "read", `{}`), call("", "write", `{}`), call("", "save", `{}`))))
		cfg.Tools[3] = tool(t, "save", func(ctx context.Context) (string, error) { <-ctx.Done(); return "saved just so", nil })
		cfg.Timeout = time.Second
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Done, res.Outcome)
		assert.Equal(t, time.Second, res.Duration)
	})
}

// A goroutine profile of the process shows to which call a goroutine belongs.
func TestAbandonedGoroutinesCarryTheirName(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	stuck := tool(t, "stuck", func(context.Context) (string, error) { <-release; return "", nil })
	stuck.Timeout = time.Millisecond
	res := runOne(t, agentloop.Config{Name: "anna", Model: play(calls(call("", "stuck", `{}`)), says("ok")), Tools: []agentloop.Tool{stuck}})
	require.Equal(t, agentloop.Done, res.Outcome)

	var dump strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&dump, 1))
	assert.Regexp(t, `\{"agent":"anna", "call":"\d+", "in":"tool stuck"\}`, dump.String())
}

// A call that waited for its turn when the end came is not run.
func TestCallsInLineDoNotRunAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		slow := tool(t, "slow", func(ctx context.Context) (string, error) { ran++; <-ctx.Done(); return "", ctx.Err() })
		res := runOne(t, agentloop.Config{
			Model: play(calls(call("", "slow", `{}`), call("", "slow", `{"n":2}`))), Tools: []agentloop.Tool{slow},
			MaxParallelTools: 1, Timeout: time.Second,
		})
		assert.Equal(t, agentloop.Exhausted, res.Outcome)
		assert.Equal(t, 1, ran)
		assert.Equal(t, 1, res.ToolCalls)
		assert.Equal(t, "error: slow was not run: the agent was stopped.", res.Messages[3].Content)
	})
}
