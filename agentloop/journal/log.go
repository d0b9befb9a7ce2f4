package journal

import (
	"bytes"
	"encoding/json"
	"sync"
	"unicode/utf8"
)

// A Log is one file of a [Journal], open for more lines. It is safe for
// concurrent use.
type Log struct {
	journal *Journal
	file    string

	f *file

	// turn holds a token while somebody writes, so that lines do not mix. It is no
	// mutex, since a disk may hang.
	turn    chan struct{}
	size    int64 // of all whole lines
	unended bool  // the last of them has no line break
	spoiled bool  // the file has a torn line after them

	syncing chan struct{} // holds a token while somebody syncs

	mu      sync.Mutex
	end     int64  // where the last line ends
	written int    // appends so far
	synced  int    // of them, safe
	fresh   []byte // lines appended since
	freshAt int64  // where in the file
	toomuch bool   // more was appended than fresh may hold
	unkept  bool   // toomuch was set, and that is being synced
	lent    bool   // some lines are safe in the commit file only
	queued  bool   // the sweeper will sync it
	failed  error  // the error of a sync: later syncs cannot be trusted
	closed  bool
}

// Append writes values as lines, all of them or none. If it returns nil they survive
// the end of the process, and after [Log.Sync] a power cut. If it returns an error,
// none is in the log.
func (l *Log) Append(values ...any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, value := range values {
		if err := enc.Encode(value); err != nil {
			return &Error{Op: "encode", File: l.file, Err: err}
		}
	}
	text := b.Bytes()
	if !utf8.Valid(text) { // a json.RawMessage may hold anything
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if err := l.state("write"); err != nil {
		return err
	}
	at := l.size
	var line []byte
	err := l.f.use(at, func(f File) (err error) {
		line, err = l.put(f, text)
		return err
	})
	if err != nil {
		return &Error{Op: "write", File: l.file, Err: err}
	}
	l.mu.Lock()
	l.end = at + int64(len(line))
	l.written++
	if len(l.fresh) == 0 {
		l.freshAt = at
	}
	if l.toomuch = l.toomuch || len(l.fresh)+len(line) > maxFresh; l.toomuch {
		l.fresh = nil
	} else {
		l.fresh = append(l.fresh, line...)
	}
	idle := !l.queued
	l.queued = true
	l.mu.Unlock()
	if idle {
		l.journal.sweep.later(l)
	}
	return nil
}

// put writes lines after the others, and returns what it wrote. The caller holds
// turn.
func (l *Log) put(f File, line []byte) ([]byte, error) {
	if l.spoiled {
		if err := f.Truncate(l.size); err != nil {
			return nil, err
		}
		l.spoiled = false
	}
	if l.unended {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.WriteAt(line, l.size)
	if err != nil {
		// The rest of this line must not be glued to the next one. If it cannot be cut off
		// now, that is done before the next line.
		l.spoiled = n > 0 && f.Truncate(l.size) != nil
		return nil, err
	}
	l.size += int64(len(line))
	l.unended = false
	return line, nil
}

// state returns why the log cannot be used any more, or nil.
func (l *Log) state(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &Error{Op: op, File: l.file, Err: ErrClosed}
	}
	return l.failed
}

// Sync returns when everything that was appended before is on the disk. All calls at
// the same time, for whichever logs, share the work. If the disk fails, the log takes
// no more lines: systems forget what they could not write, and report success later.
func (l *Log) Sync() error {
	if err := l.state("sync"); err != nil {
		return err
	}
	l.mu.Lock()
	done := l.synced == l.written
	l.mu.Unlock()
	if done {
		return nil
	}
	return l.journal.commit.now(l)
}

// takeFresh returns what was appended since the log was last safe, for the commit
// file. It reports false if that is more than was kept.
func (l *Log) takeFresh() (part commit, upto int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.failed != nil || l.toomuch || l.unkept {
		return commit{}, 0, false
	}
	part = commit{File: l.file, At: l.freshAt, Data: l.fresh}
	l.fresh = nil
	return part, l.written, true
}

// safe notes that the result of takeFresh is on the disk.
func (l *Log) safe(upto int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced, l.lent = max(l.synced, upto), true
}

// sync makes the log safe by itself. Lines that are written meanwhile are left to the
// next sync.
func (l *Log) sync() error {
	l.mu.Lock()
	want := l.written
	l.mu.Unlock()
	l.syncing <- struct{}{}
	defer func() { <-l.syncing }()
	l.mu.Lock()
	l.queued = false
	if l.closed || l.failed != nil || l.synced >= want { // somebody else has done it
		defer l.mu.Unlock()
		return l.failed
	}
	l.mu.Unlock()
	return l.fsync()
}

// syncFile syncs the log's file, even if its lines are safe in the commit file.
func (l *Log) syncFile() error {
	l.syncing <- struct{}{}
	defer func() { <-l.syncing }()
	return l.fsyncIfNeeded()
}

// fsyncIfNeeded is syncFile for a caller that holds syncing.
func (l *Log) fsyncIfNeeded() error {
	l.mu.Lock()
	nothing := l.closed || l.failed != nil || l.synced == l.written && !l.lent
	failed := l.failed
	l.mu.Unlock()
	if nothing {
		return failed
	}
	return l.fsync()
}

// fsync syncs the log's file; the caller holds syncing. Until it is done, its lines
// stay fresh, so that a commit at the same time includes them: a commit says that all
// lines before it are safe as well.
func (l *Log) fsync() error {
	l.mu.Lock()
	upto, least := l.written, l.end
	end := l.freshAt + int64(len(l.fresh))
	l.unkept, l.toomuch, l.lent = l.toomuch, false, false
	l.mu.Unlock()
	err := l.f.use(least, File.Sync)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = &Error{Op: "sync", File: l.file, Err: err}
		return l.failed
	}
	l.synced, l.unkept = max(l.synced, upto), false
	if n := end - l.freshAt; n > 0 && len(l.fresh) > 0 { // else a commit has taken them
		l.fresh, l.freshAt = l.fresh[n:], end
	}
	return nil
}

// Close syncs and closes the log. It waits for the disk without a bound, unlike
// [Journal.Close]. It may be called again.
func (l *Log) Close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.syncing <- struct{}{} // nobody may use the file while it is closed
	defer func() { <-l.syncing }()
	l.mu.Lock()
	closed, failed := l.closed, l.failed
	l.mu.Unlock()
	if closed {
		return nil
	}
	err := failed
	if err == nil {
		err = l.fsyncIfNeeded() // a closed log must not depend on the commit file
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.journal.forget(l)
	if cerr := l.f.close(); err == nil && cerr != nil {
		err = &Error{Op: "close", File: l.file, Err: cerr}
	}
	return err
}
