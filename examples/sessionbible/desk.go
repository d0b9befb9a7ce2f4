package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

const (
	// pageSize bounds, in bytes, how much of a message one read gives.
	pageSize = 8000
	// maxArticle bounds an article, in bytes.
	maxArticle = 256 << 10
)

// A desk is where one agent works: it reads messages there and writes its article.
// The text is in memory and, from the first word on, as a draft on disk, so that
// nothing is lost however the agent ends. Its methods are the agent's tools; they are
// safe for concurrent use.
type desk struct {
	book    *book
	session *session
	article article
	model   string

	disk sync.Mutex // one write at a time; held while writing, never with mu

	mu     sync.Mutex
	text   string
	closed bool   // saved, or being saved: no more changes
	draft  string // path of the draft on disk, "" if there is none
	dirty  bool   // the draft on disk is not what text is
	failed error  // why not, if it was tried
	page   *page  // nil until saved
	saved  string // path of the saved article
}

// readArgs, textArgs and noArgs are the arguments of the tools.
type (
	readArgs struct {
		Index int `json:"index" jsonschema:"number of the message, from 0"`
		Page  int `json:"page,omitempty" jsonschema:"part of a long message, from 1; 1 if left out"`
	}
	textArgs struct {
		Text string `json:"text" jsonschema:"Markdown"`
	}
	noArgs struct{}
)

// A reading is the result of read_message.
type reading struct {
	Index   int    `json:"index"`
	InRange bool   `json:"in_range"` // it is one of the article's own messages
	Role    string `json:"role,omitempty"`
	Date    string `json:"date,omitempty"`
	Page    int    `json:"page,omitempty"`
	Pages   int    `json:"pages,omitempty"`
	Text    string `json:"text,omitempty"`
	Note    string `json:"note,omitempty"`
}

// readMessage returns a message, or the requested page of it. Messages outside of the
// article's own are background, with in_range false.
func (d *desk) readMessage(_ context.Context, in readArgs) (reading, error) {
	all := d.session.Messages
	r := reading{Index: in.Index, InRange: in.Index >= d.article.First && in.Index <= d.article.Last}
	if in.Index < 0 || in.Index >= len(all) { // an error, or the step would be taken with nothing read
		return reading{}, fmt.Errorf("there is no message %d, the session has 0 to %d; your article is on %s",
			in.Index, len(all)-1, d.article.messages())
	}
	m := &all[in.Index]
	parts := paginate(m.text(), pageSize)
	r.Page, r.Pages = max(in.Page, 1), len(parts)
	if r.Page > r.Pages {
		return reading{}, fmt.Errorf("message %d has pages 1 to %d, not %d", in.Index, r.Pages, r.Page)
	}
	r.Role, r.Text = m.Role, parts[r.Page-1]
	if !m.Created.IsZero() {
		r.Date = m.Created.Format(time.RFC3339)
	}
	switch {
	case !r.InRange:
		r.Note = "background only: your article is on " + d.article.messages()
	case r.Text == "":
		r.Note = "this message is empty"
	}
	return r, nil
}

// paginate cuts text into parts of at most size bytes: at ends of lines if possible,
// and always between runes. There is at least one part.
func paginate(text string, size int) []string {
	var parts []string
	for len(text) > size {
		end := size
		for end > 1 && !isStart(text[end]) {
			end--
		}
		if line := strings.LastIndexByte(text[:end], '\n'); line > end/2 {
			end = line + 1
		}
		parts = append(parts, text[:end])
		text = text[end:]
	}
	return append(parts, text)
}

// errSaved is the error of a change after the article was saved.
var errSaved = errors.New("the article is saved and closed; there is nothing more to do")

// write puts text in place of what was written.
func (d *desk) write(_ context.Context, in textArgs) (string, error) {
	return d.change(in.Text, in.replacing)
}

func (in textArgs) replacing(string) (string, bool) { return in.Text, true }

// append adds text at the end. A text that is there already is not added again:
// models sometimes repeat a call.
func (d *desk) append(_ context.Context, in textArgs) (string, error) {
	return d.change(in.Text, in.adding)
}

