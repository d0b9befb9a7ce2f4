package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrLocked: another process writes to the journal.
	ErrLocked = errors.New("another process writes to it")
	// ErrCorrupt: a line in the middle of a log cannot be read.
	ErrCorrupt = errors.New("cannot be read")
	// ErrClosed: the journal or the log was closed.
	ErrClosed = errors.New("closed")
	// ErrCloseTimeout: the disk took longer than [Journal.Close] waits.
	ErrCloseTimeout = fmt.Errorf("the disk is not through after %v", closeWait)
)

// An Error says what was tried with which file.
type Error struct {
	Op   string // open, lock, read, write, sync, close, encode
	File string // inside the journal's folder, or the folder itself
	Line int    // where, from 1; 0 if it is about no line
	Err  error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("journal: %s %s, line %d: %v", e.Op, e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("journal: %s %s: %v", e.Op, e.File, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
