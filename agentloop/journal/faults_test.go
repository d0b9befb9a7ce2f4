package journal_test

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// A faultyFS is a disk on which some operations with some files fail, such as
// "write a.jsonl". Of what is to be written all but the last byte is; what could not be
// synced is lost, and the next sync knows nothing of it.
type faultyFS struct {
	*memFS
	faults map[string]error
}

type faultyFile struct {
	*memFile
	of   *faultyFS
	name string
}

// fails makes operations fail from now on, and none but them.
func (f *faultyFS) fails(ops string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = make(map[string]error)
	for op := range strings.SplitSeq(ops, ", ") {
		f.faults[op] = syscall.EIO
	}
}

func (f *faultyFS) fault(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults[op+" "+name]
}

func (f *faultyFS) Open(name string) (journal.File, error) {
	if err := f.fault("open", name); err != nil {
		return nil, err
	}
	file, err := f.memFS.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file.(*memFile), f, name}, nil
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if err := f.of.fault("read", f.name); err != nil {
		return 0, err
	}
	return f.memFile.Read(p)
}

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.of.fault("write", f.name); err != nil {
		n, _ := f.memFile.WriteAt(p[:len(p)-1], at)
		return n, err
	}
	return f.memFile.WriteAt(p, at)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.of.fault("truncate", f.name); err != nil {
		return err
	}
	return f.memFile.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if err := f.of.fault("sync", f.name); err != nil {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		clear(f.data[f.synced:])
		f.synced = len(f.data)
		return err
	}
	return f.memFile.Sync()
}

func (f *faultyFile) Close() error { return f.of.fault("close", f.name) }

// Callers that wait together are told that all is safe only if it is. Without the
// commit file each log is synced by itself.
func TestWhatWaitsTogetherIsSafeThoughTheCommitFileFails(t *testing.T) {
	for _, faults := range []string{
		"open commit.jsonl", "write commit.jsonl", "write commit.jsonl, truncate commit.jsonl", "sync commit.jsonl", "sync commit.jsonl, truncate commit.jsonl",
	} {
		t.Run(faults, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &faultyFS{memFS: newMemFS()}
				fs.syncTime = time.Millisecond
				_, logs := opened(t, fs, "lead", "a", "b")
				for n, ops := range []string{"", faults, "", ""} {
					fs.fails(ops)
					for _, l := range logs[1:] {
						require.NoError(t, l.Append(line{N: n, Text: strings.Repeat("x", 50-10*n)}))
					}
					together(t, logs[0], logs[1:]...)
					for luck := range uint64(20) {
						dark := fs.asItStands()
						dark.powerCut(luck)
						require.Equal(t, []int{0, 1, 2, 3}[:n+1], linesOf(t, dark, "a"), "luck %d", luck)
					}
				}
			})
		})
	}
}

// A log whose own file fails is the only one that hears of it.
func TestALogThatCannotBeSyncedFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &faultyFS{memFS: newMemFS()}
		fs.syncTime = time.Millisecond
		_, logs := opened(t, fs, "lead", "a", "b")
		fs.fails("open commit.jsonl, sync b.jsonl")
		errs := make(chan error, 2)
		for _, l := range logs {
			require.NoError(t, l.Append(line{N: 1}))
		}
		go func() { _ = logs[0].Sync() }()
		synctest.Wait()
		go func() { errs <- logs[2].Sync() }()
		require.NoError(t, logs[1].Sync())
		require.EqualError(t, <-errs, "journal: sync b.jsonl: input/output error")
		require.NoError(t, logs[1].Append(line{N: 2}))
		require.ErrorIs(t, logs[2].Append(line{N: 2}), syscall.EIO)
	})
}

// A log of which more was written than is kept is synced by itself.
func TestWhatIsTooMuchForTheCommitFileIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		fs.syncTime = time.Millisecond
		_, logs := opened(t, fs, "lead", "a", "b")
		for n := range 4 {
			require.NoError(t, logs[1].Append(line{N: n, Text: strings.Repeat("x", 400_000)}))
		}
		require.NoError(t, logs[2].Append(line{N: 0}))
		together(t, logs[0], logs[1:]...)
		assert.Empty(t, fs.content("commit.jsonl"))
		fs.powerCut(0)
		assert.Equal(t, []int{0, 1, 2, 3}, linesOf(t, fs, "a"))
	})
}

