package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// uses returns a step whose answer the server counted.
func uses(s step, in, out int64) step {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		resp, err := s(ctx, req)
		resp.Usage = &chat.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out}
		return resp, err
	}
}

// reads calls read with new arguments each time, several times a message.
func reads(each int) step {
	n := 0
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		var list []chat.ToolCall
		for range each {
			n++
			list = append(list, call("", "read", fmt.Sprintf(`{"i":%d}`, n)))
		}
		return calls(list...)(ctx, req)
	}
}

func TestEachBudgetIsNamed(t *testing.T) {
	price := func(u *chat.Usage) float64 { return float64(u.PromptTokens)*0.001 + float64(u.CompletionTokens)*0.002 }
	for name, c := range map[string]struct {
		turn   step
		set    func(*agentloop.Config)
		want   agentloop.BudgetError
		rounds int
		calls  int
	}{
		"rounds": {reads(1), func(c *agentloop.Config) { c.MaxRounds = 7 },
			agentloop.BudgetError{Budget: agentloop.BudgetRounds, Used: 7, Limit: 7}, 7, 7},
		"tokens": {uses(reads(1), 90, 10), func(c *agentloop.Config) { c.MaxTotalTokens = 500 },
			agentloop.BudgetError{Budget: agentloop.BudgetTokens, Used: 500, Limit: 500}, 5, 5},
		"tokens, and one more": {uses(reads(1), 90, 10), func(c *agentloop.Config) { c.MaxTotalTokens = 501 },
			agentloop.BudgetError{Budget: agentloop.BudgetTokens, Used: 600, Limit: 501}, 6, 6},
		"calls": {reads(1), func(c *agentloop.Config) { c.MaxToolCalls = 4 },
			agentloop.BudgetError{Budget: agentloop.BudgetToolCalls, Used: 4, Limit: 4}, 4, 4},
		"calls, in the midst of a message": {reads(3), func(c *agentloop.Config) { c.MaxToolCalls = 4 },
			agentloop.BudgetError{Budget: agentloop.BudgetToolCalls, Used: 4, Limit: 4}, 2, 4},
		"cost": {uses(reads(1), 1000, 500), func(c *agentloop.Config) { c.MaxCost, c.Price = 5, price },
			agentloop.BudgetError{Budget: agentloop.BudgetCost, Used: 6, Limit: 5}, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := author(t, play(c.turn))
			c.set(&cfg)
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Exhausted, res.Outcome)
			be, ok := errors.AsType[*agentloop.BudgetError](res.Err)
			require.True(t, ok, res.Err)
			c.want.Agent = "author"
			assert.Equal(t, c.want, *be)
			assert.Equal(t, c.rounds, res.Rounds)
			assert.Equal(t, c.calls, res.ToolCalls)
			assert.Equal(t, []string{"write", "save"}, res.Missing)
			assert.ErrorContains(t, res.Err, "budget of "+string(c.want.Budget)+" used up")
			assert.Equal(t, c.want.Budget == agentloop.BudgetRounds, errors.Is(res.Err, agentloop.ErrRounds))
		})
	}
}

// What the last answer within a budget asks for is done: it is paid for.
func TestTheWorkOfTheLastAnswerCounts(t *testing.T) {
	cfg, d := author(t, play(uses(calls(call("", "read", "{}"), call("", "write", "{}"), call("", "save", "{}")), 900, 900)))
	cfg.MaxTotalTokens, cfg.MaxToolCalls = 1000, 3
	res := runOne(t, cfg)
	assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, "read write save", d.log())
}

// A server that does not count is counted for.
func TestTokensAreEstimatedWhereNobodyCounts(t *testing.T) {
	cfg, _ := author(t, play(reads(1)))
	cfg.MaxTotalTokens = 3000
	res := runOne(t, cfg)
	assert.Equal(t, agentloop.Exhausted, res.Outcome)
	assert.ErrorContains(t, res.Err, "budget of tokens used up")
	assert.GreaterOrEqual(t, res.EstimatedTokens, int64(3000))
	assert.Zero(t, res.Usage)
	assert.Greater(t, res.Rounds, 5)
	assert.Less(t, res.Rounds, 50)
}

