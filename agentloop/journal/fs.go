package journal

import (
	"io"
	"os"
	"path/filepath"
)

// An FS is where a journal's folder is. Names are relative to it, with slashes.
// Tests give one that fails; everybody else leaves Config.FS nil.
type FS interface {
	// Open opens a file for reading and writing, and makes it, and the folder it
	// is in, if they are missing. It is called again for a log whose file was closed
	// to make room for others.
	Open(name string) (File, error)

	// Lock takes a lock until it is closed or the process ends, or returns an
	// error that matches ErrLocked if another process has it. It does not wait.
	Lock(name string) (io.Closer, error)
}

// A File is a file of an FS. [os.File] is one.
type File interface {
	io.Reader
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// osFS is a folder of the operating system.
type osFS struct{ dir string }

func (f osFS) Open(name string) (File, error) {
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if os.IsNotExist(err) {
		if err = makeFolder(filepath.Dir(path)); err == nil {
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		}
	}
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		syncFolder(filepath.Dir(path))
	}
	return file, nil
}

func (f osFS) Lock(name string) (io.Closer, error) {
	if err := makeFolder(f.dir); err != nil {
		return nil, err
	}
	return Lock(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// makeFolder makes a folder and those that it is in, as far as they are missing, all of
// them so that a power cut does not take them away.
func makeFolder(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	syncFolder(parent)
	return nil
}

// syncFolder makes safe which files are in a folder: one that was just made is only safe
// then. Not every system can sync a folder.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
