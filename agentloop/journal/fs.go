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
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		}
	}
	if err != nil {
		return nil, err
	}
	// A file that was just made is only safe once its folder is. Not every
	// system can sync a folder.
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		if d, err := os.Open(filepath.Dir(path)); err == nil {
			_ = d.Sync()
			_ = d.Close()
		}
	}
	return file, nil
}

func (f osFS) Lock(name string) (io.Closer, error) {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return nil, err
	}
	return Lock(filepath.Join(f.dir, filepath.FromSlash(name)))
}
