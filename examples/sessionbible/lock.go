package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// lockFile is there while a run writes into the output folder, and holds the
// number of its process.
const lockFile = ".sessionbible.lock"

// A lock keeps other runs out of a folder, until release or the end of the
// process, however it ends.
type lock struct {
	root *os.Root
	file *os.File
}

// takeLock takes the lock of a folder, or returns an error that names the
// process that has it. It does not wait.
func takeLock(root *os.Root) (*lock, error) {
	for range 10 {
		f, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		free, err := claim(f)
		if err != nil || !free {
			who := holder(f)
			_ = f.Close()
			if err != nil {
				return nil, fmt.Errorf("the folder cannot be locked: %w", err)
			}
			return nil, fmt.Errorf("another run (%s) writes there now; wait for its end, or name another folder", who)
		}
		// The run before may have removed the file between our opening and
		// claiming it: then the next one would claim another file.
		if !stands(root, f) {
			_ = f.Close()
			continue
		}
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return &lock{root: root, file: f}, nil
	}
	return nil, errors.New("the folder cannot be locked: other runs come and go")
}

// release gives the lock back. The file goes first: once it is unlocked it may
// be another run's.
func (l *lock) release() {
	_ = l.root.Remove(lockFile)
	_ = l.file.Close()
}

// stands reports whether f is still the folder's lock file.
func stands(root *os.Root, f *os.File) bool {
	a, err1 := f.Stat()
	b, err2 := root.Lstat(lockFile)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// holder names the process that wrote its number into the lock file.
func holder(f *os.File) string {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "a process that just began"
}
