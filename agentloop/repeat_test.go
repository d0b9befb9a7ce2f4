package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// inWords writes a number without digits.
func inWords(n int) string {
	text := ""
	for ; n > 0; n /= 10 {
		text = strings.Fields("none one two three four five six seven eight nine")[n%10] + "-" + text
	}
	return text
}

func TestNoRepeats(t *testing.T) {
	n := 0
	fresh := tool(t, "fresh", func(context.Context) (string, error) { n++; return inWords(n), nil })
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

// Warned, then blocked, then ended, with the evidence.
func TestRepeatsAreBlockedBeforeTheyEndTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		turn   func(n int) []chat.ToolCall
		limit  int
		ran    int // calls that were run
		rounds int
		top    agentloop.RepeatedCall
	}{
		"the same call": {func(int) []chat.ToolCall { return []chat.ToolCall{call("", "same", `{"b":1, "a":2}`)} }, 8,
			7, 9, agentloop.RepeatedCall{Tool: "same", Arguments: `{"a":2,"b":1}`, Times: 6}},
		"a cycle": {func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "same", fmt.Sprintf(`{"i":%d}`, n%2))} }, 8,
			8, 10, agentloop.RepeatedCall{Tool: "same", Arguments: `{"i":0}`, Times: 4}},
		"a label": {func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "same", fmt.Sprintf(`{"n":%d}`, n))} }, 4,
			10, 13, agentloop.RepeatedCall{Tool: "same", Arguments: `{"n":2}`, Times: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			m := numbered(c.turn)
			var refused, warned int
			res := runOne(t, agentloop.Config{Model: m, Repeats: c.limit,
				Tools: []agentloop.Tool{tool(t, "same", func(context.Context) (string, error) { ran++; return "x", nil })},
				OnEvent: func(e agentloop.Event) {
					switch {
					case e.Kind == agentloop.EventToolRefused && errors.Is(e.Err, agentloop.ErrRepeating):
						refused++
					case e.Kind == agentloop.EventWarned:
						assert.Zero(t, refused, "first it is warned")
						warned++
					}
				}})
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.Equal(t, c.ran, ran)
			assert.Equal(t, c.rounds, res.Rounds)
			assert.Equal(t, c.rounds-c.ran, refused)
			assert.Positive(t, warned)
			re, ok := errors.AsType[*agentloop.RepeatError](res.Err)
			require.True(t, ok)
			assert.Equal(t, c.top, re.Calls[0])
			assert.Equal(t, c.rounds-1, re.Rounds)
			assert.ErrorContains(t, res.Err, fmt.Sprintf("calls bring nothing new: %d rounds in a row; same {", re.Rounds))
		})
	}
	t.Run("another call is not", func(t *testing.T) {
		same := calls(call("", "same", `{}`))
		other := calls(call("", "other", `{}`))
		m := play(same, same, same, same, other, says("Now I see."))
		res := runOne(t, agentloop.Config{Model: m, Repeats: 4, Tools: []agentloop.Tool{tool(t, "same", result("x")), tool(t, "other", result("new"))}})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, "new", m.last(chat.RoleTool)[0])
	})
}

