package agentloop

import (
	"fmt"
	"regexp"
	"strings"
)

// A textCallError is an answer that calls a tool in its text: the model wrote its
// template's markup for a call, or something like it, and the server took it for
// text. It matches [ErrNoCall].
type textCallError struct{ tool string }

func (e *textCallError) Error() string {
	return fmt.Sprintf("%v: %s is called in the text", ErrNoCall, e.tool)
}

// Is reports whether target is ErrNoCall.
func (e *textCallError) Is(target error) bool { return target == ErrNoCall }

var (
	// code matches code in Markdown: spans, and fenced blocks, of which the last may
	// lack its end.
	code = regexp.MustCompile("(?s)(?m:^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\\z))|`[^`\n]*`")
	// opening matches the beginning of a call in the templates of models. The name of
	// the tool is inside of it or follows.
	opening = regexp.MustCompile(`<(?:tool_call|function_call|invoke|function|tool_use)\b[^>\n]*>|` +
		`<\|channel\|>\w+ to=[a-zA-Z0-9_.-]+|` +
		`<\|(?:tool_call|python_tag|tool_calls_section_begin|tool_call_begin)\|?>|<｜tool▁call▁begin｜>|\[TOOL_CALLS?\]`)
	// named matches the name of the tool: name="write", =write, "name": "write",
	// functions.write, to=write.
	named = regexp.MustCompile(`(?:\bname\\?["']?\s*[=:]\s*\\?["']|<function=|\bto=(?:functions\.)?|\bfunctions\.|\A\s*)([a-zA-Z0-9_-]{1,64})`)
	// begun matches the text after an opening without the name of the tool.
	begun = regexp.MustCompile(`\A\s*(?:[{\[<]|functions\.|[a-zA-Z0-9_-]{1,64}\s*[{(<])`)
	// closing matches the text that may follow a call.
	closing = regexp.MustCompile(`(?:</[a-z_:]+>|<\|[a-z_]+\|?>|<｜[^｜>]*｜>|\[/TOOL_CALLS?\]|\s)+\z`)
)

// textCall returns the tool that a text calls, or "". The agent has that tool, the
// call ends the text, and it is not in a code block: an article about such markup is
// no call.
func (r *run) textCall(text string) string {
	if name := r.unmarkedTextCall(text); name != "" {
		return name
	}
	if !opening.MatchString(text) { // as nearly all
		return ""
	}
	text = code.ReplaceAllString(text, "`")
	at := opening.FindAllStringIndex(text, -1)
	if len(at) == 0 {
		return ""
	}
	// The last call must reach to the end of the text: with prose after it, it is an
	// example. A call without a closing tag does reach there.
	last := text[at[len(at)-1][0]:]
	if i := strings.LastIndex(last, "</"); i >= 0 && !closing.MatchString(last[i:]) {
		return ""
	}
	for _, x := range at {
		mark, rest := text[x[0]:x[1]], text[x[1]:min(x[1]+nearby, len(text))]
		if !begun.MatchString(rest) {
			rest = ""
		}
		for _, part := range []string{mark, rest} {
			for _, m := range named.FindAllStringSubmatch(part, -1) {
				if r.agent.tools[m[1]] != nil {
					return m[1]
				}
			}
		}
	}
	return ""
}

// nearby is the distance in bytes from an opening within which a call names its tool.
const nearby = 300
