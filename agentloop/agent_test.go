package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

func TestNewNamesTheBadField(t *testing.T) {
	ok := func() agentloop.Config {
		return agentloop.Config{
			Name: "a", Model: play(says("hi")), Task: "x",
			Tools: []agentloop.Tool{tool(t, "read", result("")), tool(t, "save", result(""))},
		}
	}
	for name, c := range map[string]struct {
		spoil func(*agentloop.Config)
		want  string
	}{
		"no name":          {func(c *agentloop.Config) { c.Name = "" }, "Name is empty"},
		"no model":         {func(c *agentloop.Config) { c.Model = nil }, "Model is nil"},
		"no task":          {func(c *agentloop.Config) { c.Task = "" }, "Task and Messages are empty"},
		"nothing to reply": {func(c *agentloop.Config) { c.Task, c.System = "", "be nice" }, `role "system"`},
		"own messages":     {func(c *agentloop.Config) { c.Request.Messages = []chat.Message{chat.User("x")} }, "Request.Messages"},
		"own tools":        {func(c *agentloop.Config) { c.Request.Tools = []chat.Tool{{Name: "x"}} }, "Request.Tools"},
		"own choice":       {func(c *agentloop.Config) { c.Request.ToolChoice = chat.ToolChoiceAuto }, "Request.ToolChoice"},
		"own caller":       {func(c *agentloop.Config) { c.Request.Caller = "b" }, "Request.Caller"},
		"two of a name":    {func(c *agentloop.Config) { c.Tools[1].Name = "read" }, `two with the name "read"`},
		"nameless tool":    {func(c *agentloop.Config) { c.Tools[0].Name = "" }, "Name is empty"},
		"bad tool name":    {func(c *agentloop.Config) { c.Tools[0].Name = "read it" }, `"read it"`},
		"tool without Run": {func(c *agentloop.Config) { c.Tools[0].Run = nil }, "Run is nil"},
		"bad schema":       {func(c *agentloop.Config) { c.Tools[0].Parameters = []byte(`[1]`) }, "Parameters"},
		"step, no name":    {func(c *agentloop.Config) { c.Progression = agentloop.Progression{{Tools: []string{"read"}}} }, "Progression[0].Name"},
		"step, no tools":   {func(c *agentloop.Config) { c.Progression = agentloop.Progression{{Name: "r"}} }, "Progression[0].Tools"},
		"step, strange tool": {func(c *agentloop.Config) {
			c.Progression = agentloop.Progression{{Name: "r", Tools: []string{"reed"}}}
		}, `"reed"`},
		"step twice": {func(c *agentloop.Config) {
			c.Progression = agentloop.Progression{{Name: "r", Tools: []string{"read"}}, {Name: "r", Tools: []string{"save"}}}
		}, "Progression[1].Name"},
		"step, negative times": {func(c *agentloop.Config) {
			c.Progression = agentloop.Progression{{Name: "r", Tools: []string{"read"}, Times: -1}}
		}, "Progression[0].Times is -1"},
		"only optional steps": {func(c *agentloop.Config) {
			c.Progression = agentloop.Progression{{Name: "r", Tools: []string{"read"}, Optional: true}}
		}, "only optional"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ok()
			c.spoil(&cfg)
			_, err := agentloop.New(cfg)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "agentloop: ")
		})
	}
	_, err := agentloop.New(ok())
	require.NoError(t, err)
}

func TestTextIsTheEndWithoutProgression(t *testing.T) {
	m := play(calls(call("1", "read", `{}`)), says(" The answer. "))
	res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tool(t, "read", result("news"))}})

	assert.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, "The answer.", res.Text)
	assert.Equal(t, 2, res.Rounds)
	assert.Equal(t, 1, res.ToolCalls)
	assert.Equal(t, []string{"news"}, m.last(chat.RoleTool))
}

func TestLastStepIsTheEndWithProgression(t *testing.T) {
	m := play(
		calls(call("1", "read", `{"i":1}`)),
		calls(call("2", "write", `{"text":"a"}`)),
		calls(call("3", "save", `{}`)),
	)
	cfg, d := author(t, m)
	res := runOne(t, cfg)

	assert.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, []string{"read", "write", "save"}, res.Steps)
	assert.Empty(t, res.Missing)
	assert.Equal(t, 3, res.Rounds, "no further round after the last step")
	assert.Equal(t, "read write save", d.log())
}

func TestRequestCarriesTemplateAndCaller(t *testing.T) {
	m := play(says("ok"))
	temperature := 0.5
	res := runOne(t, agentloop.Config{
		Name: "poet", Model: m, System: "Be brief.",
		Messages: []chat.Message{chat.System("old"), chat.User("one"), chat.Assistant("two")},
		Task:     "three",
		Request:  chat.Request{Model: "m1", MaxTokens: 7, Temperature: &temperature},
	})
	require.Equal(t, agentloop.Done, res.Outcome)

	req := m.requests()[0]
	assert.Equal(t, "m1", req.Model)
	assert.Equal(t, 7, req.MaxTokens)
	assert.Equal(t, &temperature, req.Temperature)
	assert.Equal(t, "poet", req.Caller)
	var texts []string
	for _, msg := range req.Messages {
		texts = append(texts, msg.Content)
	}
	assert.Equal(t, []string{"Be brief.", "one", "two", "three"}, texts)
}

