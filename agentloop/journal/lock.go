package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile exists while a process writes, and holds its process id.
const lockFile = "lock"

// A lock is held until it is closed or the process ends.
type lock struct{ file *os.File }

// Lock takes a lock at path, so that one process at a time works with something,
// such as a folder of results. It makes the file for it, in a folder that exists,
// and removes it when the lock is closed. The lock ends with the process, even if
// that is killed. Lock does not wait: if another process has the lock the error
// matches [ErrLocked] and names that process. A journal takes its own, see [Open].
func Lock(path string) (io.Closer, error) {
	l, err := takeLock(path)
	if err != nil {
		return nil, &Error{Op: "lock", File: path, Err: err}
	}
	return l, nil
}

func takeLock(path string) (io.Closer, error) {
	const patience = 100
	for range patience {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return nil, err
		}
		free, err := claim(f)
		switch {
		case err != nil:
			_ = f.Close()
			return nil, err
		case !free:
			who := holder(f)
			_ = f.Close()
			return nil, fmt.Errorf("%w (%s)", ErrLocked, who)
		case !stands(path, f): // removed between our opening and claiming it
			_ = f.Close()
			continue
		}
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) { // on a full disk nobody learns our number
			_ = f.Close()
			return nil, err
		}
		return &lock{f}, nil
	}
	return nil, errors.New("it is no file of its own, or comes and goes")
}

// Close gives the lock back. The file is removed first: once it is unlocked it may be
// another process's.
func (l *lock) Close() error {
	_ = os.Remove(l.file.Name())
	return l.file.Close()
}

// stands reports whether f is still the file at path.
func stands(path string, f *os.File) bool {
	a, err1 := f.Stat()
	b, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// holder names the process that wrote its number into the file.
func holder(f *os.File) string {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "of unknown number"
}
