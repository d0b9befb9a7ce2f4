package agentloop_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

var (
	chaosRounds = flag.Int("chaos", 60, "how many groups TestNothingHoldsAGroupUp runs")
	chaosSeed   = flag.Uint64("chaos-seed", 0, "its seed; 0 takes one from the clock")
)

// A chaos does to a group whatever code of others can do: it hangs, with and
// without an ear for its context, fails in all ways, panics, ends its goroutine,
// cancels, and starts agents itself.
type chaos struct {
	t       *testing.T
	release chan struct{} // for what hangs, at the end of the round

	mu   sync.Mutex
	luck *rand.Rand
}

func (c *chaos) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.luck.IntN(n)
}

func (c *chaos) span(most time.Duration) time.Duration { return time.Duration(c.roll(int(most))) }

// misbehave does something, or nothing, and returns what is to be returned.
func (c *chaos) misbehave(ctx context.Context) error {
	switch c.roll(40) {
	case 0: // deaf
		c.mu.Lock()
		release := c.release
		c.mu.Unlock()
		<-release
	case 1, 2:
		if ctx.Done() != nil {
			<-ctx.Done()
		}
		return ctx.Err()
	case 3:
		panic("chaos")
	case 4:
		runtime.Goexit()
	case 5:
		return errWrongKey
	case 6, 7, 8, 9:
		return passing{}
	case 10:
		return passing{c.span(3 * time.Minute)}
	case 11:
		return agentloop.Fatal(errors.New("chaos"))
	case 12:
		if c.roll(8) == 0 {
			agentloop.CancelGroup(ctx, errors.New("chaos"))
		}
	case 13:
		agentloop.CancelAgents(ctx, nil, fmt.Sprintf("agent%02d", c.roll(12)))
	case 14, 15:
		time.Sleep(c.span(time.Minute))
		agentloop.Heartbeat(ctx)
	case 16:
		return tooLong{}
	default:
		time.Sleep(c.span(20 * time.Second))
	}
	return nil
}

func (c *chaos) model(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	if err := strict(req.Messages); err != nil {
		c.t.Errorf("a strict server refuses: %v", err)
		return nil, err
	}
	if err := c.misbehave(ctx); err != nil {
		return nil, err
	}
	if forces := (req.ToolChoice != chat.ToolChoice{}); forces && c.roll(3) == 0 {
		status := []int{400, 422, 500, 501}[c.roll(4)]
		return nil, statusError{status, []string{"no tool_choice", "no"}[c.roll(2)], status >= 500}
	}
	names := []string{"read", "write", "append", "save", "spawn", "nothing", ""}
	args := []string{`{}`, `{"a":1}`, `{"a":2}`, `{"`, ``, `[]`}
	reasons := []chat.FinishReason{chat.FinishStop, chat.FinishToolCalls, chat.FinishLength, "", chat.FinishAbort, chat.FinishContentFilter}
	m := chat.Message{}
	for range c.roll(4) {
		m.ToolCalls = append(m.ToolCalls, call([]string{"", "x", "y"}[c.roll(3)], names[c.roll(len(names))], args[c.roll(len(args))]))
	}
	if c.roll(3) == 0 {
		m.Content = []string{"hm", " ", "done"}[c.roll(3)]
	}
	if c.roll(4) > 0 { // mostly as models do
		m.ToolCalls = []chat.ToolCall{call("", names[c.roll(5)], fmt.Sprintf(`{"n":%d}`, c.roll(1000)))}
		return &chat.Response{Message: m, FinishReason: chat.FinishToolCalls}, nil
	}
	return &chat.Response{Message: m, FinishReason: reasons[c.roll(len(reasons))]}, nil
}

func (c *chaos) agent(name string, depth int) *agentloop.Agent {
	var tools []agentloop.Tool
	for _, name := range []string{"read", "write", "append", "save"} {
		tools = append(tools, tool(c.t, name, func(ctx context.Context) (string, error) {
			return fmt.Sprint(name, c.roll(3)), c.misbehave(ctx)
		}))
	}
	tools = append(tools, tool(c.t, "spawn", func(ctx context.Context) (string, error) {
		if depth == 0 {
			return "", errors.New("too deep")
		}
		child := c.agent(fmt.Sprintf("%s/%d", name, c.roll(1000)), depth-1)
		return "", child.Run(ctx).Err
	}))
	for i := range tools {
		tools[i].Sequential, tools[i].Polling, tools[i].Fatal = c.roll(2) == 0, c.roll(5) == 0, c.roll(10) == 0
		tools[i].Timeout = []time.Duration{0, 10 * time.Second, -1}[c.roll(3)]
		tools[i].Effect = agentloop.Effect(c.roll(3))
	}
	cfg := agentloop.Config{
		Name: name, Model: agentloop.ModelFunc(c.model), Task: "x", Tools: tools,
		MaxRounds: 1 + c.roll(30), MaxToolCalls: c.roll(3) * 10, MaxTotalTokens: int64(c.roll(2) * 2000),
		Window: c.roll(2) * 300, Summarize: c.roll(2) == 0, ReadOnly: c.roll(6) == 0, MaxParallelTools: c.roll(3),
		Timeout: time.Duration(c.roll(3)) * 5 * time.Minute,
	}
	if c.roll(3) > 0 {
		cfg.Progression = article()
	}
	if c.roll(2) == 0 {
		cfg.Draft = func(ctx context.Context, _ *agentloop.Result) (string, error) { return "x", c.misbehave(ctx) }
	}
	a, err := agentloop.New(cfg)
	require.NoError(c.t, err)
	return a
}