// The text of an error, and how much there is by now, are no news; nor are times and
// ids in what the same call brings. A tool that watches a number is one for polling.
func TestWhatOnlyLooksNew(t *testing.T) {
	n := 0
	says := func(text func() string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { n++; return text(), nil }
	}
	poll := tool(t, "t", says(func() string { return fmt.Sprint(n) }))
	poll.Polling = true
	counter := func(fail bool) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			n++
			if fail {
				return "", fmt.Errorf("busy at %d", n)
			}
			return fmt.Sprintf("written, %d bytes by now", n), nil
		}
	}
	paragraph := fmt.Sprintf(`{"text":%q}`, strings.Repeat("the same words again, ", 5))
	for name, c := range map[string]struct {
		tool   agentloop.Tool
		args   string
		rounds int // 0: to the last
	}{
		"an error with a time":           {tool(t, "t", counter(true)), `{}`, 5},
		"a paragraph appended again":     {tool(t, "t", counter(false)), paragraph, 13},
		"a count":                        {tool(t, "t", says(func() string { return fmt.Sprint(n) })), `{}`, 13},
		"a count that is watched":        {poll, `{}`, 0},
		"an id and a time":               {tool(t, "t", says(func() string { return fmt.Sprintf(`{"ok":true,"id":"msg_%d","ts":"12:00:%02dZ"}`, n, n%60) })), `{"text":"hello"}`, 13},
		"how long it took":               {tool(t, "t", says(func() string { return fmt.Sprintf("exit 1, no output (%d.%03d s)", n%3, n*37%1000) })), `{}`, 13},
		"the next page of something":     {tool(t, "t", says(func() string { return fmt.Sprintf("page %d: %s", n, inWords(n)) })), `{"what":"next"}`, 0},
		"what else the same words bring": {tool(t, "t", says(func() string { return fmt.Sprintf("FAIL: %s (%d ms)", inWords(n), n) })), `{"cmd":"go test ./..."}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := numbered(func(int) []chat.ToolCall { return []chat.ToolCall{call("", "t", c.args)} })
			res := runOne(t, agentloop.Config{Model: m, Repeats: 4, MaxRounds: 60, Tools: []agentloop.Tool{c.tool}})
			if c.rounds == 0 {
				assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
				return
			}
			assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
			assert.Equal(t, c.rounds, res.Rounds)
		})
	}
}

func TestCyclesAreSeenUpToTheWindow(t *testing.T) {
	for cycle, want := range map[int]error{20: agentloop.ErrRepeating, 21: agentloop.ErrRounds} {
		m := numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "t", fmt.Sprintf(`{"i":%d}`, n%cycle))} })
		echoes := agentloop.Tool{Name: "t", Run: func(_ ctx, args raw) (string, error) { return string(args), nil }}
		res := runOne(t, agentloop.Config{Model: m, Repeats: 4, RepeatWindow: 20, Tools: []agentloop.Tool{echoes}})
		assert.ErrorIs(t, res.Err, want, "a cycle of %d", cycle)
	}
}

// What was left out of the conversation may be read again.
func TestWhatWasForgottenMayBeReadAgain(t *testing.T) {
	n := 0
	m := numbered(func(k int) []chat.ToolCall {
		n++
		return []chat.ToolCall{call("", "page", fmt.Sprintf(`{"i":%d}`, k%8))}
	})
	page := agentloop.Tool{Name: "page", Run: func(_ ctx, args raw) (string, error) {
		return string(args) + strings.Repeat("x", 2000), nil
	}}
	// Eight pages do not fit, so it reads them in turns: three times the patience.
	res := runOne(t, agentloop.Config{Model: m, Repeats: 4, Window: 4000, Tools: []agentloop.Tool{page}, Request: chat.Request{MaxTokens: 100}})
	assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
	assert.Greater(t, res.Rounds, 8+4)
	assert.LessOrEqual(t, res.Rounds, 8+3*4+4)
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

// What is long and new is work, though the tool answers each time with the same; what is
// short and new may be a label. But a label may be long, so that has an end as well,
// unless results tell that something was done. It is warned of late, and not blocked.
func TestLongWorkIsNoRepeat(t *testing.T) {
	n := 0
	grows := func(context.Context) (string, error) { n++; return fmt.Sprintf("written, %d bytes by now", n), nil }
	for name, c := range map[string]struct {
		size   int
		result func(context.Context) (string, error)
		rounds int // 0: to the last
		ran    int
	}{
		"short":                           {127, result("ok"), 13, 10},
		"long":                            {128, result("ok"), 37, 37},
		"short, and the results tell":     {127, grows, 0, 60},
		"long, and the results tell":      {128, grows, 0, 60},
		"long, and the results are words": {128, func(context.Context) (string, error) { n++; return inWords(n), nil }, 0, 60},
	} {
		t.Run(name, func(t *testing.T) {
			m := numbered(func(n int) []chat.ToolCall {
				text := fmt.Sprintf("section %03d ", n)
				return []chat.ToolCall{call("", "append", fmt.Sprintf(`{"text":%q}`, text+strings.Repeat("x", c.size-len(`{"text":""}`)-len(text))))}
			})
			warned := 0
			res := runOne(t, agentloop.Config{Model: m, Repeats: 4, MaxRounds: 60, Tools: []agentloop.Tool{tool(t, "append", c.result)}, OnEvent: func(e agentloop.Event) {
				if e.Kind == agentloop.EventWarned && warned == 0 {
					warned = e.Round
				}
			}})
			assert.Equal(t, c.ran, res.ToolCalls)
			if c.rounds == 0 {
				assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
				assert.Zero(t, warned)
				return
			}
			assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
			assert.Equal(t, c.rounds, res.Rounds)
			assert.Equal(t, map[int]int{127: 7, 128: 28}[c.size], warned)
		})
	}
}

// A step that is to be taken many times is progress each time, and no longer.
func TestEachOfTheTimesOfAStepIsNews(t *testing.T) {
	m := numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "tag", fmt.Sprintf(`{"i":%d}`, n))} })
	tags := agentloop.Step{Name: "tag", Tools: []string{"tag"}, Times: 40}
	tools := []agentloop.Tool{tool(t, "tag", result("ok")), tool(t, "save", result("saved"))}
	res := runOne(t, agentloop.Config{Model: m, Repeats: 2, Tools: tools, Progression: agentloop.Progression{tags}})
	assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, 40, res.ToolCalls)

	m = numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "tag", fmt.Sprintf(`{"i":%d}`, n))} })
	res = runOne(t, agentloop.Config{Model: m, Repeats: 2, Tools: tools, Progression: agentloop.Progression{tags, {Name: "save", Tools: []string{"save"}}}})
	assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
	assert.Equal(t, 40+6, res.Rounds)
}
