package agentloop_test

import (
	"context"
	"errors"
	"fmt"
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

func TestStepsOutOfOrderAreNotRun(t *testing.T) {
	m := play(
		calls(call("", "save", `{}`)),
		calls(call("", "write", `{}`)),
		calls(call("", "read", `{}`)),
		calls(call("", "save", `{}`)),
		calls(call("", "append", `{}`)),
		calls(call("", "save", `{}`)),
	)
	cfg, d := author(t, m)
	res := runOne(t, cfg)
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, "read append save", d.log())
	assert.Equal(t, []string{"read", "write", "save"}, res.Steps)

	last := m.requests()[5].Messages
	assert.Equal(t, `error: save was not run: the steps "read" (call read), then "write" (call write or append) come first.`, last[2].Content)
	assert.Equal(t, `error: write was not run: the step "read" (call read) comes first.`, last[4].Content)
	assert.Equal(t, `error: save was not run: the step "write" (call write or append) comes first.`, last[8].Content)
}

// One message may hold the whole work.
func TestStepsOfOneMessageRunInOrder(t *testing.T) {
	m := play(calls(
		call("1", "read", `{"i":1}`), call("2", "read", `{"i":2}`),
		call("3", "write", `{}`), call("4", "append", `{}`), call("5", "save", `{}`),
	))
	cfg, d := author(t, m)
	res := runOne(t, cfg)
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, "read read write append save", d.log())
	assert.Equal(t, 1, res.Rounds)
}

// Nothing runs behind the last step, even in the same message.
func TestNothingRunsBehindTheLastStep(t *testing.T) {
	m := play(calls(
		call("", "read", `{}`), call("", "write", `{}`), call("", "save", `{}`), call("", "append", `{}`), call("", "read", `{"i":2}`),
	))
	cfg, d := author(t, m)
	res := runOne(t, cfg)
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, "read write save", d.log())
	assert.Equal(t, "error: append was not run: the work is complete.", res.Messages[5].Content)
}

func TestAFailedCallTakesNoStep(t *testing.T) {
	m := play(calls(call("", "read", `{}`), call("", "write", `{}`), call("", "save", `{}`)), says("Saved!"))
	cfg, d := author(t, m)
	cfg.Tools[1] = tool(t, "write", func(ctx) (string, error) { return "", errors.New("disk full") })
	res := runOne(t, cfg)
	assert.Equal(t, agentloop.Stalled, res.Outcome)
	assert.Equal(t, []string{"read"}, res.Steps)
	assert.Equal(t, []string{"write", "save"}, res.Missing)
	assert.Equal(t, "read", d.log())
}

func TestEarlyStopIsNudgedThenForced(t *testing.T) {
	stop := says("All done!")
	read := calls(call("", "read", `{}`))

	t.Run("until it gives in", func(t *testing.T) {
		m := play(read, stop, stop, calls(call("", "write", `{}`)), stop, stop, calls(call("", "save", `{}`)))
		cfg, _ := author(t, m)
		res := runOne(t, cfg)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, 4, res.Nudges)
		assert.Zero(t, res.Forced)
		assert.Equal(t, `You stopped, but the work is not complete. The step "write" is missing: call write or append now.`,
			m.requests()[2].Messages[4].Content)
		for _, req := range m.requests() {
			assert.Zero(t, req.ToolChoice)
			assert.Len(t, req.Tools, 4)
		}
	})
	t.Run("until it obeys", func(t *testing.T) {
		m := play(read, stop, stop, stop, stop, calls(call("", "append", `{}`)), stop, stop, stop, stop, calls(call("", "save", `{}`)))
		cfg, _ := author(t, m)
		res := runOne(t, cfg)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, 2, res.Forced)

		reqs := m.requests()
		assert.Len(t, reqs[3].Tools, 4, "the second nudge is words alone")
		assert.Zero(t, reqs[4].ToolChoice, "the offer is narrowed before it is forced")
		assert.Equal(t, []string{"write", "append"}, offered(reqs[4]))
		assert.Equal(t, chat.ToolChoiceRequired, reqs[5].ToolChoice, "two tools take the step")
		assert.Equal(t, []string{"write", "append"}, offered(reqs[5]))
		assert.Zero(t, reqs[6].ToolChoice, "the next step starts with advice again")
		assert.Len(t, reqs[6].Tools, 4)
		assert.Equal(t, []string{"save"}, offered(reqs[9]))
		assert.Zero(t, reqs[9].ToolChoice)
		assert.Equal(t, chat.ForceTool("save"), reqs[10].ToolChoice)
		assert.Equal(t, []string{"save"}, offered(reqs[10]))
	})
	t.Run("to the end", func(t *testing.T) {
		m := play(read, stop)
		cfg, _ := author(t, m)
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.ErrorIs(t, res.Err, agentloop.ErrStoppedEarly)
		assert.Equal(t, []string{"write", "save"}, res.Missing)
		assert.Equal(t, "All done!", res.Text)
		assert.Equal(t, 1+1+2+1+2, res.Rounds, "the read, the stop, 2 nudges, 1 narrowed, 2 forced tries")
		assert.Equal(t, 2, res.Forced)
		assert.EqualError(t, res.Err, `agentloop: agent "author" stalled: stopped with steps missing, 6 answers of no use in a row `+
			`(2 nudges, 1 with a narrowed offer, 2 forced tries); the last 6 said the same; missing write, save`)
	})
	t.Run("also if it fails in another way each time", func(t *testing.T) {
		cut := answer(chat.Message{ToolCalls: []chat.ToolCall{call("", "write", `{"te`)}}, chat.FinishLength)
		m := play(read, says(""), calls(call("", "wrote", `{}`)), calls(call("", "write", `{`)), cut, calls(call("", "write", `{}`)), stop)
		cfg, _ := author(t, m)
		res := runOne(t, cfg)
		assert.Equal(t, []string{"read", "write"}, res.Steps)
		assert.Equal(t, 6+6, res.Rounds)
		assert.Equal(t, []string{"write", "append"}, offered(m.requests()[4]))
		assert.Equal(t, []string{"write", "append"}, offered(m.requests()[5]))
	})
	t.Run("not at all", func(t *testing.T) {
		m := play(read, stop)
		cfg, _ := author(t, m)
		cfg.Nudges, cfg.NarrowedTries, cfg.ForcedTries = -1, -1, -1
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.Equal(t, 2, res.Rounds)
	})
	t.Run("with force alone", func(t *testing.T) {
		m := play(stop, read, stop)
		cfg, _ := author(t, m)
		cfg.Nudges, cfg.NarrowedTries, cfg.ForcedTries = -1, -1, 1
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.Equal(t, chat.ForceTool("read"), m.requests()[1].ToolChoice)
		assert.Equal(t, 4, res.Rounds)
	})
}

