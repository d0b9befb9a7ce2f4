package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Config sets up a [Journal].
type Config struct {
	// Dir is the folder, which is made if it is missing. Required unless FS is
	// set.
	Dir string

	// FS, if not nil, is where the journal is instead of Dir.
	FS FS

	// SyncEvery is how long a line that nobody waits for may take until it is on
	// the disk. Zero means 1 second, a negative value until somebody waits or the
	// log is closed.
	SyncEvery time.Duration

	// MaxOpen is how many logs' files are open at the same time; others are closed
	// and opened again when they are written to. Zero means 96, which suits
	// processes that may have 256; a negative value means no bound. If the system
	// has no more to give, a write waits up to ten seconds for one.
	MaxOpen int
}

const defaultSyncEvery = time.Second

// A Journal is a folder of logs that this process alone writes to. It is safe
// for concurrent use.
type Journal struct {
	fs     FS
	dir    string
	lock   io.Closer
	sweep  sweeper
	commit committer
	files  *files

	mu     sync.Mutex
	logs   map[string]*Log // open ones, by file
	closed bool
}

// Open opens a journal, new or not, and takes its lock.
func Open(cfg Config) (*Journal, error) {
	if cfg.FS == nil {
		if cfg.Dir == "" {
			return nil, errors.New("journal: Dir is empty")
		}
		cfg.FS = osFS{cfg.Dir}
	}
	if cfg.SyncEvery == 0 {
		cfg.SyncEvery = defaultSyncEvery
	}
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = defaultOpenFiles
	}
	j := &Journal{fs: cfg.FS, dir: cfg.Dir, files: newFiles(cfg.FS, cfg.MaxOpen), logs: make(map[string]*Log)}
	j.sweep.every, j.commit.fs, j.commit.files = cfg.SyncEvery, cfg.FS, j.files
	var err error
	if j.lock, err = cfg.FS.Lock(lockFile); err != nil {
		return nil, &Error{Op: "lock", File: firstOf(cfg.Dir, lockFile), Err: err}
	}
	if err := j.commit.recover(); err != nil {
		_ = j.lock.Close()
		return nil, err
	}
	return j, nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// Dir returns Config.Dir.
func (j *Journal) Dir() string { return j.dir }

// Log opens the log of the given name, and returns what is in it. Parts of the
// name between slashes are folders; see [Escape]. A line that was torn is cut off.
// A log is open once at a time; it is to be closed.
func (j *Journal) Log(name string) (*Log, []json.RawMessage, error) {
	file := fileOf(name)
	if file == commitFile {
		return nil, nil, &Error{Op: "open", File: file, Err: errors.New("the name is taken by the journal itself")}
	}
	l := &Log{journal: j, file: file, f: j.files.file(file), turn: make(chan struct{}, 1), syncing: make(chan struct{}, 1)}
	j.mu.Lock()
	_, twice := j.logs[file]
	closed := j.closed
	if !twice && !closed {
		j.logs[file] = l
	}
	j.mu.Unlock()
	switch {
	case closed:
		return nil, nil, &Error{Op: "open", File: file, Err: ErrClosed}
	case twice:
		return nil, nil, &Error{Op: "open", File: file, Err: errors.New("it is open already")}
	}
	lines, err := l.open()
	if err != nil {
		j.forget(l)
		return nil, nil, err
	}
	return l, lines, nil
}

func (l *Log) open() ([]json.RawMessage, error) {
	op := "open"
	var data []byte
	err := l.f.use(0, func(f File) (err error) {
		op = "read"
		data, err = io.ReadAll(f)
		return err
	})
	if err != nil {
		_ = l.f.close()
		return nil, &Error{Op: op, File: l.file, Err: err}
	}
	lines, good, ended, bad := scan(data)
	if bad > 0 {
		_ = l.f.close()
		return nil, &Error{Op: "read", File: l.file, Line: bad, Err: fmt.Errorf("%w, though lines come after it", ErrCorrupt)}
	}
	l.size, l.end, l.unended = int64(good), int64(good), !ended
	l.spoiled = good < len(data) // cut off before the next line is written
	if good > 0 {
		// The process before may have been killed before it synced: what can be
		// read need not be on the disk, and must be before what comes after it.
		l.written, l.toomuch = 1, true
	}
	return lines, nil
}

func (j *Journal) forget(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.logs[l.file] == l {
		delete(j.logs, l.file)
	}
}

// Close closes all logs and gives the lock back. It waits for the disk. If a sync
// for others hangs it returns an error after a while, and keeps the lock until the
// end of the process: what hangs may still be written.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	var open []*Log
	for _, l := range j.logs {
		open = append(open, l)
	}
	j.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, l := range open {
		errs = append(errs, l.Close())
	}
	j.sweep.stop()
	if err := j.commit.close(errors.Join(errs...) == nil); err != nil {
		errs = append(errs, &Error{Op: "close", File: commitFile, Err: err})
		if err == errBusy {
			return errors.Join(errs...)
		}
	}
	if err := j.lock.Close(); err != nil {
		errs = append(errs, &Error{Op: "lock", File: lockFile, Err: err})
	}
	return errors.Join(errs...)
}
