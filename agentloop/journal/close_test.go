package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// A slowFS is a disk on which one operation with one file, such as "sync a.jsonl",
// takes its time.
type slowFS struct {
	*memFS
	op   string
	time time.Duration // guarded by the mutex of memFS
}

type slowFile struct {
	journal.File
	of   *slowFS
	name string
}

func (f *slowFS) takes(op string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op, f.time = op, d
}

func (f *slowFS) wait(op string) {
	f.mu.Lock()
	d := f.time
	if op != f.op {
		d = 0
	}
	f.mu.Unlock()
	time.Sleep(d)
}

func (f *slowFS) Open(name string) (journal.File, error) {
	f.wait("open " + name)
	file, err := f.memFS.Open(name)
	return &slowFile{file, f, name}, err
}

func (f *slowFS) hasLock() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.unlocked
}

func (f *slowFile) WriteAt(p []byte, at int64) (int, error) {
	f.of.wait("write " + f.name)
	return f.File.WriteAt(p, at)
}

func (f *slowFile) Sync() error {
	f.of.wait("sync " + f.name)
	return f.File.Sync()
}

func (f *slowFile) Read(p []byte) (int, error) {
	f.of.wait("read " + f.name)
	return f.File.Read(p)
}

func (f *slowFile) Close() error {
	f.of.wait("close " + f.name)
	return f.File.Close()
}

// Whatever the disk hangs in, Close returns after five seconds. The lock is kept
// until the disk is through.
func TestCloseReturnsThoughTheDiskHangs(t *testing.T) {
	const bound = 5 * time.Second
	for name, c := range map[string]struct {
		op    string
		at    func(j *journal.Journal, a *journal.Log) // is at the disk when it is closed
		names string                                   // the log in the error
	}{
		"in a sync of its own": {"sync a.jsonl", func(*journal.Journal, *journal.Log) {}, "a.jsonl"},
		"in somebody's sync":   {"sync a.jsonl", func(_ *journal.Journal, a *journal.Log) { _ = a.Sync() }, "a.jsonl"},
		"in a write":           {"write a.jsonl", func(_ *journal.Journal, a *journal.Log) { _ = a.Append(line{N: 2}) }, "a.jsonl"},
		"in opening a log":     {"open b.jsonl", func(j *journal.Journal, _ *journal.Log) { _, _, _ = j.Log("b") }, "b.jsonl"},
		"in reading a log":     {"read b.jsonl", func(j *journal.Journal, _ *journal.Log) { _, _, _ = j.Log("b") }, "b.jsonl"},
	} {
		for took, inTime := range map[time.Duration]bool{bound - 1: true, bound + 1: false, time.Hour: false} {
			t.Run(fmt.Sprint(name, ", ", took), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := &slowFS{memFS: newMemFS()}
					j, err := journal.Open(journal.Config{FS: fs, SyncEvery: -1})
					require.NoError(t, err)
					a, _, err := j.Log("a")
					require.NoError(t, err)
					require.NoError(t, a.Append(line{N: 1}))
					fs.takes(c.op, took)
					go c.at(j, a)
					synctest.Wait()
					if c.op == "read b.jsonl" {
						fs.takes("", 0) // the end of the file is another read
					}

					began := time.Now()
					err = j.Close()
					if inTime {
						require.NoError(t, err)
						assert.Equal(t, took, time.Since(began))
						assert.False(t, fs.hasLock())
						return
					}
					assert.Equal(t, bound, time.Since(began))
					require.ErrorIs(t, err, journal.ErrCloseTimeout)
					require.EqualError(t, err, "journal: close "+c.names+": the disk is not through after 5s")
					assert.NoError(t, j.Close())
					assert.True(t, fs.hasLock(), "lines may still be written")
					time.Sleep(took)
					synctest.Wait()
					assert.False(t, fs.hasLock())
					fs.takes("", 0)
					assert.Contains(t, linesOf(t, fs, "a"), 1)
				})
			})
		}
	}
}

// A disk that is slow with many logs is not one that hangs: they are closed at the same
// time. One that hangs with many names one of them.
func TestCloseOfManyLogsOnASlowDisk(t *testing.T) {
	for each, want := range map[time.Duration]string{
		time.Second:     "",
		6 * time.Second: "journal: close a00.jsonl: the disk is not through after 5s (nor with 99 other logs)",
	} {
		synctest.Test(t, func(t *testing.T) {
			fs := newMemFS()
			j, err := journal.Open(journal.Config{FS: fs, SyncEvery: -1})
			require.NoError(t, err)
			for i := range 100 {
				l, _, err := j.Log(fmt.Sprintf("a%02d", i))
				require.NoError(t, err)
				require.NoError(t, l.Append(line{N: i}))
			}
			fs.mu.Lock()
			fs.syncTime = each
			fs.mu.Unlock()
			began := time.Now()
			err = j.Close()
			if want == "" {
				require.NoError(t, err)
				assert.Equal(t, 2*time.Second, time.Since(began), "64 and 36")
			} else {
				require.EqualError(t, err, want)
				assert.Equal(t, 5*time.Second, time.Since(began))
				time.Sleep(time.Minute)
			}
		})
	}
}

// What models and tools said is for the journal's owner alone.
func TestOthersCannotReadAJournal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes do not say who may read a file")
	}
	dir := filepath.Join(t.TempDir(), "new", "run")
	j := open(t, journal.Config{Dir: dir})
	l, _, err := j.Log("agents/a")
	require.NoError(t, err)
	require.NoError(t, l.Append(line{N: 1}))
	for name, want := range map[string]os.FileMode{
		"..": 0o700, ".": 0o700, "agents": 0o700, "agents/a.jsonl": 0o600, "commit.jsonl": 0o600, "lock": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), name)
	}
}
