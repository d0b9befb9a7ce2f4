package agentloop_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// numbered plays an endless script of messages with calls.
func numbered(turn func(n int) []chat.ToolCall) *strictServer {
	n := 0
	return play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		n++
		return calls(turn(n)...)(ctx, req)
	})
}

func TestRepeatsEndTheRun(t *testing.T) {
	one := func(name, args string) []chat.ToolCall { return []chat.ToolCall{call("", name, args)} }
	pick := func(n int, args ...string) string { return args[n%len(args)] }
	for name, c := range map[string]struct {
		turn   func(n int) []chat.ToolCall
		limit  int
		rounds int
	}{
		"the same call":             {func(int) []chat.ToolCall { return one("same", `{"a":1,"b":2}`) }, 0, 11},
		"in other words":            {func(n int) []chat.ToolCall { return one("same", pick(n, `{"a":1,"b":2}`, `{ "b":2, "a":1 }`)) }, 0, 11},
		"as often as set":           {func(int) []chat.ToolCall { return one("same", `{}`) }, 4, 5},
		"a cycle of three":          {func(n int) []chat.ToolCall { return one("same", fmt.Sprintf(`{"i":%d}`, n%3)) }, 4, 7},
		"a cycle of tools":          {func(n int) []chat.ToolCall { return one(pick(n, "same", "alike"), `{}`) }, 4, 6},
		"several at once":           {func(int) []chat.ToolCall { return append(one("same", `{}`), one("same", `{}`)...) }, 4, 5},
		"with a label of no matter": {func(n int) []chat.ToolCall { return one("same", fmt.Sprintf(`{"label":"n%d"}`, n)) }, 4, 13},
		"of an error":               {func(int) []chat.ToolCall { return one("broken", `{}`) }, 4, 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := numbered(c.turn)
			res := runOne(t, agentloop.Config{Model: m, Repeats: c.limit, Tools: []agentloop.Tool{
				tool(t, "same", result("nothing")), tool(t, "alike", result("nothing")),
				tool(t, "broken", func(context.Context) (string, error) { return "", fmt.Errorf("no") }),
			}})
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
			assert.Equal(t, c.rounds, res.Rounds)
			results := m.last(chat.RoleTool)
			assert.Contains(t, results[len(results)-1], "brought nothing new", "it was warned")
		})
	}
}

func TestNoRepeats(t *testing.T) {
	n := 0
	fresh := tool(t, "fresh", func(context.Context) (string, error) { n++; return fmt.Sprint(n), nil })
	same := tool(t, "same", result("waiting"))
	poll := tool(t, "poll", result("waiting"))
	poll.Polling = true
	one := func(name string) []chat.ToolCall { return []chat.ToolCall{call("", name, `{}`)} }
	for name, turn := range map[string]func(n int) []chat.ToolCall{
		"new results":       func(int) []chat.ToolCall { return one("fresh") },
		"a polling tool":    func(int) []chat.ToolCall { return one("poll") },
		"news between":      func(n int) []chat.ToolCall { return one([]string{"same", "same", "same", "fresh"}[n%4]) },
		"news beside":       func(int) []chat.ToolCall { return append(one("same"), one("fresh")...) },
		"oks of an ordered": func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "same", fmt.Sprintf(`{"i":%d}`, n))} },
	} {
		t.Run(name, func(t *testing.T) {
			limit := 4
			if name == "oks of an ordered" {
				limit = 50
			}
			res := runOne(t, agentloop.Config{Model: numbered(turn), Repeats: limit, Tools: []agentloop.Tool{fresh, same, poll}})
			assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
		})
	}
	t.Run("no bound", func(t *testing.T) {
		res := runOne(t, agentloop.Config{Model: numbered(func(int) []chat.ToolCall { return one("same") }), Repeats: -1, Tools: []agentloop.Tool{same}})
		assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
	})
}

// The warning comes at half of the way, in the result, and is no end yet.
func TestWarnedModelMayTurnAround(t *testing.T) {
	same := calls(call("", "same", `{}`))
	m := play(same, same, same, says("I see."))
	res := runOne(t, agentloop.Config{Model: m, Repeats: 4, Tools: []agentloop.Tool{tool(t, "same", result("x"))}})
	assert.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, "x", res.Messages[4].Content)
	assert.Contains(t, res.Messages[6].Content, "x\n\n[note: your last calls brought nothing new")
}

// Steps are news, whatever their tools say.
func TestStepsAreNews(t *testing.T) {
	var script []step
	var prog agentloop.Progression
	for i := range 30 {
		script = append(script, calls(call("", "next", `{}`)))
		prog = append(prog, agentloop.Step{Name: fmt.Sprint(i), Tools: []string{"next"}})
	}
	res := runOne(t, agentloop.Config{
		Model: play(script...), Repeats: 2, Progression: prog, Tools: []agentloop.Tool{tool(t, "next", result("ok"))},
	})
	assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Len(t, res.Steps, 30)
}
