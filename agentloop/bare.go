package agentloop

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Models that do not know the template of their server write calls as they have seen
// them elsewhere, without a mark: as JSON, in Python, or as the first agents did.

var (
	// fence is a text that is one block of code: its language, and what is in it.
	fence = regexp.MustCompile("(?s)\\A```([a-zA-Z_]*)[ \t]*\n(.*?)\n?[ \t]*```\\z")
	// jsonCall is the head of a call in JSON. What follows need not be JSON: line
	// breaks within strings are common in it.
	jsonCall = regexp.MustCompile(`(?m)^[ \t]*\[?\s*\{\s*(?:"(?:id|type)"\s*:\s*"[^"\n]*"\s*,\s*)*(?:"function"\s*:\s*\{\s*)?` +
		`"(?:name|function|function_name)"\s*:\s*"([a-zA-Z0-9_-]{1,64})"\s*,\s*"(?:arguments|parameters)"\s*:`)
	// jsonAction is one in the words of some agents. Several of them may as well be a
	// plan that somebody has asked for.
	jsonAction = regexp.MustCompile(`\{\s*"(?:tool|tool_name|action)"\s*:\s*"([a-zA-Z0-9_-]{1,64})"\s*,\s*` +
		`"(?:arguments|parameters|args|input|tool_input|action_input)"\s*:`)
	// pythonCall is a call in Python.
	pythonCall = regexp.MustCompile(`(?s)\A\[?\s*(?:print\()?(?:default_api\.|functions\.)?([a-zA-Z0-9_]{1,64})\(.*\)\s*\]?\z`)
	// action is one of those that think, act and observe in words.
	action = regexp.MustCompile("(?m)^Action:[ \t]*`?([a-zA-Z0-9_-]{1,64})`?[ \t]*\n+Action Input:")
)

// bareCall returns the tool that a text calls without a mark, or "". The call ends the
// text, or, in a block of code, is all of it: a block beside words is an example.
func (r *run) bareCall(text string) string {
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

// nameIn returns the name in a call that is all of a text, in whatever order its
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
