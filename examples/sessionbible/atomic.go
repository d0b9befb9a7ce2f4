package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// maxLinks bounds a chain of symbolic links, as systems do.
const maxLinks = 40

// writeFile puts data under name, whole or not at all: a reader sees the old content
// or the new, even after a crash. It writes a temporary file in the same folder,
// syncs it, and renames it over name. Only a file is ever replaced. A symbolic link
// stays, and its target inside of root is written; anything else in the way is an
// error.
func writeFile(root *os.Root, name string, data []byte) error {
	return writeFileMode(root, name, data, 0o644)
}

// writeFileMode is writeFile for a file of that mode.
func writeFileMode(root *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	if name, err = target(root, name); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".tmp")
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
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

// target follows name to the file that a write to it would change.
func target(root *os.Root, name string) (string, error) {
	for range maxLinks {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return name, nil
		case err != nil:
			return "", err
		case info.Mode().IsRegular():
			return name, nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", fmt.Errorf("%s is in the way: it is no file", name)
		}
		link, err := root.Readlink(name)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(link) {
			return "", fmt.Errorf("%s is in the way: it is a link out of the folder", name)
		}
		name = path.Join(path.Dir(name), filepath.ToSlash(link))
	}
	return "", fmt.Errorf("%s: more than %d links in a row", name, maxLinks)
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
