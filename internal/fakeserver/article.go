package fakeserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// The bounds of what an article quotes, in characters.
const (
	maxTitle    = 72
	maxSentence = 200
	maxQuote    = 280
)

// A source is a message as an article sees it: all its pages that were read.
type source struct {
	index     int
	role      string
	words     int
	sentences []string
	tools     []string
}

// sources gathers the pages read by message.
func sources(readings []reading) []source {
	var out []source
	for _, r := range readings {
		if len(out) == 0 || out[len(out)-1].index != r.Index {
			out = append(out, source{index: r.Index, role: cmp.Or(r.Role, "unknown")})
		}
		s := &out[len(out)-1]
		s.words += len(strings.Fields(r.Text))
		s.sentences = append(s.sentences, sentences(r.Text)...)
		for _, t := range r.Tools {
			if !slices.Contains(s.tools, t) {
				s.tools = append(s.tools, t)
			}
		}
	}
	return out
}

// writeArticle returns the main part of an article: a title, a summary and
// quotes, all made from what was read.
func writeArticle(readings []reading) string {
	all := sources(readings)
	topics := topics(all)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", title(all))
	if len(all) == 0 {
		b.WriteString("There was nothing to read.\n")
		return b.String()
	}
	b.WriteString("## Summary\n\n")
	for _, s := range all {
		fmt.Fprintf(&b, "In message %d the %s %s\n", s.index, s.role, s.gist())
	}
	if len(topics) > 0 {
		fmt.Fprintf(&b, "\nIt turns on **%s**.\n", strings.Join(topics, "**, **"))
	}
	quoted := false
	for _, s := range all {
		q := s.telling(topics)
		if q == "" {
			continue
		}
		if !quoted {
			b.WriteString("\n## In their words\n")
			quoted = true
		}
		fmt.Fprintf(&b, "\n> %s\n>\n> — message %d, %s\n", clip(q, maxQuote), s.index, s.role)
	}
	return b.String()
}

// writeNotes returns what an author adds: one line per message.
func writeNotes(readings []reading) string {
	var b strings.Builder
	b.WriteString("\n## Message by message\n\n")
	for _, s := range sources(readings) {
		fmt.Fprintf(&b, "- **%d** (%s, %d words)", s.index, s.role, s.words)
		if len(s.tools) > 0 {
			fmt.Fprintf(&b, ", tools: %s", strings.Join(s.tools, ", "))
		}
		if len(s.sentences) > 0 {
			fmt.Fprintf(&b, ": %s", clip(s.sentences[len(s.sentences)-1], maxSentence))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// title is the first sentence that says something, else what was read.
func title(all []source) string {
	for _, s := range all {
		for _, line := range s.sentences {
			if len(strings.Fields(line)) > 1 {
				return strings.TrimRight(clip(line, maxTitle), ".:;,!")
			}
		}
	}
	switch len(all) {
	case 0:
		return "An empty page"
	case 1:
		return fmt.Sprintf("Message %d", all[0].index)
	}
	return fmt.Sprintf("Messages %d to %d", all[0].index, all[len(all)-1].index)
}

// gist ends a sentence about the message.
func (s source) gist() string {
	if len(s.sentences) == 0 {
		if len(s.tools) > 0 {
			return "says nothing and uses " + strings.Join(s.tools, ", ") + "."
		}
		return "says nothing."
	}
	first := clip(s.sentences[0], maxSentence)
	verb := "says"
	switch {
	case strings.HasSuffix(first, "?"):
		verb = "asks"
	case s.role == "assistant":
		verb = "reports"
	}
	return fmt.Sprintf("%s: %s", verb, first)
}

// telling returns the sentence in which most topics occur. Of several the
// first one wins.
func (s source) telling(topics []string) string {
	best, score := "", -1
	for _, line := range s.sentences {
		n := 0
		lower := strings.ToLower(line)
		for _, t := range topics {
			if strings.Contains(lower, t) {
				n++
			}
		}
		if n > score {
			best, score = line, n
		}
	}
	return best
}

// topics returns the words that occur most, from most to least.
func topics(all []source) []string {
	const most, shortest = 4, 5
	count := make(map[string]int)
	for _, s := range all {
		for _, line := range s.sentences {
			for _, w := range strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) }) {
				if len([]rune(w)) >= shortest && !common[w] {
					count[w]++
				}
			}
		}
	}
	words := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(a, b))
	})
	return words[:min(len(words), most)]
}

// common are long words that say nothing about a topic.
var common = map[string]bool{
	"about": true, "after": true, "again": true, "already": true, "because": true, "before": true, "being": true,
	"could": true, "every": true, "first": true, "going": true, "other": true, "should": true, "since": true,
	"still": true, "their": true, "there": true, "these": true, "thing": true, "think": true, "those": true,
	"through": true, "under": true, "until": true, "where": true, "which": true, "while": true, "without": true,
	"would": true, "https": true,
}

// sentences cuts a text into sentences on one line each. Code, tables and
// tags are left out: cut up, they say nothing.
func sentences(text string) []string {
	var out []string
	fenced := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
			continue
		}
		tag := strings.HasPrefix(line, "<") && strings.HasSuffix(line, ">")
		if fenced || tag || strings.HasPrefix(line, "|") {
			continue
		}
		line = plainText(strings.TrimLeft(line, "#>*-+ \t"))
		for line != "" {
			cut := len(line)
			for i := 0; i+1 < len(line); i++ {
				if strings.IndexByte(".!?", line[i]) >= 0 && line[i+1] == ' ' && i > 24 {
					cut = i + 1
					break
				}
			}
			if s := strings.TrimSpace(line[:cut]); strings.ContainsFunc(s, unicode.IsLetter) {
				out = append(out, s)
			}
			line = strings.TrimSpace(line[cut:])
		}
	}
	return out
}

// plainText takes from a line what would be markup once it is quoted: space
// in a row, tags, emphasis, links and control characters.
func plainText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == unicode.ReplacementChar:
			return ' '
		case strings.ContainsRune("*`[]|\\", r):
			return -1
		case r == '<':
			return '‹'
		case r == '>':
			return '›'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// clip cuts a text to at most n characters, at a word if there is one near.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	s = string(r[:n-1])
	if i := strings.LastIndexByte(s, ' '); i > len(s)/2 {
		s = s[:i]
	}
	return strings.TrimRight(s, " ,;:") + "…"
}