// A run that was cut off can be gone on with, and the caller's slice stays as
// it was even if it has room to grow into.
func TestGoesOnWithAnEarlierConversation(t *testing.T) {
	msgs := make([]chat.Message, 0, 50)
	msgs = append(msgs, chat.User("go"), chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{
		call("a", "read", `{}`), call("a", "read", `{"x`), call("", "read", ``)}},
		chat.ToolResult("a", "first"))
	before := append([]chat.Message(nil), msgs...)

	m := play(says("fine"))
	res := runOne(t, agentloop.Config{Model: m, Messages: msgs})

	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, before, msgs)
	assert.Zero(t, msgs[:cap(msgs)][3])
	results := m.last(chat.RoleTool)
	require.Len(t, results, 3)
	assert.Equal(t, "first", results[0])
	assert.Contains(t, results[1], "interrupted")
}

func TestRoundsAreBounded(t *testing.T) {
	step := agentloop.Progression{
		{Name: "read", Tools: []string{"read"}}, {Name: "write", Tools: []string{"write"}}, {Name: "save", Tools: []string{"save"}},
	}
	for name, c := range map[string]struct {
		limit, want int
	}{
		"as set":          {20, 20},
		"100 by default":  {0, 100},
		"and not earlier": {21, 21},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, d := author(t, play(calls(call("", "read", `{}`))))
			cfg.Progression, cfg.MaxRounds, cfg.Repeats = step, c.limit, -1
			res := runOne(t, cfg)

			assert.Equal(t, agentloop.Exhausted, res.Outcome)
			assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
			assert.Equal(t, c.want, res.Rounds)
			assert.Equal(t, []string{"write", "save"}, res.Missing)
			assert.ErrorContains(t, res.Err, "missing write, save")
			assert.Empty(t, res.Stuck)
			assert.NotContains(t, d.log(), "save")
		})
	}
}

func TestAgentDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		answer time.Duration
		want   agentloop.Outcome
	}{
		"a call that never ends": {time.Hour, agentloop.Exhausted},
		"just too late":          {time.Minute + 1, agentloop.Exhausted},
		"just in time":           {time.Minute - 1, agentloop.Done},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := runOne(t, agentloop.Config{Model: play(after(c.answer, says("ok"))), Timeout: time.Minute})
				assert.Equal(t, c.want, res.Outcome)
				assert.Equal(t, min(c.answer, time.Minute), res.Duration)
				if c.want == agentloop.Done {
					return
				}
				de, ok := errors.AsType[*agentloop.TimeoutError](res.Err)
				require.True(t, ok, "Err = %v", res.Err)
				assert.Equal(t, agentloop.TimeoutError{Of: "agent", Limit: time.Minute}, *de)
				assert.True(t, de.Timeout())
				assert.NotErrorIs(t, res.Err, context.DeadlineExceeded)
				assert.Equal(t, "waiting for the model for 1m0s", res.Stuck)
			})
		})
	}
}

func TestCallersEndIsTheCallers(t *testing.T) {
	errBored := errors.New("bored")
	for name, c := range map[string]struct {
		ctx  func(context.Context) (context.Context, func())
		want error
	}{
		"a cancel with its cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errBored) })
			return ctx, func() { cancel(nil) }
		}, errBored},
		"a deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := c.ctx(t.Context())
				defer stop()
				res := newAgent(t, agentloop.Config{Model: play(silent)}).Run(ctx)
				assert.Equal(t, agentloop.Cancelled, res.Outcome)
				assert.ErrorIs(t, res.Err, c.want)
				assert.Equal(t, time.Second, res.Duration)
			})
		})
	}
}

func TestAgentRunsMoreThanOnce(t *testing.T) {
	a := newAgent(t, agentloop.Config{Model: play(says("ok"))})
	first, second := a.Run(t.Context()), a.Run(t.Context())
	assert.Equal(t, first.Messages, second.Messages)
	assert.Equal(t, 1, second.Rounds)
}

// What New was given may be written to afterwards.
func TestNewCopiesWhatItIsGiven(t *testing.T) {
	temperature, top, seed, parallel := 0.5, 0.25, int64(7), true
	extra := map[string]json.RawMessage{"k": json.RawMessage("1")}
	msgs := []chat.Message{
		{Role: chat.RoleUser, Parts: []chat.Part{{Type: "text", Text: "one", Extra: map[string]json.RawMessage{"k": json.RawMessage("1")}}}},
		{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "t", Extra: map[string]json.RawMessage{"k": json.RawMessage("1")}}}},
		{Role: chat.RoleTool, ToolCallID: "a", Content: "x", Extra: map[string]json.RawMessage{"k": json.RawMessage("1")}},
	}
	req := chat.Request{Temperature: &temperature, TopP: &top, Seed: &seed, ParallelToolCalls: &parallel, Stop: []string{"."},
		ResponseFormat: json.RawMessage("{}"), Extra: extra}
	m := play(says("ok"))
	sent := func(i int) string {
		r := m.requests()[i]
		b, err := json.Marshal([]any{r.Messages, r.Temperature, r.TopP, r.Seed, r.ParallelToolCalls, r.Stop, r.ResponseFormat, r.Extra})
		require.NoError(t, err)
		return string(b)
	}
	a := newAgent(t, agentloop.Config{Model: m, Messages: msgs, Request: req})
	before := newAgent(t, agentloop.Config{Model: m, Messages: msgs, Request: req}).Run(t.Context())
	require.NoError(t, before.Err)
	first := sent(0)

	temperature, top, seed, parallel = 1, 1, 8, false
	req.Stop[0], req.ResponseFormat[0], extra["k"][0], extra["new"] = "!", '[', '2', nil
	msgs[0].Parts[0].Text = "two"
	msgs[0].Parts[0].Extra["k"][0] = '2'
	msgs[1].ToolCalls[0].ID = "b"
	msgs[1].ToolCalls[0].Extra["k"][0] = '2'
	msgs[2].Extra["k"][0] = '2'
	a.Run(t.Context())
	assert.Equal(t, first, sent(1))
}
