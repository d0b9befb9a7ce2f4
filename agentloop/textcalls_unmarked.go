package agentloop

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Models that do not know their server's template write calls in forms that they have
// seen elsewhere, without a mark: JSON, Python, or the "Action:" of the first agents.

var (
	// fence matches a text that is one block of code: its language, and its content.
	fence = regexp.MustCompile("(?s)\\A```([a-zA-Z_]*)[ \t]*\n(.*?)\n?[ \t]*```\\z")
	// jsonCall matches the head of a call in JSON. The rest need not be valid JSON: line
	// breaks within strings are common.
	jsonCall = regexp.MustCompile(`(?m)^[ \t]*\[?\s*\{\s*(?:"(?:id|type)"\s*:\s*"[^"\n]*"\s*,\s*)*(?:"function"\s*:\s*\{\s*)?` +
		`"(?:name|function|function_name)"\s*:\s*"([a-zA-Z0-9_-]{1,64})"\s*,\s*"(?:arguments|parameters)"\s*:`)
	// jsonAction matches a call in JSON as some agents write it. Several of them in one
	// text may be a plan that was asked for.
	jsonAction = regexp.MustCompile(`\{\s*"(?:tool|tool_name|action)"\s*:\s*"([a-zA-Z0-9_-]{1,64})"\s*,\s*` +
		`"(?:arguments|parameters|args|input|tool_input|action_input)"\s*:`)
	// pythonCall matches a call in Python.
	pythonCall = regexp.MustCompile(`(?s)\A\[?\s*(?:print\()?(?:default_api\.|functions\.)?([a-zA-Z0-9_]{1,64})\(.*\)\s*\]?\z`)
	// action matches a call of the agents that write "Thought", "Action" and
	// "Observation".
	action = regexp.MustCompile("(?m)^Action:[ \t]*`?([a-zA-Z0-9_-]{1,64})`?[ \t]*\n+Action Input:")
)

// unmarkedTextCall returns the tool that a text calls without a mark, or "". The call
// ends the text. If it is in a block of code, the block is the whole text: a block
// beside words is an example.
func (r *run) unmarkedTextCall(text string) string {
	if text == "" {
		return ""
	}
	python := text[0] == '['
	if block := fence.FindStringSubmatch(text); block != nil {
		python = strings.HasPrefix(block[1], "tool_")
		text = strings.TrimSpace(block[2])
	} else if strings.Contains(text, "```") {
		text = code.ReplaceAllString(text, "`")
	}
	var found []string
	if strings.HasSuffix(text, "}") || strings.HasSuffix(text, "]") {
		found = append(found, nameIn(text))
		for _, m := range jsonCall.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		if all := jsonAction.FindAllStringSubmatchIndex(text, -1); len(all) == 1 && all[0][0] == 0 {
			found = append(found, text[all[0][2]:all[0][3]])
		}
	}
	if python {
		if m := pythonCall.FindStringSubmatch(text); m != nil {
			found = append(found, m[1])
		}
	}
	if i := strings.LastIndex(text, "Action:"); i >= 0 && !strings.Contains(text[i:], "Final Answer:") {
		if m := action.FindStringSubmatch(text[i:]); m != nil {
			found = append(found, m[1])
		}
	}
	for _, name := range found {
		if r.agent.tools[name] != nil {
			return name
		}
	}
	return ""
}

// nameIn returns the name in a call that is the whole text, in whatever order its
// fields are, or "".
func nameIn(text string) string {
	var c struct {
		Name       string
		Arguments  json.RawMessage
		Parameters json.RawMessage
	}
	if text[0] != '{' || json.Unmarshal([]byte(text), &c) != nil || len(c.Arguments)+len(c.Parameters) == 0 {
		return ""
	}
	return c.Name
}
