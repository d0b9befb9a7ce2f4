package journal

import (
	"bytes"
	"fmt"
	"io"
)

// A mending is a log into which is written what it may lack.
type mending struct {
	data []byte // what stood in it, and is to
	// removed: what came before a part was on the disk, and somebody took the log
	// away. It begins anew.
	empty, removed bool
}

// A numberedCommit is a commit and the number of its line.
type numberedCommit struct {
	commit
	line int
}

// mend looks at whether the parts fit into a log, and writes them if told so.
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

// check looks at what stands where the part belongs, and notes the part. Whole
// lines are what was written, so if others are there one of the two files is not
// what it was, and nobody knows which. Anything else is what a power cut leaves.
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
