package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// maxSubject bounds an article's subject, in bytes.
const maxSubject = 80

// An article is the plan of one article: the messages First to Last of the
// session, both included.
type article struct {
	Number      int // from 1, its place in the book
	First, Last int
	Subject     string // what the messages are about, in one line
}

// name returns the name of the agent that writes the article, and of its
// draft.
func (a article) name() string { return fmt.Sprintf("article-%03d", a.Number) }

// messages names the article's messages in prose.
func (a article) messages() string {
	if a.First == a.Last {
		return fmt.Sprintf("message %d", a.First)
	}
	return fmt.Sprintf("messages %d to %d", a.First, a.Last)
}

// planArticles spreads the session over articles: each message belongs to
// exactly one. By default each message worth an article gets one, and takes
// in those beside it that are not: a user's short word goes with the answer to
// it, an answer that came to nothing with the question. If want is smaller
// (and not 0), the lightest neighbours are joined until it is met. There may
// be fewer articles than wanted, and none in a session that says nothing.
func planArticles(s *session, want int) []article {
	plan := joinUnworthy(s)
	weights := make([]int, len(plan))
	for i, a := range plan {
		weights[i] = weigh(s, a)
	}
	for want > 0 && len(plan) > want {
		at, best := 0, 0
		for i := 1; i < len(plan); i++ {
			cost := weights[i-1] + weights[i]
			if s.Messages[plan[i].First].Role == "user" {
				cost *= 2 // a turn begins here: a good place for a border
			}
			if at == 0 || cost < best {
				at, best = i, cost
			}
		}
		plan[at-1].Last = plan[at].Last
		weights[at-1] += weights[at]
		plan = append(plan[:at], plan[at+1:]...)
		weights = append(weights[:at], weights[at+1:]...)
	}
	for i := range plan {
		plan[i].Number = i + 1
		plan[i].Subject = subject(s, plan[i])
	}
	return plan
}

// joinUnworthy returns one article for each message worth one.
func joinUnworthy(s *session) []article {
	var plan []article
	next := 0 // the first message that belongs to no article yet
	for i := range s.Messages {
		m := &s.Messages[i]
		switch {
		case m.worthy():
			plan = append(plan, article{First: next, Last: i})
			next = i + 1
		case m.Role != "user" && next == i && len(plan) > 0:
			plan[len(plan)-1].Last = i
			next = i + 1
		}
	}
	if len(plan) > 0 {
		plan[len(plan)-1].Last = len(s.Messages) - 1
	}
	return plan
}

// weigh guesses how much there is to say: a large message is no more work than
// a long one, since agents read it in parts and quote a little.
func weigh(s *session, a article) int {
	w := 0
	for i := a.First; i <= a.Last; i++ {
		w += 400 + min(len(s.Messages[i].text()), 2*pageSize)
	}
	return w
}

// worthy reports whether there is enough in the message for an article of its
// own: some words of the user, or anything the model said or did.
func (m *message) worthy() bool {
	for _, p := range m.Parts {
		switch p.Kind {
		case partTool, partFile, partInjected:
			return true
		case partText, partReasoning:
			if m.Role != "user" || words(p.Text) >= 4 {
				return true
			}
		}
	}
	return false
}

// words counts words, and in scripts that set none apart, their signs.
func words(s string) int {
	n := len(strings.Fields(s))
	for _, r := range s {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			n++
		}
	}
	return n
}

// subject says in a line what the messages are about: the user's words if
// there are some, else the model's, else its thoughts, else the tools used.
func subject(s *session, a article) string {
	var said, thought string
	var tools []string
	for i := a.First; i <= a.Last; i++ {
		m := &s.Messages[i]
		for _, p := range m.Parts {
			switch {
			case p.Kind == partText && m.Role == "user" && words(p.Text) >= 4:
				return oneLine(p.Text, maxSubject)
			case p.Kind == partText && m.Role != "user" && said == "":
				said = p.Text
			case p.Kind == partReasoning && thought == "":
				thought = strings.Trim(p.Text, "*# \n")
			case p.Kind == partTool && !slices.Contains(tools, p.Tool):
				tools = append(tools, p.Tool)
			}
		}
	}
	if text := firstOf(said, thought); text != "" {
		return oneLine(text, maxSubject)
	}
	if len(tools) > 0 {
		return oneLine("Tools used: "+strings.Join(tools, ", "), maxSubject)
	}
	return oneLine("What happened in "+a.messages(), maxSubject)
}

// oneLine returns the first line that says something, cut to at most limit
// bytes at a word's end where there is one.
func oneLine(s string, limit int) string {
	for line := range strings.Lines(s) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			return cut(line, limit)
		}
	}
	return ""
}

// cut shortens s to at most limit bytes, dots included, between two runes.
func cut(s string, limit int) string {
	const dots = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(dots)
	for end > 0 && !isStart(s[end]) {
		end--
	}
	if space := strings.LastIndexByte(s[:end], ' '); space > end/2 {
		end = space
	}
	return strings.TrimRight(s[:end], " ,;:.") + dots
}

// isStart reports whether b begins a rune.
func isStart(b byte) bool { return b&0xC0 != 0x80 }
