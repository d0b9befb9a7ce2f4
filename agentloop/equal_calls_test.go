package agentloop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// What changes something is done once, however often one message asks for it.
func TestEqualCallsOfOneMessageAreMadeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		calls  string // of tools with arguments, in one message
		effect agentloop.Effect
		set    func(*agentloop.Tool)
		made   int
	}{
		"nine times":                     {calls: strings.Repeat(`do {"to":"a"}; `, 9), made: 1},
		"in other words":                 {calls: `do {"to":"a","n":1}; do { "n":1, "to":"a" }`, made: 1},
		"that may be repeated":           {calls: `do {}; do {}`, effect: agentloop.EffectIdempotent, made: 1},
		"with others of the tool":        {calls: `do {"to":"a"}; do {"to":"b"}; do {"to":"a"}; do {"to":"b"}`, made: 2},
		"with a look between":            {calls: `do {}; look {}; do {}`, made: 1},
		"refused, all of them":           {calls: `nothing {}; nothing {}`, made: 0},
		"others":                         {calls: `do {"to":"a"}; do {"to":"b"}`, made: 2},
		"that change nothing":            {calls: `do {}; do {}; do {}`, effect: agentloop.EffectNone, made: 3},
		"that poll":                      {calls: `do {}; do {}`, set: func(tl *agentloop.Tool) { tl.Polling = true }, made: 2},
		"with another change between":    {calls: `do {}; other {}; do {}`, made: 2},
		"in an order, in a row":          {calls: `do {"key":"down"}; do {"key":"down"}`, set: func(tl *agentloop.Tool) { tl.Sequential = true }, made: 1},
		"in an order, with some between": {calls: `do {"key":"down"}; do {"key":"enter"}; do {"key":"down"}`, set: func(tl *agentloop.Tool) { tl.Sequential = true }, made: 3},
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int32
			do := tool(t, "do", func(context.Context) (string, error) { return fmt.Sprint("done ", made.Add(1)), nil })
			if do.Effect = c.effect; c.set != nil {
				c.set(&do)
			}
			look := tool(t, "look", result("x"))
			look.Effect = agentloop.EffectNone
			var list []chat.ToolCall
			for i, text := range strings.Split(strings.TrimSuffix(c.calls, "; "), "; ") {
				name, args, _ := strings.Cut(text, " ")
				list = append(list, call(fmt.Sprint("c", i), name, args))
			}
			m := play(calls(list...), says("done"))
			runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{do, look, tool(t, "other", result("x"))}})
			assert.EqualValues(t, c.made, made.Load())
			results := m.last(chat.RoleTool)
			require.Len(t, results, len(list), "each has its result")
			if name == "nine times" {
				assert.Equal(t, "done 1", results[0])
				for _, text := range results[1:] {
					assert.Equal(t, "done 1\n[the same call as c0 of this message, made once]", text)
				}
			}
		})
	}
}

// They count once, for steps and for budgets, in the journal as well.
func TestEqualCallsCountOnce(t *testing.T) {
	d := newDisk(nil)
	p := &program{t, d}
	var ran []string
	twice := calls(call("", "tag", `{"i":1}`), call("", "tag", `{"i":1}`))
	cfg := agentloop.Config{
		Model: play(twice, fails(errWrongKey)), Tools: named(t, agentloop.EffectOnce, &ran, "tag"), MaxToolCalls: 2,
		Progression: agentloop.Progression{{Name: "tag", Tools: []string{"tag"}, Times: 2}},
	}
	first, _ := p.run(cfg)
	assert.Equal(t, agentloop.Failed, first.Outcome)
	assert.Equal(t, 1, first.ToolCalls)
	m := play(calls(call("", "tag", `{"i":2}`)))
	cfg.Model = m
	second, _ := p.run(cfg)
	assert.Equal(t, agentloop.Done, second.Outcome, second.Err)
	assert.Equal(t, transcript(first.Messages), transcript(m.requests()[0].Messages))
	assert.Len(t, ran, 2)
}

