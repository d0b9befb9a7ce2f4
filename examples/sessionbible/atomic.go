package main

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// writeFile puts data under name, whole or not at all: whoever opens name sees
// the old content or the new, also after a crash. It writes a temporary file
// in the same folder, syncs it, and renames it over name.
func writeFile(root *os.Root, name string, data []byte) (err error) {
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".tmp")
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(root.Remove(tmp)))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err == nil {
		syncDir(root, path.Dir(name))
	}
	return err
}

// writeFileAt is writeFile for a path of the operating system.
func writeFileAt(name string, data []byte) error {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return writeFile(root, filepath.Base(name), data)
}

// syncDir makes a rename survive a power cut. Not every system can sync a
// folder, and the file itself is safe already, so a failure is no error.
func syncDir(root *os.Root, dir string) {
	if d, err := root.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