// A caller that waits for lines that another one's sync has just taken along leaves
// nothing in the commit file that a new process could not read.
func TestWaitingForWhatIsJustBeingMadeSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		fs.syncTime = 10 * time.Millisecond
		_, logs := opened(t, fs, "lead", "a", "b")
		for _, l := range logs[1:] {
			require.NoError(t, l.Append(line{N: 1}))
		}
		go together(t, logs[0], logs[1:]...)
		time.Sleep(15 * time.Millisecond) // the lead is through, a and b are being committed
		require.NoError(t, logs[1].Append(line{N: 2}))
		done := make(chan error, 2)
		for _, l := range logs[1:] {
			go func() { done <- l.Sync() }()
		}
		synctest.Wait()
		assert.Empty(t, done)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		fs.powerCut(0)
		assert.Equal(t, []int{1, 2}, linesOf(t, fs, "a"))
		assert.Equal(t, []int{1}, linesOf(t, fs, "b"))
	})
}

// Lines of a process that was killed need not be on the disk: a caller that goes on
// with the log and waits, waits for them too.
func TestWhatWasThereBeforeIsMadeSafeAsWell(t *testing.T) {
	for name, add := range map[string]func(*journal.Log) error{
		"alone":          func(l *journal.Log) error { return l.Sync() },
		"with a line":    func(l *journal.Log) error { _ = l.Append(line{N: 2}); return l.Sync() },
		"when it closes": (*journal.Log).Close,
	} {
		fs := newMemFS()
		fs.files["a.jsonl"] = &memFile{fs: fs, data: []byte("{\"n\":1}\n")}
		_, logs := opened(t, fs, "a")
		require.NoError(t, add(logs[0]), name)
		assert.Equal(t, len(fs.content("a.jsonl")), fs.files["a.jsonl"].synced, name)
	}
}

// Of a log whose last line lacks its line break each further line is one.
func TestLinesBehindOneWithoutALineBreak(t *testing.T) {
	fs := newMemFS()
	fs.files["a.jsonl"] = &memFile{fs: fs, data: []byte("{\"n\":1}")}
	_, logs := opened(t, fs, "a")
	require.NoError(t, logs[0].Append(line{N: 2}))
	require.NoError(t, logs[0].Append(line{N: 3}))
	require.NoError(t, logs[0].Close())
	assert.Equal(t, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", fs.content("a.jsonl"))
}

// A disk that fails while logs are mended loses nothing: the journal does not open, says
// what it was at, and with a disk that works all is there.
func TestADiskThatFailsWhileLogsAreMended(t *testing.T) {
	left := committed(t, line{N: 7})
	left.powerCut(0)
	for _, op := range []string{
		"open commit.jsonl", "read commit.jsonl", "truncate commit.jsonl", "sync commit.jsonl",
		"open a.jsonl", "read a.jsonl", "write a.jsonl", "sync a.jsonl", "close a.jsonl",
	} {
		t.Run(op, func(t *testing.T) {
			fs := &faultyFS{memFS: left.asItStands()}
			fs.fails(op)
			want := op
			if op == "truncate commit.jsonl" {
				want = "write commit.jsonl"
			}
			_, err := journal.Open(journal.Config{FS: fs})
			require.EqualError(t, err, "journal: "+want+": input/output error")
			if op != "sync commit.jsonl" { // the last thing that is done
				assert.Equal(t, left.content("commit.jsonl"), fs.content("commit.jsonl"))
			}
			fs.fails("")
			assert.Len(t, linesOf(t, fs, "a"), 100)
		})
	}
}

// If a log cannot be made safe at the end, what the commit file has for it stays there.
func TestTheCommitFileStaysIfALogCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &faultyFS{memFS: newMemFS()}
		fs.syncTime = time.Millisecond
		j, logs := opened(t, fs, "lead", "a", "b")
		for _, l := range logs[1:] {
			require.NoError(t, l.Append(line{N: 1}))
		}
		together(t, logs[0], logs[1:]...)
		fs.fails("sync a.jsonl")
		require.EqualError(t, j.Close(), "journal: sync a.jsonl: input/output error")
		fs.fails("")
		assert.Equal(t, []int{1}, linesOf(t, fs, "a"))
		assert.Equal(t, []int{1}, linesOf(t, fs, "b"))
	})
}

// What the system says when a log is closed is told.
func TestAnErrorOfClosingIsTold(t *testing.T) {
	fs := &faultyFS{memFS: newMemFS()}
	j, logs := opened(t, fs, "a", "b")
	for _, l := range logs {
		require.NoError(t, l.Append(line{N: 1}))
	}
	fs.fails("close a.jsonl")
	require.EqualError(t, logs[0].Close(), "journal: close a.jsonl: input/output error")
	fs.fails("sync b.jsonl, close b.jsonl")
	require.EqualError(t, j.Close(), "journal: sync b.jsonl: input/output error")
}
