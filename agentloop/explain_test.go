package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// What Explain says is in the error, the event, the log and the report; what it
// does instead of saying something harms nobody.
func TestExplainSaysWhatMayBeTheMatter(t *testing.T) {
	hang := make(chan struct{})
	for name, c := range map[string]struct {
		explain func(string) string
		want    string
		late    time.Duration
	}{
		"a line":        {func(string) string { return "decode idle, 12 requests in flight at prefill" }, "decode idle, 12 requests in flight at prefill", 0},
		"several lines": {func(string) string { return " one\n\ttwo \n" }, "one two", 0},
		"nothing":       {func(string) string { return "" }, "", 0},
		"nobody":        {nil, "", 0},
		"a panic":       {func(string) string { panic("no") }, "", 0},
		"an exit":       {func(string) string { runtime.Goexit(); return "x" }, "", 0},
		"just in time":  {func(string) string { time.Sleep(100*time.Millisecond - 1); return "x" }, "x", 100*time.Millisecond - 1},
		"too late":      {func(string) string { time.Sleep(100*time.Millisecond + 1); return "x" }, "", 100 * time.Millisecond},
		"never":         {func(string) string { <-hang; return "x" }, "", 100 * time.Millisecond},
		"a book":        {func(string) string { return strings.Repeat("x", 5000) }, strings.Repeat("x", 1000) + "\n[cut: 1000 of 5000 bytes shown]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				defer time.Sleep(time.Second) // the late one comes to an end
				defer close(hang)
				start := time.Now()
				events := map[agentloop.EventKind][]agentloop.Event{}
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{
					Agents: many(t, 4, agentloop.Config{Model: agentloop.ModelFunc(silent)}), Explain: c.explain, OnStall: agentloop.StallEnd,
					Systemic: agentloop.SystemicConfig{Action: agentloop.SystemicGoOn},
					OnEvent:  func(e agentloop.Event) { events[e.Kind] = append(events[e.Kind], e) },
				})
				require.Len(t, events[agentloop.EventStalled], 4)
				require.Len(t, events[agentloop.EventSystemic], 1)
				for _, e := range events[agentloop.EventStalled] {
					stall, ok := errors.AsType[*agentloop.StallError](e.Err)
					require.True(t, ok)
					assert.Equal(t, c.want, stall.Explanation)
					assert.True(t, strings.HasSuffix(e.Text, c.want), e.Text)
					assert.True(t, strings.HasSuffix(stall.Error(), c.want), stall)
				}
				all, ok := errors.AsType[*agentloop.SystemicError](events[agentloop.EventSystemic][0].Err)
				require.True(t, ok)
				if name != "never" { // it still hangs, and is not asked again
					assert.Equal(t, c.want, all.Explanation)
					assert.Equal(t, c.want, events[agentloop.EventSystemic][0].Text)
				}
				for _, r := range rep.Results {
					assert.Equal(t, agentloop.Stalled, r.Outcome)
					assert.True(t, strings.HasSuffix(r.Err.Error(), c.want), r.Err)
				}
				if c.want == "" {
					assert.Empty(t, rep.Explanations)
				} else {
					assert.Equal(t, []string{c.want}, rep.Explanations)
				}
				assert.GreaterOrEqual(t, events[agentloop.EventStalled][0].Time.Sub(start), 5*time.Minute+c.late)
				assert.Less(t, rep.Duration, 5*time.Minute+time.Second)
			})
		})
	}
}

// placed is a model of an endpoint.
type placed struct {
	agentloop.Model
	endpoint string
}

func (m placed) Endpoint() string { return m.endpoint }

// Explain is asked once for each endpoint whose agents are silent, by the name that the
// model has for it.
func TestExplainIsAskedForAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var agents []*agentloop.Agent
		for i, at := range []string{"a", "b", "a", ""} {
			var m agentloop.Model = agentloop.ModelFunc(silent)
			if at != "" {
				m = placed{agentloop.ModelFunc(silent), at}
			}
			agents = append(agents, newAgent(t, agentloop.Config{Name: fmt.Sprint(i), Model: m}))
		}
		var asked []string
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: agents, OnStall: agentloop.StallEnd, Systemic: agentloop.SystemicConfig{Share: -1},
			Explain: func(endpoint string) string {
				asked = append(asked, endpoint)
				return "busy at " + endpoint
			},
		})
		assert.Equal(t, []string{"a", "b", ""}, asked)
		for i, at := range []string{"a", "b", "a", ""} {
			assert.Contains(t, rep.Results[i].Err.Error(), strings.TrimSpace("busy at "+at))
		}
	})
}

// The end of a group does not wait for an explanation.
func TestTheEndDoesNotWaitForAnExplanation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+10*time.Millisecond)
		defer cancel()
		rep := runGroup(t, ctx, agentloop.GroupConfig{
			Agents:  many(t, 4, agentloop.Config{Model: agentloop.ModelFunc(silent)}),
			Explain: func(string) string { <-hang; return "" },
		})
		assert.Equal(t, 5*time.Minute+10*time.Millisecond, rep.Duration)
		assert.Equal(t, 4, rep.Counts[agentloop.Cancelled])
	})
}

// Whether the watchdog ever spoke is answered by the log of the run, long after.
func TestTheLogOfTheRunSaysHowOftenTheWatchdogSpoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(nil)
		j := openJournal(t, d)
		defer j.Close()
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents: many(t, 2, agentloop.Config{Model: agentloop.ModelFunc(silent)}), Journal: j, OnStall: agentloop.StallEnd,
			Explain: func(string) string { return "nobody home" },
		})
		assert.Equal(t, 2, rep.Stalls)
		assert.Contains(t, string(d.files["run.jsonl"]), `"counts":{"stalled":2},"stalls":2,"explanations":["nobody home"]}`)
	})
}

// Recovery is announced after the trouble, even if it comes before the trouble was
// explained.
func TestRecoveryIsToldAfterTheTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var asked atomic.Int32
		all := make(chan struct{})
		m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if asked.Add(1) == 4 {
				close(all)
			}
			<-all
			if req.Caller == "agent03" {
				time.Sleep(50 * time.Millisecond) // answered while Explain thinks
				return calls(call("", "x", "{}"))(ctx, req)
			}
			if time.Since(start) < 20*time.Millisecond {
				return nil, passing{}
			}
			return says("ok")(ctx, req)
		})
		var told []string
		runGroup(t, t.Context(), agentloop.GroupConfig{
			Agents:  many(t, 4, agentloop.Config{Model: m, MaxRounds: 1}),
			Explain: func(string) string { time.Sleep(90 * time.Millisecond); return "busy" },
			OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventSystemic || e.Kind == agentloop.EventRecovered {
					told = append(told, fmt.Sprint(e.Kind, " ", e.Text, " ", e.After))
				}
			},
		})
		assert.Equal(t, []string{"systemic busy 0s", "recovered  50ms"}, told)
	})
}