// Half a character is no text: servers that know it refuse each request with it.
func TestHalfACharacterDoesNotStayInTheConversation(t *testing.T) {
	for name, c := range map[string]struct{ args, want, text string }{
		"the first half":       {`{"text":"caf\ud83d!"}`, `{"text":"caf\ufffd!"}`, "caf\uFFFD!"},
		"at the end":           {`{"text":"caf\ud83d"}`, `{"text":"caf\ufffd"}`, "caf\uFFFD"},
		"the second half":      {`{"text":"\uDE00!"}`, `{"text":"\ufffd!"}`, "\uFFFD!"},
		"in the wrong order":   {`{"text":"\ude00\ud83d"}`, `{"text":"\ufffd\ufffd"}`, "\uFFFD\uFFFD"},
		"before a whole one":   {`{"text":"\ud83d\ud83d\ude00"}`, `{"text":"\ufffd\ud83d\ude00"}`, "\uFFFD😀"},
		"encoded twice":        {`"{\"text\":\"\\ud83d\"}"`, `{"text":"\ufffd"}`, "\uFFFD"},
		"whole":                {`{"text":"\ud83d\ude00"}`, `{"text":"\ud83d\ude00"}`, "😀"},
		"not escaped":          {`{"text":"😀"}`, `{"text":"😀"}`, "😀"},
		"behind a backslash":   {`{"text":"\\ud83d"}`, `{"text":"\\ud83d"}`, `\ud83d`},
		"behind two":           {`{"text":"\\\ud83d"}`, `{"text":"\\\ufffd"}`, "\\\uFFFD"},
		"of another character": {`{"text":"\u00e9\n"}`, `{"text":"\u00e9\n"}`, "é\n"},
	} {
		t.Run(name, func(t *testing.T) {
			extra := json.RawMessage(c.args)
			given := answer(chat.Message{
				ToolCalls: []chat.ToolCall{{ID: "x", Name: "write", Arguments: c.args}}, Extra: map[string]json.RawMessage{"seen": extra, "n": raw("1")},
			}, chat.FinishToolCalls)
			var got string
			write, err := agentloop.NewTool("write", "", func(_ context.Context, in struct {
				Text string `json:"text"`
			}) (string, error) {
				got = in.Text
				return "ok", nil
			})
			require.NoError(t, err)
			m := play(given, says("done"))
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{write}})
			require.Equal(t, agentloop.Done, res.Outcome)
			assert.Equal(t, c.text, got)
			sent := m.requests()[1].Messages[1]
			assert.Equal(t, c.want, sent.ToolCalls[0].Arguments)
			if name != "encoded twice" {
				assert.Equal(t, c.want, string(sent.Extra["seen"]))
			}
			assert.Equal(t, c.args, string(extra), "the model's own is left alone")
		})
	}
}

