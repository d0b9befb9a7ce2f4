package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// commitFile is a common file for lines of all logs that wait for the disk at the
// same time: one sync makes them safe, where their own files would take one sync
// each.
const commitFile = "commit" + extension

const (
	// maxCommits is the size of that file in bytes at which the logs themselves are
	// synced and it begins anew.
	maxCommits = 8 << 20
	// maxFresh is how many unsynced bytes of a log are kept in memory for it. A log with
	// more is synced by itself.
	maxFresh = 1 << 20
)

// A commit is a line of commitFile: the bytes of a log, and their offset in it.
// Writing them there again does no harm. Data is base64 in the file, since a JSON
// string would not keep each byte.
type commit struct {
	File string `json:"file"`
	At   int64  `json:"at"`
	Data []byte `json:"bytes"`
}

// A committer makes lines safe for all that wait at the same time. The first caller
// leads: it does the work for all that have come by then. Meanwhile the next ones
// gather, and one of them leads next.
type committer struct {
	fs    FS
	files *files

	mu      sync.Mutex
	queue   []*waiter
	leading bool
	closed  bool          // nobody may lead any more
	quiet   chan struct{} // closed when nobody leads; close waits for it

	// The rest is used by the leader alone.
	f      File // nil until it is needed
	size   int64
	broken bool              // every log is synced by itself then
	logs   map[*Log]struct{} // those with lines in the file
}

type waiter struct {
	log  *Log
	done chan error    // its result
	lead chan struct{} // gets a token if it must lead instead
}

// now makes safe what was appended to the log, and waits for it.
func (c *committer) now(l *Log) error {
	w := &waiter{log: l, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return &Error{Op: "sync", File: l.file, Err: ErrClosed}
	}
	c.queue = append(c.queue, w)
	if c.leading {
		c.mu.Unlock()
		select {
		case err := <-w.done:
			return err
		case <-w.lead:
		}
		c.mu.Lock()
	}
	c.leading = true
	batch := c.queue
	c.queue = nil
	c.mu.Unlock()

	c.commit(batch)

	c.mu.Lock()
	if len(c.queue) > 0 {
		c.queue[0].lead <- struct{}{}
	} else {
		c.leading = false
		if c.quiet != nil {
			close(c.quiet)
		}
	}
	c.mu.Unlock()
	return <-w.done
}

// commit does the work for a batch.
func (c *committer) commit(batch []*waiter) {
	logs := make(map[*Log]error, len(batch))
	for _, w := range batch {
		logs[w.log] = nil
	}
	if len(logs) == 1 || !c.together(logs) {
		c.apart(logs)
	}
	for _, w := range batch {
		w.done <- logs[w.log]
	}
}

// apart syncs each log by itself, all at the same time.
func (c *committer) apart(logs map[*Log]error) {
	list := slices.Collect(maps.Keys(logs))
	for i, err := range atOnce(list, (*Log).sync) {
		logs[list[i]] = err
	}
}

// atOnce calls fn with all logs, up to maxSyncing at the same time, and returns its
// errors.
func atOnce(list []*Log, fn func(*Log) error) []error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	room := make(chan struct{}, maxSyncing)
	for i, l := range list {
		room <- struct{}{}
		wg.Go(func() {
			errs[i] = fn(l)
			<-room
		})
	}
	wg.Wait()
	return errs
}

// together makes all logs safe with one sync, and reports false if that is not
// possible.
func (c *committer) together(logs map[*Log]error) bool {
	if c.broken || !c.open() {
		return false
	}
	var block []byte
	marks := make(map[*Log]int, len(logs))
	for l := range logs {
		part, upto, ok := l.takeFresh()
		if !ok {
			return false
		}
		marks[l] = upto
		if len(part.Data) == 0 {
			continue
		}
		line, err := json.Marshal(part)
		if err != nil {
			return false
		}
		block = append(append(block, line...), '\n')
		c.logs[l] = struct{}{}
	}
	if len(block) > 0 {
		if _, err := c.f.WriteAt(block, c.size); err != nil {
			c.broken = c.f.Truncate(c.size) != nil // a full disk may have room again
			return false
		}
		c.size += int64(len(block))
		if c.f.Sync() != nil {
			c.broken = true
			return false
		}
	}
	for l, upto := range marks {
		l.safe(upto)
	}
	if c.size > maxCommits {
		c.begin()
	}
	return true
}

func (c *committer) open() bool {
	if c.f == nil {
		f, err := c.fs.Open(commitFile)
		if err != nil {
			c.broken = !scarce(err)
			return false
		}
		c.f, c.logs = f, make(map[*Log]struct{})
	}
	return true
}

// begin syncs the logs themselves, and empties the commit file.
func (c *committer) begin() {
	for l := range c.logs {
		if l.syncFile() != nil {
			return // what stands in the file is needed
		}
	}
	if c.f.Truncate(0) != nil {
		c.broken = true
		return
	}
	c.size = 0
	clear(c.logs)
}

// close waits for a sync under way. It empties the file if well, which says that all
// logs were closed without an error.
func (c *committer) close(well bool) error {
	c.mu.Lock()
	c.closed = true
	quiet := make(chan struct{})
	if c.leading {
		c.quiet = quiet
	} else {
		close(quiet)
	}
	c.mu.Unlock()
	<-quiet
	if c.f == nil {
		return nil
	}
	if well && c.f.Truncate(0) == nil {
		_ = c.f.Sync()
	}
	return c.f.Close()
}

// recover copies lines from the commit file into the logs that may lack them. A torn
// line at its end is dropped: nobody was told that it is safe.
func (c *committer) recover() error {
	f, err := c.fs.Open(commitFile)
	if err != nil {
		return &Error{Op: "open", File: commitFile, Err: err}
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return &Error{Op: "read", File: commitFile, Err: err}
	}
	if len(data) == 0 {
		return nil
	}
	lines, _, _, bad := scan(data)
	if bad > 0 {
		return &Error{Op: "read", File: commitFile, Line: bad, Err: fmt.Errorf("%w, though lines come after it", ErrCorrupt)}
	}
	parts := make(map[string][]numberedCommit)
	var names []string
	for i, line := range lines {
		part := numberedCommit{line: i + 1}
		if err := json.Unmarshal(line, &part.commit); err != nil || part.File == "" || part.At < 0 || len(part.Data) == 0 {
			return &Error{Op: "read", File: commitFile, Line: i + 1, Err: errors.Join(ErrCorrupt, err)}
		}
		if parts[part.File] == nil {
			names = append(names, part.File)
		}
		parts[part.File] = append(parts[part.File], part)
	}
	// All logs are checked before any is written, one at a time.
	for _, write := range []bool{false, true} {
		for _, name := range names {
			if err := c.mend(name, parts[name], write); err != nil {
				return err
			}
		}
	}
	if err := f.Truncate(0); err != nil {
		return &Error{Op: "write", File: commitFile, Err: err}
	}
	if err := f.Sync(); err != nil {
		return &Error{Op: "sync", File: commitFile, Err: err}
	}
	return nil
}
