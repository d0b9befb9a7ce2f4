package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Config sets up a [Journal].
type Config struct {
	// Dir is the folder, which is made if it is missing. Required unless FS is set.
	Dir string

	// FS, if not nil, holds the journal instead of Dir.
	FS FS

	// SyncEvery is after how long a line is synced that nobody waits for. Zero means 1
	// second. A negative value means only when somebody waits or the log is closed.
	SyncEvery time.Duration

	// MaxOpen is how many files of logs are open at the same time; others are closed and
	// opened again when they are written to. Zero means 96, which suits a limit of 256
	// files; a negative value means no bound. If the process has no file left, a write
	// waits up to ten seconds for one.
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

// Log opens the log of the given name, and returns its lines. Parts of the name
// between slashes are folders; see [Escape]. A torn last line is cut off. A log can
// be open only once at a time; the caller closes it.
func (j *Journal) Log(name string) (*Log, []json.RawMessage, error) {
	file := fileOf(name)
	if file == commitFile {
		return nil, nil, &Error{Op: "open", File: file, Err: errors.New("the name is taken by the journal itself")}
	}
	l := &Log{journal: j, file: file, f: j.files.file(file), turn: make(chan struct{}, 1), syncing: make(chan struct{}, 1)}
	l.turn <- struct{}{} // Close waits until it is open
	defer func() { <-l.turn }()
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
		// The earlier process may have been killed before it synced. Lines that can be read
		// need not be on the disk, and must get there before the next ones.
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

// closeWait bounds Close.
const closeWait = 5 * time.Second

// Close syncs and closes all logs and gives the lock back. It takes at most 5
// seconds. If the disk needs longer, Close returns an error that matches
// [ErrCloseTimeout], and the work goes on in the background. The lock is kept until
// that is done or the process ends, since lines may still be written. Lines that
// [Log.Sync] has made safe are safe in any case. Further calls return nil.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	open := slices.Collect(maps.Values(j.logs))
	j.mu.Unlock()
	if closed {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- j.close(open) }()
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return j.unclosed()
	}
}

// close is Close without a bound.
func (j *Journal) close(open []*Log) error {
	j.sweep.stop()
	errs := atOnce(open, (*Log).Close)
	if err := j.commit.close(errors.Join(errs...) == nil); err != nil {
		errs = append(errs, &Error{Op: "close", File: commitFile, Err: err})
	}
	if err := j.lock.Close(); err != nil {
		errs = append(errs, &Error{Op: "lock", File: lockFile, Err: err})
	}
	return errors.Join(errs...)
}

// unclosed names the first log that could not be closed in time.
func (j *Journal) unclosed() error {
	j.mu.Lock()
	files := slices.Sorted(maps.Keys(j.logs))
	j.mu.Unlock()
	switch len(files) {
	case 0:
		return &Error{Op: "close", File: commitFile, Err: ErrCloseTimeout}
	case 1:
		return &Error{Op: "close", File: files[0], Err: ErrCloseTimeout}
	}
	return &Error{Op: "close", File: files[0], Err: fmt.Errorf("%w (nor with %d other logs)", ErrCloseTimeout, len(files)-1)}
}
