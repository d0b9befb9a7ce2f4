package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
)

// A model that sees too little time left says so with the error of contexts,
// as a client does that never starts a try it cannot end.
type tooLate struct{ passing }

func (tooLate) Unwrap() error { return context.DeadlineExceeded }

// context.DeadlineExceeded is the caller's: an agent that a deadline of this
// package stops is Exhausted, and says whose deadline that was.
func TestADeadlineIsTheCallersOnlyIfHeHasOne(t *testing.T) {
	final := fmt.Errorf("too late: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		agent, group, caller time.Duration
		err                  error
		restarts             int
		want                 agentloop.Outcome
		of                   string
		callers              bool // Err matches context.DeadlineExceeded
	}{
		"a pause beyond the agent's":           {time.Minute, 0, 0, tooLate{passing{time.Minute}}, 0, agentloop.Exhausted, "agent", false},
		"a pause beyond the group's":           {0, time.Minute, 0, tooLate{passing{time.Minute}}, 0, agentloop.Exhausted, "group", false},
		"a pause beyond the nearer of them":    {time.Hour, time.Minute, 0, passing{time.Minute}, 0, agentloop.Exhausted, "group", false},
		"a pause beyond the caller's":          {time.Hour, 0, time.Minute, tooLate{passing{time.Minute}}, 0, agentloop.Failed, "", true},
		"too late for the model":               {time.Minute, 0, 0, final, 0, agentloop.Exhausted, "agent", false},
		"too late, and no restarts left":       {time.Minute, 0, 0, tooLate{}, -1, agentloop.Exhausted, "agent", false},
		"too late for the caller":              {0, 0, time.Minute, final, 0, agentloop.Failed, "", true},
		"too late, with a minute left":         {0, time.Minute, 0, final, 0, agentloop.Exhausted, "group", false},
		"a clock of the model's own":           {0, time.Minute + 1, 0, final, 0, agentloop.Failed, "", false},
		"a clock of the model's own, no limit": {0, -1, 0, final, 0, agentloop.Failed, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.caller > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, c.caller)
					defer stop()
				}
				a := newAgent(t, agentloop.Config{Model: play(fails(c.err)), Timeout: c.agent})
				rep := runGroup(t, ctx, agentloop.GroupConfig{Agents: []*agentloop.Agent{a}, Timeout: c.group, Restarts: c.restarts})
				res := rep.Results[0]
				assert.Equal(t, c.want, res.Outcome, res.Err)
				assert.Zero(t, res.Duration)
				var de *agentloop.TimeoutError
				if assert.Equal(t, c.of != "", errors.As(res.Err, &de), res.Err) && c.of != "" {
					assert.Equal(t, c.of, de.Of)
					assert.ErrorContains(t, res.Err, fmt.Sprintf("the deadline of %s (1m0s) leaves 1m0s", c.of))
				}
				assert.ErrorContains(t, res.Err, c.err.Error(), "what the model said stays")
				if c.callers {
					assert.ErrorIs(t, res.Err, context.DeadlineExceeded)
				} else {
					assert.NotErrorIs(t, res.Err, context.DeadlineExceeded)
				}
			})
		})
	}
}

func TestCancelGroupMeansCancelledWhateverItsCauseWraps(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"the child's error": func(err error) error { return fmt.Errorf("the child got nowhere: %w", err) },
		"the bare deadline": func(err error) error {
			var de *agentloop.TimeoutError
			errors.As(err, &de)
			return de
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				child := newAgent(t, agentloop.Config{Name: "child", Model: agentloop.ModelFunc(silent), Timeout: time.Second})
				spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
					res := child.Run(ctx)
					assert.Equal(t, agentloop.Exhausted, res.Outcome)
					agentloop.CancelGroup(ctx, wrap(res.Err))
					return "", res.Err
				})
				res, rep := runAgent(t, agentloop.Config{Model: play(calls(call("", "spawn", "{}"))), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{})
				assert.Equal(t, agentloop.Cancelled, res.Outcome)
				var de *agentloop.TimeoutError
				require.ErrorAs(t, rep.Err, &de)
				assert.Equal(t, "agent", de.Of)
			})
		})
	}
}

func TestAToolInsideItsNamesakeIsNotToldOfItsOwnLimit(t *testing.T) {
	for name, c := range map[string]struct {
		inner time.Duration
		want  string
	}{
		"the outer one's":   {time.Hour, "error: agentloop: deadline of tool spawn passed after 1m0s"},
		"the inner one's":   {time.Second, "error: spawn was stopped after 1s without a result: agentloop: deadline of tool spawn passed after 1s"},
		"the outer one's 2": {time.Minute + 1, "error: agentloop: deadline of tool spawn passed after 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := tool(t, "spawn", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) })
				wait.Timeout, wait.Effect = c.inner, agentloop.EffectIdempotent
				var inner agentloop.Result
				spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
					inner = newAgent(t, agentloop.Config{Name: "child", Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{wait}}).Run(ctx)
					return "", inner.Err
				})
				runAgent(t, agentloop.Config{Model: play(calls(call("", "spawn", "{}")), says("ok")), Tools: []agentloop.Tool{spawn}}, agentloop.GroupConfig{})
				assert.Equal(t, c.want, inner.Messages[2].Content)
			})
		})
	}
}

func TestTheDeadlineOfADraftIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, say := range []func(context.Context) error{context.Cause, context.Context.Err} {
			var cause error
			res := runOne(t, agentloop.Config{Model: play(fails(errWrongKey)), Draft: func(ctx context.Context, _ *agentloop.Result) (string, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return "", say(ctx)
			}})
			assert.Equal(t, &agentloop.TimeoutError{Of: "draft", Limit: time.Second}, cause)
			assert.Error(t, res.DraftErr)
			assert.NotErrorIs(t, res.DraftErr, context.DeadlineExceeded)
		}
	})
}
