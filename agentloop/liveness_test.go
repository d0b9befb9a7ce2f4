package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// sleeper is a tool that takes so long, and hears its context.
func sleeper(t *testing.T, name string, d, deadline time.Duration) agentloop.Tool {
	x := tool(t, name, func(ctx context.Context) (string, error) {
		select {
		case <-time.After(d):
			return name + " is through", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	x.Timeout = deadline
	return x
}

// Calls beside each other are patients of their own: what is within its deadline
// is no stall because of one that is silent beside it, nor is what has returned;
// and one that shows life does not hide one that does not.
func TestCallsBesideEachOtherAreJudgedAlone(t *testing.T) {
	const m = time.Minute
	busy := func(name string, d time.Duration) agentloop.Tool {
		x := tool(t, name, func(ctx context.Context) (string, error) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				agentloop.Heartbeat(ctx)
				select {
				case <-time.After(m):
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return name + " is through", nil
		})
		x.Timeout = -1
		return x
	}
	type told struct {
		at   time.Duration
		tool string
		text string
	}
	for name, c := range map[string]struct {
		a, b agentloop.Tool
		want []told
	}{
		"one within its deadline beside one that has returned": {sleeper(t, "a", 0, -1), sleeper(t, "b", 20*m, time.Hour), nil},
		"one within its deadline beside one that is silent": {sleeper(t, "a", 7*m, -1), sleeper(t, "b", 20*m, time.Hour), []told{
			{5 * m, "a", "running a for 5m0s (beside it running b for 5m0s); before that waiting for the model for 0s"}}},
		"two that are silent": {sleeper(t, "a", 7*m, -1), sleeper(t, "b", 7*m, -1), []told{
			{5 * m, "a", "running a for 5m0s (beside it running b for 5m0s); before that waiting for the model for 0s"},
			{5 * m, "b", "running b for 5m0s (beside it running a for 5m0s); before that waiting for the model for 0s"}}},
		"one that shows life beside one that does not": {busy("a", 20*m), sleeper(t, "b", 12*m, -1), []told{
			{5 * m, "b", "running b for 5m0s (beside it running a for 5m0s); before that waiting for the model for 0s"}}},
		"two that show life": {busy("a", 20*m), busy("b", 30*m), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, action := range []agentloop.StallAction{agentloop.StallReport, agentloop.StallRetry, agentloop.StallEnd} {
				synctest.Test(t, func(t *testing.T) {
					model := play(calls(call("", "a", "{}"), call("", "b", "{}")), says("end"))
					start := time.Now()
					var got []told
					res, rep := runAgent(t, agentloop.Config{Model: model, Tools: []agentloop.Tool{c.a, c.b}}, agentloop.GroupConfig{
						OnStall: action,
						OnEvent: func(e agentloop.Event) {
							if e.Kind == agentloop.EventStalled {
								got = append(got, told{e.Time.Sub(start), e.Tool, e.Text})
								assert.NotEmpty(t, e.CallID)
							}
						},
					})
					assert.ElementsMatch(t, c.want, got)
					assert.Equal(t, len(c.want), rep.Stalls)
					if action == agentloop.StallEnd && len(c.want) > 0 {
						assert.Equal(t, agentloop.Stalled, res.Outcome)
						assert.Equal(t, 5*m, res.Duration)
						return
					}
					assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
					stopped := map[string]bool{}
					for _, x := range c.want {
						stopped[x.tool] = action == agentloop.StallRetry
					}
					for i, name := range []string{"a", "b"} {
						want := name + " is through"
						if stopped[name] {
							want = "error: " + name + " was stopped: it showed no life for 5m0s: context canceled\n" +
								"[nobody knows whether " + name + " took effect: find out before you call it again]"
						}
						assert.Equal(t, want, res.Messages[2+i].Content, "action %d", action)
					}
				})
			}
		})
	}
}

// A child speaks for the call that it runs in, not for the one beside it.
func TestAChildSpeaksForItsOwnCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := newAgent(t, agentloop.Config{Name: "child", Model: play(alive(20*time.Minute, time.Minute))})
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) { return string(child.Run(ctx).Outcome), nil })
		spawn.Timeout = -1
		model := play(calls(call("", "spawn", "{}"), call("", "sick", "{}")), says("end"))
		var told []string
		res, _ := runAgent(t, agentloop.Config{Model: model, Tools: []agentloop.Tool{spawn, sleeper(t, "sick", time.Hour, -1)}}, agentloop.GroupConfig{
			OnStall: agentloop.StallRetry,
			OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventStalled {
					told = append(told, e.Agent+" "+e.Tool)
				}
			},
		})
		assert.Equal(t, []string{"a sick"}, told)
		assert.Equal(t, "done", res.Messages[2].Content)
		assert.Equal(t, 20*time.Minute, res.Duration)
	})
}

// gateFS is a disk whose writes to agents' logs hang while it is shut.
type gateFS struct {
	*disk
	gate chan struct{}
	shut atomic.Bool
}

type gateFile struct {
	journal.File
	fs *gateFS
}

func (d *gateFS) Open(name string) (journal.File, error) {
	f, err := d.disk.Open(name)
	if name == "agents/a.jsonl" && err == nil {
		f = &gateFile{f, d}
	}
	return f, err
}

func (f *gateFile) WriteAt(p []byte, at int64) (int, error) {
	if f.fs.shut.Load() {
		<-f.fs.gate
	}
	return f.File.WriteAt(p, at)
}

// A disk that hangs is a stall like any other, even while a tool with a timeout waits
// for it: the timeout is the tool's.
func TestAHungJournalIsToldAsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &gateFS{disk: newDisk(nil), gate: make(chan struct{})}
		j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1})
		require.NoError(t, err)
		model := play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			d.shut.Store(true)
			return calls(call("", "a", "{}"))(ctx, req)
		}, says("end"))
		at, events, _ := stalls(t, agentloop.Config{Model: model, Tools: []agentloop.Tool{sleeper(t, "a", time.Second, time.Minute)}, Timeout: 20 * time.Minute},
			agentloop.GroupConfig{Journal: j})
		assert.Equal(t, []time.Duration{5 * time.Minute}, at)
		require.NotEmpty(t, events)
		assert.Contains(t, events[0].Text, "writing the journal for 5m0s")
		d.shut.Store(false)
		close(d.gate)
	})
}

// What was said of the run lets itself be told from a caller's own cause.
func TestACallersCauseMayBeOneOfOurTypes(t *testing.T) {
	for name, cause := range map[string]error{
		"a stall":       &agentloop.StallError{Silent: time.Second},
		"systemic":      &agentloop.SystemicError{Agents: 3},
		"a deadline":    &agentloop.TimeoutError{Of: "agent", Limit: time.Second},
		"an open file":  errors.New("x"),
		"wrapped stall": fmt.Errorf("upstream: %w", &agentloop.StallError{}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				hang := sleeper(t, "hang", time.Hour, -1)
				rep := runGroup(t, ctx, agentloop.GroupConfig{Agents: []*agentloop.Agent{
					newAgent(t, agentloop.Config{Name: "m", Model: agentloop.ModelFunc(silent)}),
					newAgent(t, agentloop.Config{Name: "t", Model: play(calls(call("", "hang", "{}"))), Tools: []agentloop.Tool{hang}}),
				}})
				for _, r := range rep.Results {
					assert.Equal(t, agentloop.Cancelled, r.Outcome, "%v", r.Err)
					assert.ErrorIs(t, r.Err, cause)
					for _, m := range r.Messages {
						assert.NotContains(t, m.Content, "showed no life", "nobody but the watchdog says so")
					}
				}
			})
		})
	}
}
