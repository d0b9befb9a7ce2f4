package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// eager calls send once, and again whenever it is pressed to; else it says that it
// is done.
func eager() *strictServer {
	n := 0
	return play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		if n++; n == 1 || len(req.Tools) == 1 {
			return calls(call("", "send", `{}`))(ctx, req)
		}
		return says("I have sent it.")(ctx, req)
	})
}

// A call that changes something, and may have done so, is not demanded again. One
// that says that it failed is, and so is one that may be repeated.
func TestACallThatMayHaveTakenEffectIsNotDemandedAgain(t *testing.T) {
	const sent = 9 // until that is seen to bring nothing new
	release := make(chan struct{})
	waits := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	for name, c := range map[string]struct {
		run    func(ctx context.Context) (string, error)
		effect agentloop.Effect
		stall  bool // the watchdog ends it, and not its deadline
		sent   int
	}{
		"it ignores its deadline":       {run: func(context.Context) (string, error) { <-release; return "", nil }, sent: 1},
		"it gives in to its deadline":   {run: waits, sent: 1},
		"in words of its own":           {run: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", errors.New("gone") }, sent: 1},
		"it shows no life":              {run: waits, stall: true, sent: 1},
		"it panics":                     {run: func(context.Context) (string, error) { panic("halfway") }, sent: 1},
		"a clock of its own ran out":    {run: func(context.Context) (string, error) { return "", context.DeadlineExceeded }, sent: 1},
		"it does not know itself":       {run: func(context.Context) (string, error) { return "", fmt.Errorf("502: %w", agentloop.ErrUncertain) }, sent: 1},
		"it says that it failed":        {run: func(context.Context) (string, error) { return "", errors.New("no such address") }, sent: sent},
		"late, but it may be repeated":  {run: waits, effect: agentloop.EffectIdempotent, sent: sent},
		"late, but it changes nothing":  {run: waits, effect: agentloop.EffectNone, sent: sent},
		"dead, but it may be repeated":  {run: waits, effect: agentloop.EffectIdempotent, stall: true, sent: sent},
		"panic, but it may be repeated": {run: func(context.Context) (string, error) { panic("halfway") }, effect: agentloop.EffectIdempotent, sent: sent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				n := 0
				send := tool(t, "send", func(ctx context.Context) (string, error) { n++; return c.run(ctx) })
				send.Effect, send.Timeout = c.effect, time.Second
				if c.stall {
					send.Timeout = -1
				}
				m := eager()
				cfg := agentloop.Config{
					Model: m, Tools: []agentloop.Tool{send, tool(t, "look", result("the outbox"))},
					Progression: agentloop.Progression{{Name: "send", Tools: []string{"send"}}},
				}
				var told int
				res, rep := runAgent(t, cfg, agentloop.GroupConfig{OnStall: agentloop.StallRetry, OnEvent: func(e agentloop.Event) {
					if e.Kind == agentloop.EventUncertain {
						told++
					}
				}})
				close(release)
				synctest.Wait()
				assert.Equal(t, agentloop.Stalled, res.Outcome, res.Err)
				assert.Equal(t, c.sent, n, "calls of send")
				if c.sent > 1 {
					assert.Empty(t, rep.Uncertain)
					assert.Zero(t, told)
					assert.NotErrorIs(t, res.Err, agentloop.ErrUncertain)
					return
				}
				assert.Equal(t, []agentloop.Uncertainty{{Agent: "a", Tool: "send", CallID: "call00001", Arguments: "{}"}}, rep.Uncertain)
				assert.Equal(t, 1, told)
				assert.ErrorIs(t, res.Err, agentloop.ErrUncertain, "why it was not pressed")
				assert.Zero(t, res.Forced)
				assert.Contains(t, res.Messages[2].Content, "[nobody knows whether send took effect: find out before you call it again]")
				assert.Contains(t, res.Messages[4].Content, "nobody knows whether send took effect. Find out, and call it again only if it did not.")
			})
		})
	}
}

