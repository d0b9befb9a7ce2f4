package agentloop_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// stalls runs an agent and returns the times at which the watchdog spoke.
func stalls(t *testing.T, cfg agentloop.Config, group agentloop.GroupConfig) (at []time.Duration, events []agentloop.Event, log string) {
	t.Helper()
	start := time.Now()
	group.OnEvent = func(e agentloop.Event) {
		if e.Kind == agentloop.EventStalled {
			at = append(at, e.Time.Sub(start))
			events = append(events, e)
		}
	}
	var lines bytes.Buffer
	group.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	_, rep := runAgent(t, cfg, group)
	assert.Equal(t, len(at), rep.Stalls)
	assert.Equal(t, len(at), strings.Count(lines.String(), `msg="agentloop: stalled"`))
	return at, events, lines.String()
}

func alive(d, every time.Duration) step {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		for ; d > 0; d -= every {
			time.Sleep(every)
			agentloop.Heartbeat(ctx)
		}
		return says("ok")(ctx, req)
	}
}

// streams is a client that tells of each piece of output.
func streams(d, every time.Duration) step {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		for ; d > 0; d -= every {
			time.Sleep(every)
			req.OnOutput()
		}
		return says("ok")(ctx, req)
	}
}

// pings is a client whose server sends nothing else for a while.
func pings(d, every time.Duration) step {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		for ; d > 0; d -= every {
			time.Sleep(every)
			req.OnBytes()
		}
		return says("ok")(ctx, req)
	}
}

func TestWatchdogSpeaksOnceForEachStall(t *testing.T) {
	const m = time.Minute
	for name, c := range map[string]struct {
		model  []step
		window time.Duration
		want   []time.Duration
	}{
		"a silent model, after 5 minutes": {[]step{silent}, 0, []time.Duration{5 * m}},
		"a window that was set":           {[]step{silent}, m, []time.Duration{m}},
		"an answer just in time":          {[]step{after(5*m-1, says("ok"))}, 0, nil},
		"an answer just too late":         {[]step{after(5*m+1, says("ok"))}, 0, []time.Duration{5 * m}},
		"no watchdog":                     {[]step{silent}, -1, nil},
		"a slow model that shows life":    {[]step{alive(30*m, 4*m)}, 0, nil},
		"one whose output is told of":     {[]step{streams(30*m, 4*m)}, 0, nil},
		"one whose server pings":          {[]step{pings(30*m, 4*m)}, 0, nil},
		"one that shows life too seldom":  {[]step{alive(12*m, 6*m)}, 0, []time.Duration{5 * m, 11 * m}},
		"two silences": {[]step{after(6*m, fails(passing{})), silent}, 0,
			[]time.Duration{5 * m, 11*m + time.Second}},
		"as slow as before": {[]step{after(5*m-1, calls(call("", "x", ""))), after(9*m, says("ok"))}, 0, nil},
		"more than twice as slow as before": {[]step{after(4*m, calls(call("", "x", ""))), after(9*m, says("ok"))}, 0,
			[]time.Duration{12 * m}},
		"a long pause": {[]step{fails(passing{time.Hour}), says("ok")}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, events, _ := stalls(t, agentloop.Config{Model: play(c.model...)}, agentloop.GroupConfig{StallAfter: c.window})
				assert.Equal(t, c.want, got)
				for _, e := range events {
					assert.Contains(t, e.Text, "waiting for the model for ")
					assert.Equal(t, "a", e.Agent)
				}
			})
		})
	}
}

// A tool within its own deadline is no stall, however long it takes; one
// without a deadline may be.
func TestToolsWithinTheirDeadlineAreNoStall(t *testing.T) {
	for name, c := range map[string]struct {
		deadline time.Duration
		want     []time.Duration
	}{
		"with a deadline":    {time.Hour, nil},
		"without a deadline": {-1, []time.Duration{5 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := tool(t, "slow", func(context.Context) (string, error) { time.Sleep(25 * time.Minute); return "x", nil })
				slow.Timeout = c.deadline
				got, events, log := stalls(t, agentloop.Config{
					Model: play(calls(call("", "slow", `{}`)), says("ok")), Tools: []agentloop.Tool{slow},
				}, agentloop.GroupConfig{})
				require.Equal(t, c.want, got)
				if len(got) > 0 {
					assert.Equal(t, "running slow for 5m0s; before that waiting for the model for 0s", events[0].Text)
					assert.Equal(t, 5*time.Minute, events[0].After)
					assert.Contains(t, log, `level=WARN msg="agentloop: stalled" agent=a round=1 tool=slow waits="running slow`)
				}
			})
		})
	}
}

// A tool without a deadline that tells how far it is is no stall, and is heard.
func TestToolsTellOfTheirProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := tool(t, "long", func(ctx context.Context) (string, error) {
			for i := range 3 {
				time.Sleep(4 * time.Minute)
				agentloop.Progress(ctx, fmt.Sprintf("%d of 3", i+1))
			}
			return "x", nil
		})
		long.Timeout = -1
		var said []string
		got, _, _ := stalls(t, agentloop.Config{
			Model: play(calls(call("c1", "long", "{}")), says("ok")), Tools: []agentloop.Tool{long},
			OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventToolProgress {
					said = append(said, e.Tool+" "+e.CallID+" "+e.Text)
				}
			},
		}, agentloop.GroupConfig{})
		assert.Empty(t, got)
		assert.Equal(t, []string{"long c1 1 of 3", "long c1 2 of 3", "long c1 3 of 3"}, said)
		agentloop.Progress(t.Context(), "nobody hears it")
		var none context.Context
		agentloop.Progress(none, "nor that")
	})
}

func TestWatchdogNamesEachOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]int{}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: many(t, 45, agentloop.Config{Model: play(silent)}),
			OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventStalled {
					seen[e.Agent]++
				}
			},
		})
		assert.Equal(t, 45, rep.Stalls)
		assert.Len(t, seen, 45)
	})
}

// A slow model gives models more time, and tools none.
func TestAToolWithoutDeadlineIsNotGivenTheModelsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := tool(t, "hang", func(context.Context) (string, error) { time.Sleep(time.Hour); return "x", nil })
		hang.Timeout = -1
		got, _, _ := stalls(t, agentloop.Config{
			Model: play(after(10*time.Minute, calls(call("", "hang", "{}"))), after(20*time.Minute-1, says("ok"))), Tools: []agentloop.Tool{hang},
		}, agentloop.GroupConfig{})
		assert.Equal(t, []time.Duration{5 * time.Minute, 15 * time.Minute}, got)
	})
}

// An agent that waits for its children is as alive as they are, at any depth.
func TestAParentIsAsAliveAsItsChildren(t *testing.T) {
	const m = time.Minute
	tick := func(ctx context.Context) (string, error) { return time.Now().String(), nil }
	for name, c := range map[string]struct {
		child  []step
		window time.Duration // of the child's group
		want   []time.Duration
	}{
		"rounds of a minute":                 {[]step{after(m, calls(call("", "tick", `{"n":1}`))), after(4*m, calls(call("", "tick", `{"n":2}`))), after(4*m, says("ok"))}, 0, nil},
		"a model that shows life":            {[]step{alive(30*m, 4*m)}, 0, nil},
		"a model that shows none":            {[]step{after(9*m, says("ok"))}, 0, []time.Duration{5 * m}},
		"a model that is as slow as before":  {[]step{after(5*m-1, calls(call("", "tick", ""))), after(9*m, says("ok"))}, 0, nil},
		"a tool within its deadline":         {[]step{calls(call("", "long", "")), says("ok")}, 0, nil},
		"a pause":                            {[]step{fails(passing{time.Hour}), says("ok")}, 0, nil},
		"a hang, in a child without a watch": {[]step{after(9*m, says("ok"))}, -1, []time.Duration{5 * m}},
		"a hang, and a patient child":        {[]step{after(9*m, says("ok"))}, 8 * m, []time.Duration{8 * m}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				long := tool(t, "long", func(context.Context) (string, error) { time.Sleep(time.Hour); return "x", nil })
				long.Timeout = 2 * time.Hour
				child := agentloop.Config{Name: "child", Model: play(c.child...), Tools: []agentloop.Tool{tool(t, "tick", tick), long}}
				spawns := func(name string, cfg agentloop.Config, window time.Duration) agentloop.Config {
					spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
						g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{newAgent(t, cfg)}, StallAfter: window})
						require.NoError(t, err)
						return "", g.Run(ctx).Results[0].Err
					})
					spawn.Timeout = -1
					return agentloop.Config{Name: name, Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{spawn}}
				}
				got, _, _ := stalls(t, spawns("a", spawns("middle", child, c.window), -1), agentloop.GroupConfig{})
				assert.Equal(t, c.want, got)
			})
		})
	}
}

// What a child has left behind is no life of its parent.
func TestAnAbandonedChildIsNoLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		zombie := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			for {
				select {
				case <-over:
					return nil, nil
				case <-time.After(time.Minute):
					req.OnOutput()
				}
			}
		})
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
			res := newAgent(t, agentloop.Config{Name: "child", Model: zombie, Timeout: time.Hour}).Run(ctx)
			assert.Equal(t, agentloop.Abandoned, res.Outcome)
			time.Sleep(6 * time.Minute)
			return "", nil
		})
		spawn.Timeout = -1
		got, _, _ := stalls(t, agentloop.Config{Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{})
		require.Len(t, got, 1)
		// The watchdog looks again after a hundredth of its window at the latest.
		assert.InDelta(t, time.Hour+50*time.Millisecond+5*time.Minute, got[0], float64(3*time.Second))
	})
}

// The watchdog hears what the template of the request listens to as well.
func TestTheWatchdogHearsBesideTheTemplate(t *testing.T) {
	silence := func(d time.Duration) {}
	listens := chat.Request{OnOutput: func() {}, OnBytes: func() {}, OnWait: silence}
	waits := func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		req.OnWait(20 * time.Minute)
		return after(20*time.Minute, says("ok"))(ctx, req)
	}
	for name, s := range map[string]step{"output": streams(30*time.Minute, 4*time.Minute), "pings": pings(30*time.Minute, 4*time.Minute), "a wait": waits} {
		synctest.Test(t, func(t *testing.T) {
			at, _, _ := stalls(t, agentloop.Config{Request: listens, Model: play(s)}, agentloop.GroupConfig{})
			assert.Empty(t, at, name)
		})
	}
}

func TestWhatTheTemplateListensWithIsCalledToo(t *testing.T) {
	output, bytes := 0, 0
	runOne(t, agentloop.Config{Request: chat.Request{OnOutput: func() { output++ }, OnBytes: func() { bytes++ }},
		Model: play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			req.OnOutput()
			req.OnBytes()
			req.OnBytes()
			return says("ok")(ctx, req)
		})})
	assert.Equal(t, 1, output)
	assert.Equal(t, 2, bytes)
}
