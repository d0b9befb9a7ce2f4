package journal

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// defaultOpenFiles leaves most of 256 files, the least that systems give a
	// process, to its connections.
	defaultOpenFiles = 96

	// scarceWait is how long a file is waited for that cannot be opened since the
	// process, or the system, has too many open.
	scarceWait     = 10 * time.Second
	scarcePause    = 5 * time.Millisecond
	maxScarcePause = 500 * time.Millisecond
)

// files keeps few of the files of many logs open: those that are in use, and those
// that were used last. Which of a log's lines are on the disk does not depend on
// it: a sync is of a file, whoever wrote to it and through whatever handle.
type files struct {
	fs FS
	// turns has a token for each file that may be open. Who uses one holds one.
	turns chan struct{}

	mu   sync.Mutex
	open int
	idle list.List // of *file, open and in no use, the one used last at the end
}

// A file is one of many, open or not.
type file struct {
	of   *files
	name string
	door chan struct{} // holds a token while somebody opens it

	// The mutex of files guards these.
	f     File
	users int
	place *list.Element // in idle
	lost  error         // what the system said when it was closed meanwhile
}

func newFiles(fs FS, most int) *files {
	return &files{fs: fs, turns: make(chan struct{}, most)}
}

func (p *files) file(name string) *file {
	return &file{of: p, name: name, door: make(chan struct{}, 1)}
}

// use calls fn with the file, which is opened if it is not. At least min bytes must
// be in it. It waits while too many others are in use; fn must not use another one.
func (f *file) use(min int64, fn func(File) error) error {
	p := f.of
	p.turns <- struct{}{}
	defer func() { <-p.turns }()
	handle, err := f.enter(min)
	if err != nil {
		return err
	}
	defer f.leave()
	return fn(handle)
}

// enter returns the file's handle, for one more user.
func (f *file) enter(min int64) (File, error) {
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
	if handle == nil {
		p.open++
	}
	p.mu.Unlock()
	if handle != nil {
		return handle, nil
	}
	handle, err := f.reopen(min)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		f.users--
		p.open--
		return nil, err
	}
	f.f = handle
	return handle, nil
}

// reopen opens the file, which is counted as open by now. Should files be scarce it
// closes what is in no use, and waits for a while.
func (f *file) reopen(min int64) (File, error) {
	p := f.of
	p.closeIdle(cap(p.turns))
	handle, err := p.fs.Open(f.name)
	pause := scarcePause
	for end := time.Now().Add(scarceWait); err != nil && scarce(err) && time.Now().Before(end); pause = min2(2*pause, maxScarcePause) {
		if p.closeIdle(0) == 0 {
			time.Sleep(pause)
		}
		handle, err = p.fs.Open(f.name)
	}
	if err != nil {
		return nil, err
	}
	if s, ok := handle.(interface{ Stat() (os.FileInfo, error) }); ok && min > 0 {
		info, err := s.Stat()
		if err == nil && info.Size() < min {
			err = fmt.Errorf("%w: it has %d bytes, and had %d", ErrCorrupt, info.Size(), min)
		}
		if err != nil {
			_ = handle.Close()
			return nil, err
		}
	}
	return handle, nil
}

func min2(a, b time.Duration) time.Duration { return min(a, b) }

// closeIdle closes files that are in no use until at most so many are open, and
// returns how many it closed.
func (p *files) closeIdle(most int) (n int) {
	for {
		p.mu.Lock()
		oldest := p.idle.Front()
		if p.open <= most || oldest == nil {
			p.mu.Unlock()
			return n
		}
		f := p.idle.Remove(oldest).(*file)
		handle := f.f
		f.f, f.place = nil, nil
		p.open--
		p.mu.Unlock()
		n++
		if err := handle.Close(); err != nil {
			p.mu.Lock()
			f.lost = err
			p.mu.Unlock()
		}
	}
}

// leave is the end of a use.
func (f *file) leave() {
	p := f.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.users--; f.users == 0 {
		f.place = p.idle.PushBack(f)
	}
}

// close closes the file, if it is open, and returns what went wrong when it was
// closed, now or before. Nobody uses it then, or will.
func (f *file) close() error {
	p := f.of
	p.mu.Lock()
	handle, err := f.f, f.lost
	if f.place != nil {
		p.idle.Remove(f.place)
	}
	f.f, f.place = nil, nil
	if handle != nil {
		p.open--
	}
	p.mu.Unlock()
	if handle != nil {
		return errors.Join(err, handle.Close())
	}
	return err
}
