package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/neverhang/neverhang/agentloop"
)

// remembering makes the desk's tools repeat in memory what they did in a run that was
// killed: the journal has it all, but the text of a desk is in memory alone.
func (d *desk) remembering(write, add, save *agentloop.Tool) {
	write.Replay = func(_ context.Context, args json.RawMessage, _ string) error {
		return d.remember(args, textArgs.replacing)
	}
	add.Replay = func(_ context.Context, args json.RawMessage, _ string) error {
		return d.remember(args, textArgs.adding)
	}
	save.Replay = func(ctx context.Context, _ json.RawMessage, _ string) error { return d.recover(ctx) }
}

// remember repeats a recorded change. The draft on disk may lack it.
func (d *desk) remember(args json.RawMessage, edit func(textArgs, string) (string, bool)) error {
	var in textArgs
	if err := json.Unmarshal(args, &in); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, _ = edit(in, d.text)
	d.dirty = true
	return nil
}

// recover makes the article saved again: its file is there, or it is written again.
func (d *desk) recover(ctx context.Context) error {
	d.mu.Lock()
	text, done := d.text, d.page != nil
	d.mu.Unlock()
	if done {
		return nil
	}
	p := newPage(d.session, d.article, text, d.model, time.Now())
	at, there := d.book.savedAt(p)
	if !there {
		_, err := d.save(ctx, noArgs{})
		return err
	}
	p.Saved = at
	dropped := d.book.dropDraft(d.article.name())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.page, d.saved, d.closed, d.dirty = p, d.book.articlePath(p), true, false
	if dropped == nil {
		d.draft = ""
	}
	return nil
}
