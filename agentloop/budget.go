package agentloop

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/neverhang/neverhang/chat"
)

// A Budget names one of the bounds on what an agent uses.
type Budget string

// The budgets that a [BudgetError] may name.
const (
	BudgetRounds    Budget = "rounds"     // Config.MaxRounds
	BudgetTokens    Budget = "tokens"     // Config.MaxTotalTokens
	BudgetToolCalls Budget = "tool calls" // Config.MaxToolCalls
	BudgetCost      Budget = "cost"       // Config.MaxCost
)

// A BudgetError says which budget is used up. Wall time is a [TimeoutError].
type BudgetError struct {
	Budget Budget
	Agent  string // whose budget it is: the agent's, or that of one in whose tool it runs
	Used   float64
	Limit  float64
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("budget of %s used up: %s of %s (agent %q)", e.Budget, number(e.Used), number(e.Limit), e.Agent)
}

// Is reports whether target is [ErrRounds] and the rounds are used up.
func (e *BudgetError) Is(target error) bool { return target == ErrRounds && e.Budget == BudgetRounds }

func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return fmt.Sprintf("%d", int64(x))
	}
	return fmt.Sprintf("%.4g", x)
}

// expenses are what an agent has used, with all that runs in its tools.
type expenses struct {
	tokens atomic.Int64
	calls  atomic.Int64 // of tools
	cost   atomic.Uint64
}

// pay books the cost of a model call, on the agent and on all agents in whose tools
// it runs.
func (r *run) pay(tokens int64, cost float64) {
	for ; r != nil; r = r.parent {
		r.spent.tokens.Add(tokens)
		for cost > 0 {
			old := r.spent.cost.Load()
			if r.spent.cost.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+cost)) {
				break
			}
		}
	}
}

// admitTool books one call of a tool. It reports false if there is no budget for it,
// unless the call was already made.
func (r *run) admitTool(made bool) bool {
	for x := r; x != nil; x = x.parent {
		if n := x.agent.cfg.MaxToolCalls; n > 0 && x.spent.calls.Add(1) > int64(n) && !made {
			for y := r; ; y = y.parent {
				if y.agent.cfg.MaxToolCalls > 0 {
					y.spent.calls.Add(-1)
				}
				if y == x {
					return false
				}
			}
		}
	}
	return true
}

// broke returns the budget that is used up, or nil.
func (r *run) broke() *BudgetError {
	if n := r.agent.cfg.MaxRounds; n > 0 && r.res.Rounds >= n {
		return &BudgetError{BudgetRounds, r.name(), float64(r.res.Rounds), float64(n)}
	}
	for x := r; x != nil; x = x.parent {
		c := &x.agent.cfg
		if n, used := c.MaxTotalTokens, x.spent.tokens.Load(); n > 0 && used >= n {
			return &BudgetError{BudgetTokens, x.name(), float64(used), float64(n)}
		}
		if n, used := c.MaxToolCalls, x.spent.calls.Load(); n > 0 && used >= int64(n) {
			return &BudgetError{BudgetToolCalls, x.name(), float64(used), float64(n)}
		}
		if n, used := c.MaxCost, math.Float64frombits(x.spent.cost.Load()); n > 0 && used >= n {
			return &BudgetError{BudgetCost, x.name(), used, n}
		}
	}
	return nil
}

// A bill is what one answer cost. It is made where the model is called, since
// Price is user code.
type bill struct {
	tokens  int64
	guessed bool // the server did not count
	cost    float64
}

// billOf asks Price for the cost of an answer. sent is the size of the request in
// bytes. A server that does not count tokens sends no usage, or zeros.
func (c *Config) billOf(resp *chat.Response, sent int) bill {
	u := resp.Usage
	var b bill
	if u == nil || max(u.TotalTokens, u.PromptTokens, u.CompletionTokens) <= 0 {
		in, out := int64(float64(sent)*tokensPerByte), int64(float64(messageBytes(&resp.Message))*tokensPerByte)
		u = &chat.Usage{PromptTokens: in, CompletionTokens: out, TotalTokens: in + out}
		b.guessed = true
	}
	b.tokens = max(u.TotalTokens, max(0, u.PromptTokens)+max(0, u.CompletionTokens))
	if c.Price != nil {
		if cost := c.Price(u); cost > 0 { // not NaN
			b.cost = min(cost, math.MaxFloat64)
		}
	}
	return b
}
