package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// deliverLimit bounds the wait for the reader of a pipe that the report is written
// to. An interrupted run has two seconds for everything.
const deliverLimit = time.Second

// checkReport checks before the run that its report can be written.
func checkReport(file string) error {
	if file == "" || file == "-" {
		return nil
	}
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		return fmt.Errorf("-report %s is a directory, want a file", file)
	}
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !isReport(file) {
		return fmt.Errorf("-report %s exists and is no report of an earlier run; name another file", file)
	}
	if err == nil {
		return nil
	}
	file, err = followLinks(file)
	if err == nil {
		if info, err = os.Stat(filepath.Dir(file)); err == nil && !info.IsDir() {
			err = errors.New("is no directory")
		}
	}
	if err != nil {
		return fmt.Errorf("-report %s: its folder: %w", file, err)
	}
	return nil
}

// isOutput reports whether file is another name of out, such as /dev/stdout for a
// pipe or for a file that the shell opened. It is false for a terminal, which can be
// opened twice.
func isOutput(file string, out any) bool {
	f, ok := out.(*os.File)
	if !ok || file == "" || file == "-" {
		return false
	}
	a, err1 := os.Stat(file)
	b, err2 := f.Stat()
	return err1 == nil && err2 == nil && a.Mode()&fs.ModeDevice == 0 && os.SameFile(a, b)
}

// writeFileAt writes data to a path of the operating system. A file is replaced whole
// or not at all, and a link to it stays; a device or a pipe is written to.
func writeFileAt(name string, data []byte) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("%s is a directory", name)
		}
		return writeInto(name, data)
	}
	name, err := followLinks(name)
	if err != nil {
		return err
	}
	if isDescriptor(name) {
		return writeInto(name, data)
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer root.Close()
	return writeFile(root, filepath.Base(name), data)
}

// writeInto writes to a device or a pipe. If nobody reads the pipe it gives up after
// deliverLimit.
func writeInto(name string, data []byte) error {
	until := time.Now().Add(deliverLimit)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	for errors.Is(err, syscall.ENXIO) && time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond) // the system tells nobody when a reader comes
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	}
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s: nobody reads it", name)
	}
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(until) // what has no deadlines, such as /dev/null, needs none
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// isDescriptor reports whether the path names an open file of a process.
func isDescriptor(name string) bool { return strings.HasPrefix(name, "/proc/") }

// followLinks returns the path that a link leads to, which need not exist. It does
// not follow the link of an open file, whose text is only a description.
func followLinks(name string) (string, error) {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return name, err
		}
		name = filepath.Join(dir, filepath.Base(name))
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 || isDescriptor(name) {
			return name, ignoreMissing(err)
		}
		link, err := os.Readlink(name)
		if err != nil {
			return name, err
		}
		if !filepath.IsAbs(link) {
			link = dir + string(filepath.Separator) + link // not joined: its .. may follow a link
		}
		name = link
	}
	return name, fmt.Errorf("%s: more than %d links in a row", name, maxLinks)
}

// isReport reports whether a file looks like a report of ours: other files, such as a
// session, must not be overwritten.
func isReport(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var r struct {
		Run    json.RawMessage `json:"run"`
		Totals json.RawMessage `json:"totals"`
		Agents json.RawMessage `json:"agents"`
	}
	return json.NewDecoder(f).Decode(&r) == nil && len(r.Run) > 0 && len(r.Totals) > 0 && len(r.Agents) > 0
}