func offered(req chat.Request) (list []string) {
	for _, t := range req.Tools {
		list = append(list, t.Name)
	}
	return list
}

// Servers that refuse tool_choice get the narrowed offer alone, from then on.
func TestForceWithoutToolChoice(t *testing.T) {
	refusing := func(s step) step {
		return func(ctx ctx, req *chat.Request) (*chat.Response, error) {
			if req.ToolChoice != (chat.ToolChoice{}) {
				return nil, errors.New("400: thinking mode does not support tool_choice")
			}
			return s(ctx, req)
		}
	}
	t.Run("goes on", func(t *testing.T) {
		stop := refusing(says("done"))
		m := play(stop, stop, stop, refusing(says("")), calls(call("", "read", `{}`)), stop)
		cfg, _ := author(t, m)
		cfg.Nudges, cfg.NarrowedTries = 2, -1
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.Equal(t, []string{"read"}, res.Steps)

		choices := 0
		for _, req := range m.requests() {
			if req.ToolChoice != (chat.ToolChoice{}) {
				choices++
			}
		}
		assert.Equal(t, 1, choices, "asked once only")
		assert.Equal(t, []string{"read"}, offered(m.requests()[4]))
		assert.Zero(t, res.Restarts)
	})
	t.Run("fails with both causes", func(t *testing.T) {
		m := play(says("done"), fails(errors.New("400: no tool_choice")), fails(errWrongKey))
		cfg, _ := author(t, m)
		cfg.Nudges, cfg.NarrowedTries = -1, -1
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Failed, res.Outcome)
		assert.ErrorIs(t, res.Err, errWrongKey)
		assert.ErrorContains(t, res.Err, "no tool_choice")
	})
}

func TestTimesAndOptionalSteps(t *testing.T) {
	prog := agentloop.Progression{
		{Name: "read", Tools: []string{"read"}, Times: 2},
		{Name: "more", Tools: []string{"append"}, Optional: true},
		{Name: "save", Tools: []string{"save"}},
	}
	for name, c := range map[string]struct {
		calls []string
		log   string
		steps []string
	}{
		"left out":       {[]string{"read", "save", "read", "save"}, "read read save", []string{"read", "save"}},
		"taken":          {[]string{"read", "read", "append", "save"}, "read read append save", []string{"read", "more", "save"}},
		"not before due": {[]string{"append", "read", "read", "append", "save"}, "read read append save", []string{"read", "more", "save"}},
		"free tools":     {[]string{"write", "read", "write", "read", "read", "save"}, "write read write read read save", []string{"read", "save"}},
	} {
		t.Run(name, func(t *testing.T) {
			var script []step
			for _, name := range c.calls {
				script = append(script, calls(call("", name, `{}`)))
			}
			cfg, d := author(t, play(append(script, fails(errors.New("too far")))...))
			cfg.Progression = prog
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Equal(t, c.log, d.log())
			assert.Equal(t, c.steps, res.Steps)
		})
	}
}

