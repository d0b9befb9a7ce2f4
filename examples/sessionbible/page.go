package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// A page is a saved article.
type page struct {
	Article article
	Session *session
	Title   string
	Body    string // Markdown as the agent wrote it
	Model   string
	Saved   time.Time
}

// nav holds the neighbours of a page, nil where there is none.
type nav struct{ prev, next *page }

// newPage makes a page of what an agent wrote. The title is the text's first
// heading, or else the article's subject.
func newPage(s *session, a article, body, model string, now time.Time) *page {
	body = unlinkRelative(strings.TrimSpace(clean(body)))
	return &page{
		Article: a, Session: s, Model: model, Saved: now.UTC(),
		Title: firstOf(heading(body), a.Subject), Body: body,
	}
}

// file returns the page's name in the folder of articles: its number, so that names
// are unique and sort, and the safe characters of its title.
func (p *page) file() string {
	return fmt.Sprintf("%03d-%s.md", p.Article.Number, slug(p.Title))
}

// render returns the page with front matter above and links below. The front
// matter is YAML whose strings are JSON strings, which YAML includes: no title
// can break out.
func (p *page) render(links nav) []byte {
	var b strings.Builder
	field := func(name string, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			fmt.Fprintf(&b, "%s: %s\n", name, text)
		}
	}
	b.WriteString("---\n")
	field("title", p.Title)
	field("number", p.Article.Number)
	field("session", p.Session.ID)
	field("session_title", p.Session.Title)
	var list []int
	for i := p.Article.First; i <= p.Article.Last; i++ {
		list = append(list, i)
	}
	field("messages", list)
	if date := p.Session.Messages[p.Article.First].Created; !date.IsZero() {
		field("date", date.Format(time.RFC3339))
	}
	field("author", p.Article.name())
	field("model", p.Model)
	field("saved", p.Saved.Format(time.RFC3339))
	b.WriteString("---\n\n")
	if heading(p.Body) == "" {
		fmt.Fprintf(&b, "# %s\n\n", escape(p.Title))
	}
	b.WriteString(p.Body)
	b.WriteString("\n\n---\n\n")
	if links.prev != nil {
		fmt.Fprintf(&b, "[← %s](%s) · ", escape(links.prev.Title), links.prev.file())
	}
	fmt.Fprintf(&b, "[Index](../%s)", indexFile)
	if links.next != nil {
		fmt.Fprintf(&b, " · [%s →](%s)", escape(links.next.Title), links.next.file())
	}
	b.WriteString("\n")
	return []byte(b.String())
}

// heading returns the text of the first line if it is a heading of the first
// or second level.
func heading(body string) string {
	line, _, _ := strings.Cut(body, "\n")
	text, ok := strings.CutPrefix(line, "# ")
	if !ok {
		text, ok = strings.CutPrefix(line, "## ")
	}
	if !ok {
		return ""
	}
	return oneLine(unlink(clean(strings.TrimRight(text, "# "))), 120)
}

// slug returns the ASCII letters and digits of a title, in lower case and with
// hyphens between words: at most 60 bytes, and never empty.
func slug(title string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(title) {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		if b.WriteRune(r); b.Len() >= 59 {
			break // a hyphen and a letter more could be one too many
		}
	}
	return firstOf(b.String(), "article")
}

// escape keeps Markdown from reading anything into a text used in a link or a
// heading.
func escape(s string) string {
	var b strings.Builder
	for _, r := range oneLine(s, 200) {
		if strings.ContainsRune("\\`*_[]<>&#|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// mdLink matches a link or an image: its text and its target.
var mdLink = regexp.MustCompile(`!?\[([^\[\]]*)\]\(\s*<?([^\s()<>]*)>?[^()]*\)`)

// unlink replaces links by their text.
func unlink(s string) string { return mdLink.ReplaceAllString(s, "$1") }

// unlinkRelative does so for links to files beside the text: quotes of an agent point
// into a project that is not in the book. Code stays as it is.
func unlinkRelative(body string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(body) {
		text := strings.TrimLeft(line, " >\t")
		switch {
		case fence != "" && strings.HasPrefix(text, fence):
			fence = ""
		case fence == "" && (strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~")):
			fence = text[:3]
		case fence == "":
			line = mdLink.ReplaceAllStringFunc(line, func(link string) string {
				m := mdLink.FindStringSubmatch(link)
				if strings.Contains(m[2], ":") || strings.HasPrefix(m[2], "#") {
					return link
				}
				return m[1]
			})
		}
		b.WriteString(line)
	}
	return b.String()
}
