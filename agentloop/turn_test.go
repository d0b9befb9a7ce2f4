package agentloop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

func TestCallsDecideNotTheFinishReason(t *testing.T) {
	for _, reason := range []chat.FinishReason{"stop", "", "tool_calls", "function_call", "eos_token"} {
		t.Run(string(reason), func(t *testing.T) {
			m := play(answer(chat.Message{
				Content: "Let me look.",
				ToolCalls: []chat.ToolCall{
					call("a", "read", `{"i":1}`), call("b", "read", `{"i":2}`), call("c", "read", `{"i":3}`),
				},
			}, reason), says("done"))
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tool(t, "read", result("x"))}})
			assert.Equal(t, agentloop.Done, res.Outcome)
			assert.Equal(t, 3, res.ToolCalls)
			assert.Len(t, m.last(chat.RoleTool), 3)
		})
	}
}

func TestNothingOfACutMessageRuns(t *testing.T) {
	for name, args := range map[string]string{
		"cut in the middle":     `{"path":"r","text":"abc`,
		"cut, but still parses": `{"path":"r"}`,
	} {
		for _, reason := range []chat.FinishReason{chat.FinishLength, chat.FinishContentFilter} {
			t.Run(name+" by "+string(reason), func(t *testing.T) {
				m := play(
					answer(chat.Message{ToolCalls: []chat.ToolCall{call("a", "read", `{}`), call("b", "write", args)}}, reason),
					says("sorry"),
				)
				d := &desk{}
				res := runOne(t, agentloop.Config{Model: m, Tools: d.tools(t)})
				require.Equal(t, agentloop.Done, res.Outcome)
				assert.Empty(t, d.log())
				for _, text := range m.last(chat.RoleTool) {
					assert.Contains(t, text, "cut")
				}
				assert.Len(t, m.last(chat.RoleTool), 2)
			})
		}
	}
}

// A client for which such an answer is an error says so with the answer, and
// the agent goes on in the same way.
func TestACutMessageThatComesAsAnError(t *testing.T) {
	resp := &chat.Response{Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{call("a", "write", `{"text":"abc`)}}}
	m := play(func(context.Context, *chat.Request) (*chat.Response, error) { return nil, truncatedError{resp} }, says("sorry"))
	d := &desk{}
	res := runOne(t, agentloop.Config{Model: m, Tools: d.tools(t)})
	require.Equal(t, agentloop.Done, res.Outcome)
	assert.Empty(t, d.log())
	assert.Contains(t, m.last(chat.RoleTool)[0], "cut")
}

type truncatedError struct{ resp *chat.Response }

func (truncatedError) Error() string               { return "cut" }
func (e truncatedError) Truncated() *chat.Response { return e.resp }
func (truncatedError) Retryable() bool             { return false }

func TestCutMessagesInARowEndTheRun(t *testing.T) {
	cut := answer(chat.Message{ToolCalls: []chat.ToolCall{call("", "write", `{"te`)}}, chat.FinishLength)
	good := calls(call("", "write", `{}`))

	t.Run("three", func(t *testing.T) {
		m := play(cut)
		res := runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.ErrorIs(t, res.Err, agentloop.ErrTruncated)
		assert.Equal(t, 3, res.Rounds)
		assert.Zero(t, res.ToolCalls)
	})
	t.Run("two, then a whole one, and again", func(t *testing.T) {
		m := play(cut, cut, good, cut, cut, good, says("ok"))
		res := runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
		assert.Equal(t, agentloop.Done, res.Outcome)
	})
}

func TestCutTextIsNoAnswer(t *testing.T) {
	m := play(answer(chat.Message{Content: "Once upon a"}, chat.FinishLength), says("Once."))
	res := runOne(t, agentloop.Config{Model: m})
	assert.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, "Once.", res.Text)
	assert.Contains(t, m.last(chat.RoleUser)[0], "cut off by the token limit")
}