func (c *chaos) group(d *disk) agentloop.GroupConfig {
	cfg := agentloop.GroupConfig{
		MaxParallel: c.roll(3) * 4, MaxInFlight: c.roll(3) * 3, Timeout: time.Minute + c.span(30*time.Minute),
		Restarts: c.roll(4), RestartsPer: time.Duration(c.roll(2)) * time.Minute,
		StallAfter: time.Duration(c.roll(3)) * time.Minute, OnStall: agentloop.StallAction(c.roll(3)),
		Systemic: agentloop.SystemicConfig{Action: agentloop.SystemicAction(c.roll(3)), Limit: time.Duration(c.roll(3)) * time.Minute},
	}
	if c.roll(2) == 0 {
		cfg.Restart = map[agentloop.Outcome]agentloop.RestartPolicy{
			agentloop.Failed: {Max: c.roll(3), Fresh: c.roll(2) == 0}, agentloop.Stalled: {Max: c.roll(3), Per: time.Minute},
		}
	}
	if d != nil {
		j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1, MaxOpen: c.roll(3)})
		require.NoError(c.t, err)
		cfg.Journal = j
	}
	if c.roll(2) == 0 {
		cfg.Explain = func(string) string {
			err := c.misbehave(context.Background())
			return fmt.Sprint("chaos: ", err)
		}
	}
	for i := range 1 + c.roll(12) {
		cfg.Agents = append(cfg.Agents, c.agent(fmt.Sprintf("agent%02d", i), 2))
	}
	return cfg
}

func TestNothingHoldsAGroupUp(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos-seed %d", seed)
	outcomes := map[agentloop.Outcome]int{}
	for round := range *chaosRounds {
		synctest.Test(t, func(t *testing.T) {
			c := &chaos{t: t, release: make(chan struct{}), luck: rand.New(rand.NewPCG(seed, uint64(round)))}
			var d *disk
			if round%2 == 0 {
				d = newDisk(nil)
			}
			for range 2 { // the second one goes on, where there is a journal
				cfg := c.group(d)
				var mu sync.Mutex
				ended := map[string]int{}
				var seq uint64
				cfg.OnEvent = func(e agentloop.Event) {
					mu.Lock()
					defer mu.Unlock()
					if assert.Greater(t, e.Seq, seq); e.Kind == agentloop.EventEnded {
						ended[e.Agent]++
					}
					seq = e.Seq
				}
				start := time.Now()
				rep := runGroup(t, t.Context(), cfg)
				require.LessOrEqual(t, time.Since(start), cfg.Timeout+100*time.Millisecond, "round %d", round)
				mu.Lock()
				for i, res := range rep.Results {
					outcomes[res.Outcome]++
					assert.Equal(t, 1, ended[res.Name], "round %d: %s", round, res.Name)
					assert.Equal(t, cfg.Agents[i].Name(), res.Name)
					if res.Outcome == agentloop.Done {
						assert.Empty(t, res.Missing)
					}
				}
				mu.Unlock()
				for _, a := range rep.Abandoned {
					assert.NotEmpty(t, a.Agent)
					assert.NotEmpty(t, a.Stack)
				}
				close(c.release)
				time.Sleep(2 * time.Hour) // what was left behind comes back
				c.mu.Lock()
				c.release = make(chan struct{})
				c.mu.Unlock()
				if d == nil {
					break
				}
				require.NoError(t, cfg.Journal.Close())
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Log(outcomes)
	for _, o := range []agentloop.Outcome{agentloop.Stalled, agentloop.Exhausted, agentloop.Failed, agentloop.Cancelled, agentloop.Abandoned} {
		assert.Positive(t, outcomes[o], o)
	}
}
