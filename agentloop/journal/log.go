package journal

import (
	"bytes"
	"encoding/json"
	"sync"
)

// A Log is one file of a [Journal], open for more lines. It is safe for
// concurrent use.
type Log struct {
	journal *Journal
	file    string

	f File

	// turn holds a token while somebody writes: lines do not mix. It is no mutex,
	// for a disk may take any time.
	turn    chan struct{}
	size    int64 // of all whole lines
	unended bool  // the last of them has no line break
	spoiled bool  // there is more in the file, which is no line

	mu      sync.Mutex
	written int   // lines so far
	synced  int   // of them, on the disk
	queued  bool  // to be synced after a while
	failed  error // the disk has failed: what it says from then on is not to be trusted
	closed  bool
}

// Append writes a value as a line. When it returns nil the line survives the
// end of the process; see [Log.Sync]. When it does not, the line is not there.
func (l *Log) Append(value any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return &Error{Op: "encode", File: l.file, Err: err}
	}
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if err := l.state("write"); err != nil {
		return err
	}
	if err := l.put(b.Bytes()); err != nil {
		return &Error{Op: "write", File: l.file, Err: err}
	}
	l.mu.Lock()
	l.written++
	idle := !l.queued
	l.queued = true
	l.mu.Unlock()
	if idle {
		l.journal.commit.later(l)
	}
	return nil
}

// put writes a line behind the others. It is its turn.
func (l *Log) put(line []byte) error {
	if l.spoiled {
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
		l.spoiled = false
	}
	if l.unended {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.f.WriteAt(line, l.size)
	if err != nil {
		// Now if it can be, else before the next line: what was written of this
		// one must not be glued to it.
		l.spoiled = n > 0 && l.f.Truncate(l.size) != nil
		return err
	}
	l.size += int64(len(line))
	l.unended = false
	return nil
}

// state returns why nothing more can be done with the log, or nil.
func (l *Log) state(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &Error{Op: op, File: l.file, Err: ErrClosed}
	}
	return l.failed
}

// Sync returns when all that was appended before is on the disk. Many that call
// it at the same time share the work. If the disk fails here the log takes no more
// lines: systems forget what they could not write, and say later that all is well.
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

// sync does the work of Sync. The lock is not held meanwhile: lines may go on
// being written, and are synced by the next.
func (l *Log) sync() error {
	l.mu.Lock()
	f, upto := l.f, l.written
	l.queued = false
	if l.closed || l.failed != nil || upto == l.synced {
		defer l.mu.Unlock()
		return l.failed
	}
	l.mu.Unlock()
	err := f.Sync()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = &Error{Op: "sync", File: l.file, Err: err}
		return l.failed
	}
	l.synced = max(l.synced, upto)
	return nil
}

// Close syncs and closes the log. It may be called again.
func (l *Log) Close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	err := l.sync()
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.journal.forget(l)
	if cerr := l.f.Close(); err == nil && cerr != nil {
		err = &Error{Op: "close", File: l.file, Err: cerr}
	}
	return err
}
