package agentloop_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A statusError is what a client makes of a refusal.
type statusError struct {
	status    int
	text      string
	retryable bool
}

func (e statusError) Error() string   { return fmt.Sprintf("%d %s", e.status, e.text) }
func (e statusError) StatusCode() int { return e.status }
func (e statusError) Retryable() bool { return e.retryable }

// choosy is a server that does not take tool_choice; without it the model writes
// only if the offer is narrow, or says that it is done.
type choosy struct {
	refusal  error
	times    int  // it refuses so often; 0: always
	also     bool // then it refuses even requests without tool_choice
	stubborn bool // the model never calls

	mu     sync.Mutex
	forced int
	plain  int
}

func (c *choosy) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	forces := req.ToolChoice != chat.ToolChoice{}
	switch {
	case forces && (c.times == 0 || c.forced < c.times):
		c.forced++
		return nil, c.refusal
	case c.also && c.forced > 0 && c.plain == 0:
		c.plain++
		return nil, c.refusal
	case !c.stubborn && (forces || len(req.Tools) < 4): // of four
		return calls(call("", req.Tools[0].Name, "{}"))(ctx, req)
	}
	return says(fmt.Sprint("I am done ", len(req.Messages)))(ctx, req)
}

func TestAServerThatRefusesToolChoiceIsAskedWithout(t *testing.T) {
	text := "tool_choice is not supported with this reasoning parser"
	for name, c := range map[string]struct {
		server *choosy
		want   agentloop.Outcome
		forced int
	}{
		"400":                               {&choosy{refusal: statusError{400, text, false}}, agentloop.Done, 1},
		"422":                               {&choosy{refusal: statusError{422, "unprocessable", false}}, agentloop.Done, 1},
		"404":                               {&choosy{refusal: statusError{404, "no endpoints", false}}, agentloop.Done, 1},
		"500 that says so":                  {&choosy{refusal: statusError{500, text, true}}, agentloop.Done, 1},
		"501 that says so":                  {&choosy{refusal: statusError{501, "Tool choice: not implemented", true}}, agentloop.Done, 1},
		"501, final":                        {&choosy{refusal: statusError{501, "not implemented", false}}, agentloop.Done, 1},
		"500 without a word":                {&choosy{refusal: statusError{500, "internal server error", true}}, agentloop.Done, 2},
		"500 once":                          {&choosy{refusal: statusError{500, "internal server error", true}, times: 1}, agentloop.Done, 1},
		"500 to all for a while":            {&choosy{refusal: statusError{500, "internal server error", true}, times: 2, also: true}, agentloop.Done, 2},
		"503 is no word on it":              {&choosy{refusal: statusError{503, "busy", true}, times: 3}, agentloop.Done, 3},
		"503 that says so":                  {&choosy{refusal: statusError{503, text, true}}, agentloop.Done, 1},
		"a key is not tried in another way": {&choosy{refusal: statusError{401, text, false}}, agentloop.Failed, 1},
		"nor a quota":                       {&choosy{refusal: statusError{429, text, true}}, agentloop.Failed, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, _ := author(t, c.server)
				cfg.NarrowedTries = -1
				res := runOne(t, cfg)
				assert.Equal(t, c.want, res.Outcome, "%v", res.Err)
				assert.Equal(t, c.forced, c.server.forced)
				pauses := map[string]time.Duration{"500 once": time.Second, "500 without a word": time.Second, "503 is no word on it": 7 * time.Second}
				if want, some := pauses[name]; some {
					assert.Equal(t, want, res.Duration, "a server that may be in trouble is not asked again at once")
				}
				if c.want == agentloop.Failed {
					assert.ErrorIs(t, res.Err, c.server.refusal)
				}
			})
		})
	}
}

// If words do not help either, the end says what was tried, and what stood in the
// way.
func TestTheEndOfAnAgentThatCouldNotBeForced(t *testing.T) {
	for _, retryable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := &choosy{refusal: statusError{500, "no tool_choice here", retryable}, stubborn: true}
			cfg, _ := author(t, server)
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.ErrorIs(t, res.Err, agentloop.ErrStoppedEarly)
			assert.ErrorIs(t, res.Err, server.refusal)
			assert.ErrorContains(t, res.Err, "; the server takes no tool_choice: 500 no tool_choice here; missing read, write, save")
			assert.Equal(t, 1, res.Forced)
		})
	}
}

// What one agent has learned of a model holds for all of the group, and for no
// other model.
func TestAGroupLearnsOnceThatAModelTakesNoToolChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := &choosy{refusal: statusError{400, "no", false}}
		takes := &choosy{refusal: statusError{400, "no", false}, times: -1}
		var list []*agentloop.Agent
		for i := range 20 {
			cfg, _ := author(t, refuses)
			cfg.Request.Model = "refuses"
			if i%2 == 0 {
				cfg.Model, cfg.Request.Model = takes, "takes"
			}
			cfg.Name = fmt.Sprint("a", i)
			cfg.NarrowedTries = -1
			list = append(list, newAgent(t, cfg))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: list, MaxParallel: 1})
		assert.True(t, rep.Done(), "%v", rep.Counts)
		assert.Equal(t, 1, refuses.forced)
		forced := 0
		for _, r := range rep.Results {
			forced += r.Forced
		}
		assert.Equal(t, 1+10*3, forced, "each step of those that take it")
	})
}

// A run that was killed goes on without asking again what was refused.
func TestARefusedToolChoiceIsKnownWhenResumed(t *testing.T) {
	for name, refusal := range map[string]statusError{"400": {400, "no", false}, "500 twice": {500, "oops", true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(nil)
				server := &choosy{refusal: refusal}
				run := func() agentloop.Result {
					j := openJournal(t, d)
					defer j.Close()
					cfg, _ := author(t, server)
					cfg.NarrowedTries = -1
					cfg.MaxRounds = 4
					res, _ := runAgent(t, cfg, agentloop.GroupConfig{Journal: j})
					return res
				}
				first := run()
				assert.Equal(t, agentloop.Exhausted, first.Outcome, "%v", first.Err)
				forced := server.forced
				second := run()
				assert.Equal(t, forced, server.forced)
				assert.Equal(t, first.Messages, second.Messages)
			})
		})
	}
}