// Each kind of answer that is none is advised against, may be got over, and
// else ends the agent with its true name.
func TestUselessAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		turn   step
		want   []error
		advice string
	}{
		"nothing":    {answer(chat.Message{}, chat.FinishStop), []error{agentloop.ErrEmpty}, "was empty"},
		"only space": {answer(chat.Message{Content: " \n"}, chat.FinishStop), []error{agentloop.ErrEmpty}, "was empty"},
		"empty list of calls": {
			answer(chat.Message{ToolCalls: []chat.ToolCall{}}, ""), []error{agentloop.ErrEmpty}, "was empty"},
		"thought only": {
			answer(chat.Message{Reasoning: "hm"}, chat.FinishStop), []error{agentloop.ErrReasoningOnly}, "only thoughts"},
		"thought until the cap": {
			answer(chat.Message{Reasoning: "hm"}, chat.FinishLength),
			[]error{agentloop.ErrReasoningOnly, agentloop.ErrTruncated}, "Think less"},
		"only what nobody sees": {says("\u200b\ufeff \u00ad\x00"), []error{agentloop.ErrEmpty}, "was empty"},
		"only a mark":           {says("<|im_end|>"), []error{agentloop.ErrEmpty}, "was empty"},
		"only marks":            {says("</s> <｜end▁of▁sentence｜>\n<end_of_turn>"), []error{agentloop.ErrEmpty}, "was empty"},
		"thought, and a mark":   {says("<think>hm</think>\n<|im_end|>"), []error{agentloop.ErrReasoningOnly}, "only thoughts"},
		"a call announced": {
			answer(chat.Message{Content: "I will read."}, chat.FinishToolCalls), []error{agentloop.ErrNoCall}, "none arrived"},
		"withheld": {
			answer(chat.Message{}, chat.FinishContentFilter), []error{agentloop.ErrEmpty, agentloop.ErrFiltered}, "filter"},
	} {
		t.Run(name, func(t *testing.T) {
			m := play(c.turn)
			res := runOne(t, agentloop.Config{Model: m, Nudges: 4})
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.Equal(t, 5, res.Rounds, "4 nudges")
			assert.Equal(t, 4, res.Nudges)
			for _, want := range c.want {
				assert.ErrorIs(t, res.Err, want)
			}
			assert.Contains(t, m.last(chat.RoleUser)[0], c.advice)

			m = play(calls(call("", "read", `{}`)), c.turn, says("done"))
			res = runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
			assert.Equal(t, agentloop.Done, res.Outcome)

			res = runOne(t, agentloop.Config{Model: play(c.turn), Nudges: -1})
			assert.Equal(t, 1, res.Rounds, "no nudge")
		})
	}
}

// What nobody sees, in answers and results, is not sent back as if it were something.
func TestWhatNobodySeesIsNotSentBack(t *testing.T) {
	m := play(says("<|im_end|>"), says("\u200b"), calls(call("", "look", "{}")), says("done"))
	res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tool(t, "look", result("\u200b\ufeff"))}})
	require.Equal(t, agentloop.Done, res.Outcome)
	assert.Equal(t, "done", res.Text)
	assert.Equal(t, []string{"(no output)"}, m.last(chat.RoleTool))
	var said []string
	for _, msg := range res.Messages {
		if msg.Role == chat.RoleAssistant {
			said = append(said, msg.Content)
		}
	}
	assert.Equal(t, []string{"(no answer)", "(no answer)", "", "done"}, said)
}

// A refusal is what the model says, and is sent back as that: as a field of its own it is
// refused by many servers.
func TestARefusalIsText(t *testing.T) {
	m := play(answer(chat.Message{Refusal: "I cannot."}, chat.FinishToolCalls), says("done"))
	res := runOne(t, agentloop.Config{Model: m})
	assert.Equal(t, chat.Message{Role: chat.RoleAssistant, Content: "I cannot."}, res.Messages[1])
	res = runOne(t, agentloop.Config{Model: play(answer(chat.Message{Refusal: "I cannot."}, chat.FinishStop))})
	assert.Equal(t, "I cannot.", res.Text)
}

