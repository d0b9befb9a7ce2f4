package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// An entry is one article of the plan and its outcome.
type entry struct {
	Article article
	Page    *page  // nil if it was not saved
	Outcome string // how its agent ended
	Draft   string // the draft's path inside the book, or ""
}

// bind gives every saved page its links and writes the index. Until then each page
// links only to the index, since its neighbours may never be saved. When ctx ends,
// the remaining pages stay as they are; the index is written in any case.
func (b *book) bind(ctx context.Context, s *session, entries []entry) error {
	var pages []*page
	for _, e := range entries {
		if e.Page != nil {
			pages = append(pages, e.Page)
		}
	}
	var errs []error
	for i, p := range pages {
		if ctx.Err() != nil {
			break
		}
		var links nav
		if i > 0 {
			links.prev = pages[i-1]
		}
		if i+1 < len(pages) {
			links.next = pages[i+1]
		}
		if _, err := b.save(p, links); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, writeFile(b.root, indexFile, renderIndex(s, entries)))
	return errors.Join(errs...)
}

func renderIndex(s *session, entries []entry) []byte {
	var b strings.Builder
	field := func(name string, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			fmt.Fprintf(&b, "%s: %s\n", name, text)
		}
	}
	saved := 0
	for _, e := range entries {
		if e.Page != nil {
			saved++
		}
	}
	b.WriteString("---\n")
	field("title", s.Title)
	field("session", s.ID)
	if !s.Created.IsZero() {
		field("date", s.Created.Format(time.RFC3339))
	}
	field("messages", len(s.Messages))
	field("articles", saved)
	fmt.Fprintf(&b, "---\n\n# %s\n\n", escape(s.Title))
	fmt.Fprintf(&b, "%d of %d articles on the %d messages of a recorded session.\n", saved, len(entries), len(s.Messages))
	if saved > 0 {
		b.WriteString("\n## Articles\n\n")
	}
	for _, e := range entries {
		if e.Page != nil {
			fmt.Fprintf(&b, "%d. [%s](%s/%s) (%s)\n", e.Article.Number, escape(e.Page.Title),
				articlesDir, e.Page.file(), e.Article.messages())
		}
	}
	if saved < len(entries) {
		b.WriteString("\n## Not written\n\n")
	}
	for _, e := range entries {
		if e.Page != nil {
			continue
		}
		fmt.Fprintf(&b, "- %s (%s): %s", escape(e.Article.Subject), e.Article.messages(), e.Outcome)
		if e.Draft != "" {
			fmt.Fprintf(&b, ", [draft](%s)", e.Draft)
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
