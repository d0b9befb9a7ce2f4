package journal

import (
	"container/list"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// defaultOpenFiles leaves most of 256 files, the smallest limit of common systems,
	// to the connections of the process.
	defaultOpenFiles = 96

	// scarceWait is how long to wait for a file that cannot be opened because the
	// process, or the system, has too many open.
	scarceWait     = 10 * time.Second
	scarcePause    = 5 * time.Millisecond
	maxScarcePause = 500 * time.Millisecond
)

// files keeps a few of the logs' files open: those in use, and those used last.
// Closing and reopening does not affect syncs: a sync is of a file, whatever handle
// its bytes were written through.
type files struct {
	fs FS
	// turns has a token for each file that may be open. Each use of a file holds one.
	turns chan struct{}

	mu     sync.Mutex
	opened int
	idle   list.List // of *file, open and in no use, the one used last at the end
}

// A file is a log's file, open or not.
type file struct {
	of   *files
	name string
	door chan struct{} // holds a token while somebody opens it

	// The mutex of files guards these.
	f     File
	users int
	place *list.Element // in idle
	lost  error         // the error of an earlier close
}

func newFiles(fs FS, most int) *files {
	if most < 0 {
		most = math.MaxInt32 // it costs nothing
	}
	return &files{fs: fs, turns: make(chan struct{}, most)}
}

func (p *files) file(name string) *file {
	return &file{of: p, name: name, door: make(chan struct{}, 1)}
}

// use calls fn with the file, which is opened if need be; then it must have at least
// the given bytes. It waits while too many others are in use; fn must not use another
// file.
func (f *file) use(least int64, fn func(File) error) error {
	p := f.of
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	handle, err := f.enter(least)
	if err != nil {
		return err
	}
	defer f.leave()
	return fn(handle)
}

// enter returns the file's handle, and counts one more user.
func (f *file) enter(least int64) (File, error) {
	f.door <- struct{}{}
	defer func() { <-f.door }()
	p := f.of
	p.mu.Lock()
	if f.lost != nil {
		defer p.mu.Unlock()
		return nil, f.lost
	}
	handle := f.f
	if f.place != nil {
		p.idle.Remove(f.place)
		f.place = nil
	}
	f.users++
	var old *file // gives its room up
	var closing File
	switch {
	case handle != nil:
	case p.opened >= cap(p.turns) && p.idle.Len() > 0:
		old, closing = p.evictLocked()
	default:
		p.opened++
	}
	p.mu.Unlock()
	if handle != nil {
		return handle, nil
	}
	if old != nil {
		p.shut(old, closing)
	}
	handle, err := f.reopen(least)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		f.users--
		p.opened--
		return nil, err
	}
	f.f = handle
	return handle, nil
}

// reopen opens the file, which is already counted as open. If no more files can be
// opened, it closes idle ones and waits for a while.
func (f *file) reopen(least int64) (File, error) {
	p := f.of
	handle, err := p.fs.Open(f.name)
	pause := scarcePause
	for end := time.Now().Add(scarceWait); err != nil && scarce(err) && time.Now().Before(end); pause = min(2*pause, maxScarcePause) {
		if !p.closeIdle() {
			time.Sleep(pause)
		}
		handle, err = p.fs.Open(f.name)
	}
	if err != nil {
		return nil, err
	}
	if s, ok := handle.(interface{ Stat() (os.FileInfo, error) }); ok && least > 0 {
		info, err := s.Stat()
		if err == nil && info.Size() < least {
			err = fmt.Errorf("%w: it has %d bytes, and had %d", ErrCorrupt, info.Size(), least)
		}
		if err != nil {
			_ = handle.Close()
			return nil, err
		}
	}
	return handle, nil
}

// scarce reports whether an error says that too many files are open.
func scarce(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// evictLocked removes the least recently used idle file. The caller must shut it;
// until then it counts as open.
func (p *files) evictLocked() (*file, File) {
	f := p.idle.Remove(p.idle.Front()).(*file)
	handle := f.f
	f.f, f.place = nil, nil
	return f, handle
}

// shut closes a handle. An error is kept for the next use of the file: something that
// was written may be lost.
func (p *files) shut(f *file, handle File) {
	if err := handle.Close(); err != nil {
		p.mu.Lock()
		f.lost = err
		p.mu.Unlock()
	}
}

// closeIdle closes all idle files, and reports whether there were any.
func (p *files) closeIdle() (some bool) {
	for {
		p.mu.Lock()
		if p.idle.Len() == 0 {
			p.mu.Unlock()
			return some
		}
		f, handle := p.evictLocked()
		p.mu.Unlock()
		p.shut(f, handle)
		some = true
		p.mu.Lock()
		p.opened--
		p.mu.Unlock()
	}
}

// leave ends a use.
func (f *file) leave() {
	p := f.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.users--; f.users == 0 {
		f.place = p.idle.PushBack(f)
	}
}

// close closes the file, if it is open, and returns the error of this or an earlier
// close. The file is not used any more.
func (f *file) close() error {
	p := f.of
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	p.mu.Lock()
	handle, err := f.f, f.lost
	if f.place != nil {
		p.idle.Remove(f.place)
	}
	f.f, f.place = nil, nil
	p.mu.Unlock()
	if handle == nil {
		return err
	}
	err = errors.Join(err, handle.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened--
	return err
}
