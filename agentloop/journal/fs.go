package journal

import (
	"io"
	"os"
	"path/filepath"
)

// An FS holds a journal's folder. Names are relative to it, with slashes. Tests use
// one that fails; programs leave Config.FS nil.
type FS interface {
	// Open opens a file for reading and writing. It makes the file, and the folder it is
	// in, if they are missing. It is called again for a log whose file was closed to
	// make room for others.
	Open(name string) (File, error)

	// Lock takes a lock, which ends when it is closed or when the process ends. If
	// another process has it, the error matches ErrLocked. It does not wait.
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

// Logs hold all that models and tools said: only the owner may read them.
const (
	fileMode   = 0o600
	folderMode = 0o700
)

// osFS is a folder of the operating system.
type osFS struct{ dir string }

func (f osFS) Open(name string) (File, error) {
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if os.IsNotExist(err) {
		if err = makeFolder(filepath.Dir(path)); err == nil {
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
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
	return takeLock(filepath.Join(f.dir, filepath.FromSlash(name)))
}

// makeFolder makes a folder and its missing parents, and syncs their entries, so that
// they survive a power cut.
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
	if err := os.MkdirAll(path, folderMode); err != nil {
		return err
	}
	syncFolder(parent)
	return nil
}

// syncFolder syncs the entries of a folder: a new file survives a power cut only
// then. Not every system can sync a folder.
func syncFolder(path string) {
	if d, err := os.Open(path); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
