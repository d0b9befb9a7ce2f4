package agentloop_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/fakeserver"
)

// A client that waits as it was told to shows no life, and needs not; one that goes on
// to be silent does.
func TestAWaitOfKnownLengthIsNoStall(t *testing.T) {
	for name, c := range map[string]struct {
		waits  time.Duration // told
		silent time.Duration // in fact
		stalls int
	}{
		"told, and kept":                 {12 * time.Minute, 12 * time.Minute, 0},
		"and as long as usual after it":  {12 * time.Minute, 17*time.Minute - 1, 0},
		"longer than that":               {12 * time.Minute, 17*time.Minute + 1, 1},
		"nothing told":                   {0, 5*time.Minute + 1, 1},
		"a wait that is none":            {-time.Hour, 5*time.Minute + 1, 1},
		"short, and shorter than silent": {time.Second, 6 * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard time.Duration
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					req.OnWait(c.waits)
					return after(c.silent, says("done"))(ctx, req)
				})
				cfg := agentloop.Config{Model: m, Request: chat.Request{OnWait: func(d time.Duration) { heard = d }}}
				res, rep := runAgent(t, cfg, agentloop.GroupConfig{})
				assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
				assert.Equal(t, c.stalls, rep.Stalls)
				assert.Equal(t, c.waits, heard, "the template hears it as well")
			})
		})
	}
}

// The same with our client: what the server asked for is waited for once, and the
// server is not asked before.
func TestARetryAfterIsNoStall(t *testing.T) {
	for _, action := range []agentloop.StallAction{agentloop.StallReport, agentloop.StallRetry, agentloop.StallEnd} {
		synctest.Test(t, func(t *testing.T) {
			var asked []time.Duration
			start := time.Now()
			client, _, closes := served(t, func(*fakeserver.Request) fakeserver.Step {
				if asked = append(asked, time.Since(start)); len(asked) == 1 {
					return fakeserver.Reply(fakeserver.RetryAfter(7*time.Minute), fakeserver.Throttled())
				}
				return fakeserver.Answer("done")
			})
			defer closes()
			res, rep := runAgent(t, agentloop.Config{Model: client}, agentloop.GroupConfig{OnStall: action})
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Zero(t, rep.Stalls)
			if assert.Len(t, asked, 2) {
				assert.GreaterOrEqual(t, asked[1], 7*time.Minute)
			}
		})
	}
}

// A child that waits so is no stall of the parent either.
func TestAWaitOfAChildIsNoStallOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := newAgent(t, agentloop.Config{Name: "child", Model: agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			req.OnWait(20 * time.Minute)
			return after(20*time.Minute, says("done"))(ctx, req)
		})})
		spawn := tool(t, "spawn", func(ctx context.Context) (string, error) { return child.Run(ctx).Text, nil })
		spawn.Timeout = -1
		res, rep := runAgent(t, agentloop.Config{Model: play(calls(call("", "spawn", `{}`)), says("done")), Tools: []agentloop.Tool{spawn}},
			agentloop.GroupConfig{OnStall: agentloop.StallEnd})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Zero(t, rep.Stalls)
	})
}

// What a call lets hear that was given up is no life of the one after it; what that
// one lets hear is.
func TestACallThatWasLeftBehindIsNotHeard(t *testing.T) {
	sounds := map[string]func(ctx context.Context, req *chat.Request){
		"output":   func(_ context.Context, req *chat.Request) { req.OnOutput() },
		"bytes":    func(_ context.Context, req *chat.Request) { req.OnBytes() },
		"a wait":   func(_ context.Context, req *chat.Request) { req.OnWait(time.Hour) },
		"alive":    func(ctx context.Context, _ *chat.Request) { agentloop.Heartbeat(ctx) },
		"progress": func(ctx context.Context, _ *chat.Request) { agentloop.Progress(ctx, "so far") },
	}
	for name, makes := range sounds {
		for _, heard := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				quit := make(chan struct{})
				var asked atomic.Int32
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					n := asked.Add(1)
					if n == 2 && !heard {
						return silent(ctx, req)
					}
					if n == 1 {
						time.Sleep(5*time.Minute + time.Second) // and ignores its context
					}
					end := time.After(20 * time.Minute)
					for {
						select {
						case <-quit:
							return nil, context.Canceled
						case <-end:
							if n > 1 {
								return says("done")(ctx, req)
							}
						case <-time.After(10 * time.Second):
							makes(ctx, req)
						}
					}
				})
				res, rep := runAgent(t, agentloop.Config{Model: m}, agentloop.GroupConfig{OnStall: agentloop.StallRetry, Restarts: 1})
				close(quit)
				synctest.Wait()
				if heard {
					assert.Equal(t, agentloop.Done, res.Outcome, "%s: %v", name, res.Err)
					assert.Equal(t, 1, rep.Stalls, name)
					return
				}
				assert.Equal(t, agentloop.Failed, res.Outcome, name)
				assert.Equal(t, 2, rep.Stalls, name)
				assert.Less(t, rep.Duration, 11*time.Minute, name)
			})
		}
	}
}
