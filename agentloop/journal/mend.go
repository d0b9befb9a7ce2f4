package journal

import (
	"bytes"
	"fmt"
	"io"
)

// A mending is a log that may lack lines of the commit file.
type mending struct {
	data []byte // what stood in it, and is to
	// removed: the log lacks lines that were on the disk, since somebody took it away.
	// It begins anew.
	empty, removed bool
}

// A numberedCommit is a commit and the number of its line.
type numberedCommit struct {
	commit
	line int
}

// mend checks whether the parts fit into a log, and writes them if write is set.
func (c *committer) mend(name string, parts []numberedCommit, write bool) error {
	f := c.files.file(name)
	op := "open"
	err := f.use(0, func(f File) error {
		op = "read"
		data, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		m := &mending{data: data, empty: len(data) == 0}
		for _, part := range parts {
			if err := m.check(part.commit); err != nil {
				return &Error{Op: "read", File: commitFile, Line: part.line, Err: err}
			}
		}
		if !write || m.removed {
			return nil
		}
		op = "write"
		for _, part := range parts {
			if _, err := f.WriteAt(part.Data, part.At); err != nil {
				return err
			}
		}
		op = "sync"
		return f.Sync()
	})
	if cerr := f.close(); err == nil && cerr != nil {
		op, err = "close", cerr
	}
	if _, named := err.(*Error); named || err == nil {
		return err
	}
	return &Error{Op: op, File: name, Err: err}
}

// check compares a part with the log, and notes the part. If different whole lines
// stand in its place, one of the two files was changed, and nobody knows which.
// Anything else is what a power cut leaves.
func (m *mending) check(part commit) error {
	if m.removed = m.removed || m.empty && part.At > int64(len(m.data)); m.removed {
		return nil
	}
	if part.At > int64(len(m.data)) {
		return fmt.Errorf("%w: it is for byte %d of %s, which has %d", ErrCorrupt, part.At, part.File, len(m.data))
	}
	for at, rest := int(part.At), part.Data; len(rest) > 0 && at < len(m.data); {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		there := m.data[at:]
		if i := bytes.IndexByte(there, '\n'); i >= 0 && isObject(there[:i]) && !bytes.Equal(there[:i+1], rest[:end]) {
			return fmt.Errorf("%w: another line stands at byte %d of %s", ErrCorrupt, at, part.File)
		}
		at, rest = at+end, rest[end:]
	}
	end := int(part.At) + len(part.Data)
	if end > len(m.data) {
		m.data = append(m.data[:part.At], part.Data...)
	} else {
		copy(m.data[part.At:], part.Data)
	}
	return nil
}