// The doubt is about the first call: that a later one fails does not end it, that one
// succeeds does.
func TestDoubtEndsWhenTheStepIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		send := tool(t, "send", func(context.Context) (string, error) {
			switch n++; n {
			case 1:
				return "", context.DeadlineExceeded
			case 2:
				return "", errors.New("busy")
			}
			return "sent", nil
		})
		again := calls(call("", "send", `{}`))
		m := play(again, says("Done."), again, says("Done."), again)
		res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{send}, Progression: agentloop.Progression{{Name: "send", Tools: []string{"send"}}}})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Contains(t, res.Messages[8].Content, "nobody knows whether send took effect")
		assert.Len(t, res.Uncertain, 1)
	})
}

// A call that succeeds ends the doubt about its tool: what is missing then may be
// demanded again.
func TestAStepOfSeveralTimesIsPressedAgainAfterADoubt(t *testing.T) {
	n := 0
	send := tool(t, "send", func(context.Context) (string, error) {
		if n++; n == 1 {
			return "", agentloop.ErrUncertain
		}
		return fmt.Sprint("sent ", n), nil
	})
	again, text := calls(call("", "send", `{}`)), says("Done.")
	m := play(again, text, again, text, text, text, text, again)
	res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{send, tool(t, "look", result("x"))},
		Progression: agentloop.Progression{{Name: "send", Tools: []string{"send"}, Times: 2}}})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, 1, res.Forced)
	assert.Contains(t, res.Messages[4].Content, "Find out")
	assert.Contains(t, res.Messages[8].Content, `The step "send" is missing: call send now.`)
}

// A command that failed has said why in what it printed.
func TestWhatAToolReturnsBesideItsErrorIsShown(t *testing.T) {
	type report struct {
		Failed []string `json:"failed,omitempty"`
	}
	failing := func(out any) func() (agentloop.Tool, error) {
		return func() (agentloop.Tool, error) {
			return agentloop.NewTool("test", "", func(context.Context, none) (any, error) { return out, errors.New("exit status 1") })
		}
	}
	for name, c := range map[string]struct {
		tool func() (agentloop.Tool, error)
		want string
	}{
		"text":         {failing("1 of 3 failed"), "error: exit status 1\nWhat it returned beside the error:\n1 of 3 failed"},
		"a value":      {failing(report{[]string{"TestX"}}), "error: exit status 1\nWhat it returned beside the error:\n{\"failed\":[\"TestX\"]}"},
		"nothing":      {failing(nil), "error: exit status 1"},
		"blank":        {failing(" \n"), "error: exit status 1"},
		"no JSON form": {failing(func() {}), "error: exit status 1"},
		"the zero value": {func() (agentloop.Tool, error) {
			return agentloop.NewTool("test", "", func(context.Context, none) (report, error) { return report{}, errors.New("exit status 1") })
		}, "error: exit status 1"},
		"more than there is room for": {failing(strings.Repeat("x", 300)), "error: exit status 1\nWhat it returned beside the error:\n" +
			strings.Repeat("x", 100-len("error: exit status 1\nWhat it returned beside the error:\n")) + "\n[cut: 100 of 356 bytes shown]"},
		"late": {func() (agentloop.Tool, error) {
			tl, err := agentloop.NewTool("test", "", func(ctx context.Context, _ none) (string, error) {
				<-ctx.Done()
				return "2 of 3 so far", ctx.Err()
			})
			tl.Timeout, tl.Effect = time.Second, agentloop.EffectNone
			return tl, err
		}, "error: test was stopped after 1s without a result: context deadline exceeded\nWhat it returned beside the error:\n2 of 3 so far"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tl, err := c.tool()
				assert.NoError(t, err)
				cfg := agentloop.Config{Model: play(calls(call("", "test", `{}`)), says("I see.")), Tools: []agentloop.Tool{tl}}
				if name == "more than there is room for" {
					cfg.MaxResult = 100
				}
				assert.Equal(t, c.want, runOne(t, cfg).Messages[2].Content)
			})
		})
	}
}