// A fault that is about the caller's key or quota is not cured by asking in another
// way.
func TestARefusedKeyIsNotAskedAgainWithoutToolChoice(t *testing.T) {
	for name, c := range map[string]struct {
		status, requests, forced int
	}{
		"bad request":          {400, 3, 1},
		"no model that can":    {404, 3, 1},
		"cannot be told":       {0, 3, 1},
		"wrong key":            {401, 2, 1},
		"nothing left":         {402, 2, 1},
		"not allowed":          {403, 2, 1},
		"a proxy's key":        {407, 2, 1},
		"the quota of the day": {429, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.New("refused")
			if c.status != 0 {
				err = fmt.Errorf("call: %w", status(c.status))
			}
			m := play(says("done"), fails(err))
			cfg, _ := author(t, m)
			cfg.Nudges, cfg.NarrowedTries = -1, -1
			events := 0
			cfg.OnEvent = func(e agentloop.Event) {
				if e.Kind == agentloop.EventForced {
					events++
				}
			}
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Failed, res.Outcome)
			assert.ErrorIs(t, res.Err, err)
			assert.Len(t, m.requests(), c.requests)
			assert.Equal(t, c.forced, res.Forced, "only requests with tool_choice demand")
			assert.Equal(t, c.forced, events)
		})
	}
}

type status int

func (s status) Error() string   { return fmt.Sprintf("HTTP %d", int(s)) }
func (s status) StatusCode() int { return int(s) }

// What is saved holds what was appended, though none of the tools is
// Sequential.
func TestTheCallThatCompletesTheWorkWaitsForThoseBeforeIt(t *testing.T) {
	saveTwice := article()
	saveTwice[2].Times = 2
	for name, c := range map[string]struct {
		prog  agentloop.Progression
		names string // the calls of the one message
		slow  string // takes a second
		log   string // what was done, in the order of completion
		took  time.Duration
	}{
		"append, save":             {article(), "append save", "append", "append save", time.Second},
		"read along":               {article(), "append read save", "append", "read append save", time.Second},
		"after it nothing begins":  {article(), "append save append", "save", "append save", time.Second},
		"the last of several":      {saveTwice, "append save save", "append", "save append save", time.Second},
		"others run together":      {saveTwice, "append save read save", "append", "read save append save", time.Second},
		"nothing before it":        {article(), "save", "save", "save", time.Second},
		"no progression, together": {nil, "append save", "append", "save append", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var done []string
				var tools []agentloop.Tool
				for i, name := range []string{"read", "write", "append", "save"} {
					tools = append(tools, tool(t, name, func(context.Context) (string, error) {
						time.Sleep(time.Duration(i) * time.Nanosecond)
						if name == c.slow {
							time.Sleep(time.Second)
						}
						mu.Lock()
						defer mu.Unlock()
						done = append(done, name)
						return fmt.Sprint(len(done)), nil
					}))
				}
				var list []chat.ToolCall
				for i, name := range strings.Fields(c.names) {
					list = append(list, call("", name, fmt.Sprintf(`{"i":%d}`, i)))
				}
				script := []step{calls(call("", "read", "{}")), calls(call("", "write", "{}")), calls(list...)}
				res := runOne(t, agentloop.Config{Model: play(append(script, says("ok"))...), Tools: tools, Progression: c.prog})
				assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
				assert.Equal(t, c.log, strings.Join(done[2:], " "))
				assert.Equal(t, c.took, res.Duration.Truncate(time.Millisecond))
			})
		})
	}
}

// Agents that are about to be done say so, for a client that prefers them.
func TestTheLastStepIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		prog agentloop.Progression
		set  bool
		want []bool // by request
	}{
		"the last of three":          {article(), false, []bool{false, false, true}},
		"all, if the template says":  {article(), true, []bool{true, true, true}},
		"no steps":                   {nil, false, []bool{false, false, false, false}},
		"one step has no beginning":  {agentloop.Progression{{Name: "save", Tools: []string{"save"}}}, false, []bool{false, false, false}},
		"the last of two, and again": {agentloop.Progression{{Name: "read", Tools: []string{"read"}}, {Name: "save", Tools: []string{"save"}}}, false, []bool{false, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := play(calls(call("", "read", "{}")), calls(call("", "write", "{}")), calls(call("", "save", "{}")), says("ok"))
			cfg, _ := author(t, m)
			cfg.Progression, cfg.Request.Finishing, cfg.Request.Priority = c.prog, c.set, 7
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
			var got []bool
			for _, req := range m.requests() {
				got = append(got, req.Finishing)
				assert.Equal(t, 7, req.Priority)
			}
			assert.Equal(t, c.want, got)
		})
	}
}