func TestUsageOfReasoningExplainsAnEmptyAnswer(t *testing.T) {
	turn := answer(chat.Message{}, chat.FinishLength)
	m := play(func(ctx ctx, req *chat.Request) (*chat.Response, error) {
		resp, err := turn(ctx, req)
		resp.Usage = &chat.Usage{PromptTokens: 5, CompletionTokens: 8, TotalTokens: 13, ReasoningTokens: 8}
		return resp, err
	})
	res := runOne(t, agentloop.Config{Model: m})
	assert.ErrorIs(t, res.Err, agentloop.ErrReasoningOnly)
	assert.Equal(t, chat.Usage{PromptTokens: 15, CompletionTokens: 24, TotalTokens: 39, ReasoningTokens: 24}, res.Usage)
}

func TestUnknownTools(t *testing.T) {
	unknown := calls(call("", "generic_cmd", `{}`))
	t.Run("are told the right ones", func(t *testing.T) {
		m := play(unknown, calls(call("", "read", `{}`)), says("ok"))
		res := runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
		assert.Equal(t, agentloop.Done, res.Outcome)
		assert.Contains(t, m.requests()[1].Messages[2].Content, "read, write, append, save")
	})
	t.Run("end the run", func(t *testing.T) {
		res := runOne(t, agentloop.Config{Model: play(unknown), Tools: (&desk{}).tools(t), Nudges: 6})
		assert.Equal(t, agentloop.Stalled, res.Outcome)
		assert.ErrorIs(t, res.Err, agentloop.ErrUnknownTool)
		assert.Equal(t, 7, res.Rounds)
	})
	t.Run("with names that servers refuse", func(t *testing.T) {
		m := play(calls(call("", "", `{}`), call("", "über tool!", `{}`), call("", strings.Repeat("x", 100), `{}`)), says("ok"))
		res := runOne(t, agentloop.Config{Model: m})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Contains(t, m.last(chat.RoleTool)[0], "Available: none")
	})
}

func TestBrokenArguments(t *testing.T) {
	for name, args := range map[string]string{
		"illegal escape": `{"a": "b\q"}`,
		"cut":            `{"a": "b`,
		"a list":         `[1]`,
		"a number":       `7`,
		"prose":          `read the first`,
		"two objects":    `{}{}`,
		"a string":       `"first"`,
		"not UTF-8":      "{\xff}",
		"huge":           `{"a": "` + strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			bad := calls(call("1", "read", args))
			m := play(bad, says("ok"))
			d := &desk{}
			res := runOne(t, agentloop.Config{Model: m, Tools: d.tools(t)})
			require.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Empty(t, d.log())
			assert.Contains(t, m.last(chat.RoleTool)[0], "not a JSON object")
			assert.Less(t, len(m.last(chat.RoleTool)[0]), 1000)

			res = runOne(t, agentloop.Config{Model: play(bad), Tools: d.tools(t)})
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.ErrorIs(t, res.Err, agentloop.ErrBadArguments)
			assert.Equal(t, 3, res.Rounds)
		})
	}
}