func TestPriceMaySayAnything(t *testing.T) {
	for name, c := range map[string]struct {
		price func(*chat.Usage) float64
		want  agentloop.Outcome
		cost  float64
	}{
		"a price":      {func(*chat.Usage) float64 { return 2 }, agentloop.Done, 2},
		"nothing":      {func(*chat.Usage) float64 { return -1 }, agentloop.Done, 0},
		"not a number": {func(*chat.Usage) float64 { return math.NaN() }, agentloop.Done, 0},
		"a panic":      {func(*chat.Usage) float64 { panic("no price") }, agentloop.Failed, 0},
	} {
		res := runOne(t, agentloop.Config{Model: play(says("ok")), Price: c.price, MaxCost: 3})
		assert.Equal(t, c.want, res.Outcome, name)
		assert.Equal(t, c.cost, res.Cost, name)
	}
	for want, cfg := range map[string]agentloop.Config{
		"MaxCost is 3, but Price is nil": {MaxCost: 3},
		"MaxCost is not a number":        {MaxCost: math.NaN(), Price: func(*chat.Usage) float64 { return 0 }},
		"RepeatWindow is -1":             {RepeatWindow: -1},
		"Window is -1":                   {Window: -1},
	} {
		cfg.Name, cfg.Task, cfg.Model = "a", "x", play(says("ok"))
		_, err := agentloop.New(cfg)
		assert.ErrorContains(t, err, want)
	}
}

// What children use is used by those in whose tools they run.
func TestChildrenShareTheBudgetsOfTheirParents(t *testing.T) {
	var child agentloop.Result
	spawn := tool(t, "spawn", func(ctx context.Context) (string, error) {
		d := &desk{}
		child = newAgent(t, agentloop.Config{Name: "child", Model: play(uses(reads(1), 90, 10)), Tools: d.tools(t)}).Run(ctx)
		return "", child.Err
	})
	res := runOne(t, agentloop.Config{Name: "parent", MaxTotalTokens: 1000, Tools: []agentloop.Tool{spawn},
		Model: play(uses(calls(call("", "spawn", "{}")), 90, 10))})
	for _, res := range []agentloop.Result{res, child} {
		be, ok := errors.AsType[*agentloop.BudgetError](res.Err)
		require.True(t, ok, res.Err)
		assert.Equal(t, agentloop.BudgetError{Budget: agentloop.BudgetTokens, Agent: "parent", Used: 1000, Limit: 1000}, *be)
	}
	assert.Equal(t, 9, child.Rounds)
	assert.Equal(t, 1, res.Rounds)
}

// Zeros are no count, and numbers below are none either: it is estimated then.
func TestUsageOfZerosIsEstimated(t *testing.T) {
	for name, u := range map[string]*chat.Usage{
		"nothing": nil, "zeros": {}, "less": {TotalTokens: -1, PromptTokens: -1, CompletionTokens: -1}, "partly less": {PromptTokens: -1 << 40, CompletionTokens: 300},
	} {
		t.Run(name, func(t *testing.T) {
			m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				r, err := calls(call("", "get", fmt.Sprintf(`{"i":%d}`, len(req.Messages))))(ctx, req)
				r.Usage = u
				return r, err
			})
			n := 0
			get := tool(t, "get", func(context.Context) (string, error) { n++; return fmt.Sprint(n, strings.Repeat("x", 1000)), nil })
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{get}, MaxTotalTokens: 3000, MaxRounds: 50})
			b, ok := errors.AsType[*agentloop.BudgetError](res.Err)
			require.True(t, ok, "%v", res.Err)
			assert.Equal(t, agentloop.BudgetTokens, b.Budget)
			assert.Equal(t, name != "partly less", res.EstimatedTokens > 0)
			assert.GreaterOrEqual(t, res.Usage.PromptTokens, int64(0))
		})
	}
}

// What was read from a cache was used, also where a gateway counts it apart.
func TestCachedTokensAreBooked(t *testing.T) {
	for name, c := range map[string]struct {
		usage chat.Usage
		want  int64
	}{
		"apart":              {chat.Usage{PromptTokens: 10, CachedTokens: 400, CompletionTokens: 5, TotalTokens: 15}, 415},
		"apart, but in all":  {chat.Usage{PromptTokens: 10, CachedTokens: 400, CompletionTokens: 5, TotalTokens: 415}, 415},
		"within":             {chat.Usage{PromptTokens: 410, CachedTokens: 400, CompletionTokens: 5, TotalTokens: 415}, 415},
		"all of it, no more": {chat.Usage{PromptTokens: 400, CachedTokens: 400, CompletionTokens: 5, TotalTokens: 405}, 405},
	} {
		m := func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			u := c.usage
			resp, err := says("ok")(ctx, req)
			resp.Usage = &u
			return resp, err
		}
		res := runOne(t, agentloop.Config{Model: agentloop.ModelFunc(m), Price: func(u *chat.Usage) float64 { return float64(u.TotalTokens) }})
		assert.Equal(t, c.want, res.Usage.TotalTokens, name)
		assert.EqualValues(t, c.want, res.Cost, name)
	}
}
