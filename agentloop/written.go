package agentloop

import (
	"fmt"
	"regexp"
	"strings"
)

// A writtenCallError is an answer in which a tool is called in words: the model wrote
// its template's markup for a call, or something like it, and the server took it for
// text. It matches [ErrNoCall].
type writtenCallError struct{ tool string }

func (e *writtenCallError) Error() string {
	return fmt.Sprintf("%v: %s is called in the text", ErrNoCall, e.tool)
}

// Is reports whether target is ErrNoCall.
func (e *writtenCallError) Is(target error) bool { return target == ErrNoCall }

var (
	// code is what Markdown shows as it is: fenced blocks, the last of which may be
	// open, and spans.
	code = regexp.MustCompile("(?s)(?m:^[ \t]*```.*?(?:^[ \t]*```[ \t]*$|\\z))|`[^`\n]*`")
	// opening is how calls begin in the templates of models; what names the tool
	// follows, within the mark or behind it.
	opening = regexp.MustCompile(`<(?:tool_call|function_call|invoke|function|tool_use)\b[^>\n]*>|` +
		`<\|channel\|>\w+ to=[a-zA-Z0-9_.-]+|` +
		`<\|(?:tool_call|python_tag|tool_calls_section_begin|tool_call_begin)\|?>|<｜tool▁call▁begin｜>|\[TOOL_CALLS?\]`)
	// named is where the name is: name="write", =write, "name": "write", functions.write,
	// to=write.
	named = regexp.MustCompile(`(?:\bname\\?["']?\s*[=:]\s*\\?["']|<function=|\bto=(?:functions\.)?|\bfunctions\.|\A\s*)([a-zA-Z0-9_-]{1,64})`)
	// begun is what stands behind an opening that does not name the tool itself.
	begun = regexp.MustCompile(`\A\s*(?:[{\[<]|functions\.|[a-zA-Z0-9_-]{1,64}\s*[{(<])`)
	// closing is what may stand behind a call.
	closing = regexp.MustCompile(`(?:</[a-z_:]+>|<\|[a-z_]+\|?>|<｜[^｜>]*｜>|\[/TOOL_CALLS?\]|\s)+\z`)
)

// writtenCall returns the tool that a text calls in words, or "". It is one that the
// agent has, its call ends the text, and it is not shown as code is: an article about
// such markup is none.
func (r *run) writtenCall(text string) string {
	if name := r.bareCall(text); name != "" {
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
	// The last one is to go on to the end of the text: prose behind it makes an example
	// of it. What is not closed does so.
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

// nearby is within how many bytes of its opening a call names its tool.
const nearby = 300