// A call that a model writes down is not made, so it is no answer. One that is shown to
// somebody is.
func TestACallWrittenAsTextIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		written bool
	}{
		"as a template has it":        {"<tool_call>\n{\"name\": \"write\", \"arguments\": {\"text\": \"x\"}}\n</tool_call>", true},
		"behind some words":           {"I write it now.\n<tool_call>\n{\"name\": \"write\", \"arguments\": {}}\n</tool_call>", true},
		"not closed":                  {"<tool_call>\n{\"name\": \"write\", \"arguments\": {\"text\": \"x\"}}", true},
		"two of them":                 {"<tool_call>{\"name\":\"look\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"write\",\"arguments\":{}}</tool_call>", true},
		"a function":                  {"<function=write>\n<parameter=text>x</parameter>\n</function>\n</tool_call>", true},
		"an invocation":               {"<invoke name=\"write\"><parameter name=\"text\">x</parameter></invoke>", true},
		"in a block of them":          {"<function_calls>\n<invoke name=\"write\">\n<parameter name=\"text\">x</parameter>\n</invoke>\n</function_calls>", true},
		"with a list":                 {"[TOOL_CALLS][{\"name\": \"write\", \"arguments\": {\"text\": \"x\"}}]", true},
		"with the name before":        {"[TOOL_CALLS]write{\"text\": \"x\"}", true},
		"in special tokens":           {"<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{\"text\":\"x\"}<|tool_call_end|>", true},
		"JSON alone":                  {"{\"name\": \"write\", \"parameters\": {\"text\": \"x\"}}", true},
		"JSON in a block of code":     {"```json\n{\"name\": \"write\", \"arguments\": {\"text\": \"x\"}}\n```", true},
		"JSON behind some words":      {"I write it now:\n\n{\n  \"name\": \"write\",\n  \"arguments\": {\"text\": \"x\"}\n}", true},
		"JSON with real line breaks":  {"{\"name\": \"write\", \"arguments\": {\"text\": \"one\ntwo\"}}", true},
		"JSON, the name last":         {"{\"arguments\": {\"text\": \"x\"}, \"name\": \"write\"}", true},
		"JSON, one behind the other":  {"{\"name\": \"look\", \"arguments\": {}}\n{\"name\": \"write\", \"arguments\": {}}", true},
		"a list of JSON":              {"[{\"name\": \"write\", \"arguments\": {\"text\": \"x\"}}]", true},
		"JSON as servers have it":     {"{\"id\": \"call_1\", \"type\": \"function\", \"function\": {\"name\": \"write\", \"arguments\": \"{}\"}}", true},
		"JSON of other keys":          {"{\"tool\": \"write\", \"args\": {\"text\": \"x\"}}", true},
		"a function of JSON":          {"{\"function\": \"write\", \"parameters\": {\"text\": \"x\"}}", true},
		"an action of JSON":           {"```json\n{\"action\": \"write\", \"action_input\": \"x\"}\n```", true},
		"an action in words":          {"Thought: I have to write.\nAction: write\nAction Input: {\"text\": \"x\"}", true},
		"Python in brackets":          {"[write(text=\"x\")]", true},
		"Python as tool code":         {"```tool_code\nprint(default_api.write(text=\"x\"))\n```", true},
		"in a channel of its own":     {"<|channel|>commentary to=functions.write <|constrain|>json<|message|>{\"text\":\"x\"}", true},
		"a plan of actions":           {"[{\"action\": \"look\", \"input\": \"x\"}, {\"action\": \"write\", \"input\": \"y\"}]", false},
		"a plan, action by action":    {"{\"tool\": \"look\", \"args\": {}}\n{\"tool\": \"write\", \"args\": {}}", false},
		"a plan of one, with words":   {"The plan is:\n{\"tool\": \"write\", \"args\": {}}", false},
		"an action that was over":     {"Action: write\nAction Input: x\nObservation: ok\nFinal Answer: It is written.", false},
		"Python in a block of code":   {"```python\nwrite(text=\"x\")\n```", false},
		"Python in a sentence":        {"write(text) is what it is called.", false},
		"JSON in a block, with words": {"A call looks so:\n```json\n{\"name\": \"write\", \"arguments\": {}}\n```", false},
		"JSON with prose behind it":   {"{\"name\": \"write\", \"arguments\": {}}\nis how one writes.", false},
		"a list of other JSON":        {"[{\"name\": \"write\", \"size\": 3}]", false},
		"a list with a tool's name":   {"[write]", false},
		"of a tool that there is not": {"<tool_call>\n{\"name\": \"delete\", \"arguments\": {}}\n</tool_call>", false},
		"in a block of code":          {"A call looks so:\n```\n<tool_call>{\"name\": \"write\", \"arguments\": {}}</tool_call>\n```", false},
		"in an open block":            {"A call looks so:\n```xml\n<invoke name=\"write\"></invoke>", false},
		"in a span of code":           {"It ends with `<tool_call>{\"name\": \"write\", \"arguments\": {}}</tool_call>`", false},
		"with prose behind it":        {"<invoke name=\"write\"></invoke>\nis how one writes, and this is an article about it.", false},
		"only its mark":               {"The model opens with <tool_call> and then names the tool, as in \"name\": \"write\".", false},
		"other JSON":                  {"{\"name\": \"write\", \"size\": 3}", false},
		"JSON of another name":        {"{\"name\": \"Ada\", \"arguments\": {}}", false},
		"words":                       {"I have used write, and the function was called.", false},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			write := tool(t, "write", func(context.Context) (string, error) { made++; return "ok", nil })
			cfg := agentloop.Config{Tools: []agentloop.Tool{write, tool(t, "look", result("x"))}}
			m := play(says(c.text), calls(call("", "write", `{"text":"x"}`)), says("Written."))
			cfg.Model = m
			res := runOne(t, cfg)
			require.Equal(t, agentloop.Done, res.Outcome, res.Err)
			if !c.written {
				assert.Equal(t, c.text, res.Text)
				assert.Zero(t, res.Nudges)
				return
			}
			assert.Equal(t, "Written.", res.Text)
			assert.Equal(t, 1, made)
			assert.Contains(t, m.requests()[1].Messages[2].Content, "written as text, which is not run. Make the call as a tool call.")

			cfg.Model = play(says(c.text)) // for ever: it is told so, and ended
			res = runOne(t, cfg)
			assert.Equal(t, agentloop.Stalled, res.Outcome)
			assert.ErrorIs(t, res.Err, agentloop.ErrNoCall)
			assert.Equal(t, 3, res.Rounds)

			// Behind the last step a text is what the agent has to say.
			cfg.Model = play(calls(call("", "write", `{}`)), says(c.text))
			cfg.Progression = agentloop.Progression{{Name: "write", Tools: []string{"write"}}, {Name: "look", Tools: []string{"look"}, Optional: true}}
			res = runOne(t, cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Equal(t, c.text, res.Text)
		})
	}
}