func TestLiberalArguments(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"absent":        {"", "{}"},
		"null":          {"null", "{}"},
		"with space":    {" {\"i\":1}\n", `{"i":1}`},
		"encoded twice": {`"{\"i\":1}"`, `{"i":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			tl := agentloop.Tool{Name: "read", Run: func(_ ctx, args raw) (string, error) {
				got = string(args)
				return "", nil
			}}
			res := runOne(t, agentloop.Config{Model: play(calls(call("1", "read", c.args)), says("ok")), Tools: []agentloop.Tool{tl}})
			require.Equal(t, agentloop.Done, res.Outcome)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want, res.Messages[1].ToolCalls[0].Arguments)
		})
	}
}

func TestIDsAreUniqueAndKeptWherePossible(t *testing.T) {
	m := play(
		calls(call("x", "read", `{"i":1}`), call("x", "read", `{"i":2}`), call("", "read", `{"i":3}`)),
		calls(call("x", "read", `{"i":4}`), call("call00001", "read", `{"i":5}`), call("y", "read", `{"i":6}`)),
		says("ok"),
	)
	n := 0
	tl := tool(t, "read", func(ctx) (string, error) { n++; return fmt.Sprint(n), nil })
	tl.Sequential = true
	res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tl}})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)

	var ids, results []string
	for _, msg := range res.Messages {
		for _, c := range msg.ToolCalls {
			ids = append(ids, c.ID)
		}
		if msg.Role == chat.RoleTool {
			results = append(results, msg.Content)
		}
	}
	assert.Equal(t, []string{"x", "call00001", "call00002", "call00003", "call00004", "y"}, ids)
	assert.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, results)
}

func TestReasoningStaysWithItsCalls(t *testing.T) {
	turn := answer(chat.Message{
		Reasoning: "hm", ReasoningKey: "reasoning",
		ToolCalls: []chat.ToolCall{call("1", "read", `{}`)},
		Extra:     map[string]raw{"reasoning_details": raw(`[1]`)},
	}, chat.FinishToolCalls)
	m := play(turn, says("ok"))
	runOne(t, agentloop.Config{Model: m, Tools: (&desk{}).tools(t)})
	sent := m.requests()[1].Messages[1]
	assert.Equal(t, "hm", sent.Reasoning)
	assert.Equal(t, "reasoning", sent.ReasoningKey)
	assert.Equal(t, raw(`[1]`), sent.Extra["reasoning_details"])
}

func TestRefusalIsAText(t *testing.T) {
	m := play(answer(chat.Message{Refusal: "I will not."}, chat.FinishStop), answer(chat.Message{Refusal: "I won't."}, chat.FinishStop))
	cfg, _ := author(t, m)
	res := runOne(t, cfg)
	assert.Equal(t, agentloop.Stalled, res.Outcome)
	assert.ErrorIs(t, res.Err, agentloop.ErrStoppedEarly)
	assert.Equal(t, "I won't.", res.Text)
}

// Thoughts that a server leaves in the text are no answer; an answer behind them,
// or one that speaks of them, is.
func TestThoughtsInTheTextAreNoAnswer(t *testing.T) {
	for text, thought := range map[string]bool{
		"<think>hmm</think>":                                  true,
		" <think>\nhmm\n</think>\n\n":                         true,
		"<think>cut in its mid":                               true,
		"so it must be seven\n</think>":                       true,
		"<think></think>":                                     true,
		"<think>a</think>\n<think>b</think>":                  true,
		"<think>a</think><think>b":                            true,
		"<thinking>hmm</thinking>":                            true,
		"<thought>hmm</thought>":                              true,
		"[THINK]hmm[/THINK]":                                  true,
		"[THINK]cut in its mid":                               true,
		"◁think▷hmm◁/think▷":                                  true,
		"<seed:think>hmm</seed:think>":                        true,
		"so it must be seven[/THINK]":                         true,
		"<|channel|>analysis<|message|>hmm<|end|>":            true,
		"<|start|>assistant<|channel|>analysis<|message|>hmm": true,
		"<|channel|>analysis<|message|>hmm<|end|><|start|>assistant<|channel|>final<|message|>7": false,
		"It thinks in <|channel|>analysis":          false,
		"<think>a</think><think>b</think>7":         false,
		"[THINK]hmm[/THINK]7":                       false,
		"<thinking>hmm</thinking>7":                 false,
		"<think>hmm</think>7":                       false,
		"so it must be seven</think>\n\n7":          false,
		"Use <think>…</think> for thoughts.":        false,
		"The tags are <think> and </think>":         false,
		"<think>a</think>The tag ends in </think>":  false,
		"<thinking about it> is what I do all day.": false,
	} {
		res := runOne(t, agentloop.Config{Model: play(says(text))})
		if thought {
			assert.Equal(t, agentloop.Stalled, res.Outcome, text)
			assert.ErrorIs(t, res.Err, agentloop.ErrReasoningOnly, text)
			assert.Equal(t, 2, res.Nudges, text)
		} else {
			assert.Equal(t, agentloop.Done, res.Outcome, text)
			assert.Equal(t, text, res.Text)
		}
	}
}
