package agentloop

import (
	"regexp"
	"strings"
	"unicode"
)

// Texts that say nothing, though they are not empty.

// blank reports whether a text has nothing visible in it: only space and invisible
// characters, such as a zero width space. Servers take such a text for empty.
func blank(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return !unicode.IsSpace(c) && !unicode.IsControl(c) && !unicode.Is(unicode.Cf, c)
	})
}

// mark matches what templates of models put around messages and servers sometimes let
// through: <|im_end|>, </s>, <end_of_turn>, <｜end▁of▁sentence｜>.
var mark = regexp.MustCompile(`<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>|\[/?INST\]`)

// maxMarks bounds the length of a text that consists of marks alone.
const maxMarks = 200

// wordless reports whether a text is blank apart from such marks.
func wordless(text string) bool {
	return blank(text) || len(text) <= maxMarks && blank(mark.ReplaceAllString(text, ""))
}

// thoughts are the tags that models think in.
var thoughts = [...]struct{ begin, end string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"<thought>", "</thought>"},
	{"<reasoning>", "</reasoning>"},
	{"<seed:think>", "</seed:think>"},
	{"[THINK]", "[/THINK]"},
	{"◁think▷", "◁/think▷"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
}

// thoughtOnly reports whether a text is nothing but reasoning that the server left in
// the place of the answer: in tags; up to the closing tag, where the template has
// opened it; or in a channel of its own.
func thoughtOnly(text string) bool {
	for _, tag := range thoughts {
		if strings.HasSuffix(text, tag.end) && !strings.Contains(text, tag.begin) {
			return true
		}
	}
	const start, channel = "<|start|>assistant", "<|channel|>"
	if first := strings.Index(text, channel); first >= 0 && wordless(strings.TrimPrefix(text[:first], start)) {
		return strings.HasPrefix(text[strings.LastIndex(text, channel)+len(channel):], "analysis")
	}
	return tagged(text)
}

// tagged reports whether a text is nothing but reasoning in tags. The last tag may be
// open.
func tagged(text string) bool {
	rest := behindThoughts(text)
	return rest != text && wordless(rest)
}

// behindThoughts returns what stands behind the thoughts in tags that a text begins with.
func behindThoughts(text string) string {
	for _, tag := range thoughts {
		if rest, some := strings.CutPrefix(text, tag.begin); some {
			_, rest, _ = strings.Cut(rest, tag.end)
			return behindThoughts(strings.TrimSpace(rest))
		}
	}
	return text
}