func (in textArgs) adding(old string) (string, bool) {
	add := strings.TrimSpace(in.Text)
	if rest, ok := strings.CutSuffix(strings.TrimSpace(old), add); ok && (rest == "" || strings.HasSuffix(rest, "\n")) {
		return old, false
	}
	if old == "" {
		return in.Text, true
	}
	return strings.TrimRight(old, "\n") + "\n\n" + strings.TrimLeft(in.Text, "\n"), true
}

func (d *desk) change(text string, edit func(old string) (string, bool)) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", errors.New("text is empty: send the Markdown to write")
	}
	d.mu.Lock()
	next, changed := edit(d.text)
	switch {
	case d.closed:
		d.mu.Unlock()
		return "", errSaved
	case len(next) > maxArticle:
		d.mu.Unlock()
		return "", fmt.Errorf("the article would have %d bytes, the most is %d; write a shorter one", len(next), maxArticle)
	}
	d.text, d.dirty = next, d.dirty || changed
	d.mu.Unlock()
	if !changed {
		return fmt.Sprintf("That text is there already. The article has %d bytes.", len(next)), nil
	}
	if err := d.flush(); err != nil {
		// The text is safe in memory and save may still work, so the agent goes on. The
		// report mentions the error if nothing but the draft remains.
		return fmt.Sprintf("Written, though not to disk. The article has %d bytes.", len(next)), nil
	}
	return fmt.Sprintf("Written. The article has %d bytes.", len(next)), nil
}

// flush brings the draft on disk up to date.
func (d *desk) flush() error {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.mu.Lock()
	text, dirty := d.text, d.dirty
	d.mu.Unlock()
	if !dirty {
		return nil
	}
	file, err := d.book.keepDraft(d.article.name(), text)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed = err; err == nil {
		d.draft = file
		d.dirty = d.text != text
	}
	return err
}

// save makes the draft an article. A second save changes nothing.
func (d *desk) save(_ context.Context, _ noArgs) (string, error) {
	d.disk.Lock()
	defer d.disk.Unlock()
	d.mu.Lock()
	text, done := d.text, d.page != nil
	d.closed = done || strings.TrimSpace(text) != ""
	ready := d.closed
	d.mu.Unlock()
	if done {
		return "The article is saved already.", nil
	}
	if !ready {
		return "", errors.New("nothing is written yet: call write first")
	}
	p := newPage(d.session, d.article, text, d.model, time.Now())
	file, err := d.book.save(p, nav{})
	if err != nil {
		d.mu.Lock()
		d.closed = false
		d.mu.Unlock()
		return "", fmt.Errorf("the article could not be saved: %w", err)
	}
	dropped := d.book.dropDraft(d.article.name())
	d.mu.Lock()
	d.page, d.saved, d.dirty, d.failed = p, file, false, nil
	if dropped == nil {
		d.draft = ""
	}
	d.mu.Unlock()
	return "Saved as " + p.file() + ".", nil
}

// keep makes sure that the text is on disk, and returns the draft's path: "" if
// nothing was written or everything is saved. It may run while a tool of this desk
// hangs in the disk: then it returns what is known.
func (d *desk) keep() (string, error) {
	if d.disk.TryLock() {
		d.disk.Unlock()
		_ = d.flush() // what it meets is told below
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.dirty:
		return d.draft, nil
	case d.failed != nil:
		return d.draft, fmt.Errorf("the draft could not be kept: %w", d.failed)
	}
	return d.draft, errors.New("the draft may lack the last words: the disk does not answer")
}

// entry tells what became of the article.
func (d *desk) entry(outcome string) entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := entry{Article: d.article, Page: d.page, Outcome: outcome}
	if d.draft != "" {
		e.Draft = path.Join(draftsDir, d.article.name()+".md")
	}
	return e
}

// paths returns where the saved article and the draft are, "" if nowhere.
func (d *desk) paths() (saved, draft string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saved, d.draft
}
