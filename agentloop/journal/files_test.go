package journal_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// A countedFS counts the files that are open, and has no more when it says so.
type countedFS struct {
	journal.FS
	mu         sync.Mutex
	open, most int
	opened     int
	scarce     func(open int) bool
	errno      syscall.Errno // that says so; EMFILE if it is none
	refused    error         // to open any more
	closeErr   error
}

type countedFile struct {
	journal.File
	of *countedFS
}

func (c *countedFS) Open(name string) (journal.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scarce != nil && c.scarce(c.open) {
		return nil, &os.PathError{Op: "open", Path: name, Err: cmp.Or(c.errno, syscall.EMFILE)}
	}
	if c.refused != nil {
		return nil, c.refused
	}
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.opened++
	c.open++
	c.most = max(c.most, c.open)
	return &countedFile{f, c}, nil
}

func (f *countedFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.open--
	if err := f.of.closeErr; err != nil {
		return err
	}
	return f.File.Close()
}

// Thousands of logs keep few files open, and nothing of what is written to them at
// the same time is lost or torn.
func TestManyLogsKeepFewFilesOpen(t *testing.T) {
	const logs, each = 400, 5
	for name, c := range map[string]struct{ set, bound int }{
		"the default":  {0, 96},
		"one":          {1, 1},
		"seven":        {7, 7},
		"without end":  {-1, logs},
		"more than is": {5000, logs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemFS()
				fs := &countedFS{FS: mem}
				for round := range 2 {
					j, err := journal.Open(journal.Config{FS: fs, MaxOpen: c.set})
					require.NoError(t, err)
					var wg sync.WaitGroup
					for i := range logs {
						wg.Go(func() {
							l, lines, err := j.Log(fmt.Sprintf("agents/a%d", i))
							if !assert.NoError(t, err) {
								return
							}
							assert.Len(t, lines, round*each)
							for n := range each {
								assert.NoError(t, l.Append(line{N: round*each + n}))
								if n%2 == i%2 {
									assert.NoError(t, l.Sync())
								}
							}
							if i%3 == 0 {
								assert.NoError(t, l.Close())
							}
						})
					}
					wg.Wait()
					time.Sleep(2 * time.Second) // the sweeper has its turn
					require.NoError(t, j.Close())
					assert.Zero(t, fs.open)
				}
				assert.LessOrEqual(t, fs.most, c.bound+1, "and the commit file")
				for i := range logs {
					want := ""
					for n := range 2 * each {
						want += fmt.Sprintf("{\"n\":%d}\n", n)
					}
					require.Equal(t, want, mem.content(fmt.Sprintf("agents/a%d.jsonl", i)))
				}
			})
		})
	}
}

// A log that is written to again and again stays open.
func TestALogInUseStaysOpen(t *testing.T) {
	fs := &countedFS{FS: newMemFS()}
	j := open(t, journal.Config{FS: fs, MaxOpen: 2, SyncEvery: -1})
	a, _, err := j.Log("a")
	require.NoError(t, err)
	for i := range 20 {
		b, _, err := j.Log(fmt.Sprint("b", i))
		require.NoError(t, err)
		require.NoError(t, b.Append(line{N: i}))
		before := fs.opened
		require.NoError(t, a.Append(line{N: i}))
		require.Equal(t, before, fs.opened)
	}
}

// When the process has no file left a write waits for one, first for those that
// the journal itself has no use for, and then for others to close theirs.
func TestFilesAreScarce(t *testing.T) {
	for name, c := range map[string]struct {
		others time.Duration // when they close theirs
		room   int           // files that the journal may have until then
		err    bool
		errno  syscall.Errno
	}{
		"its own are enough":    {time.Hour, 1, false, 0},
		"others close in time":  {9 * time.Second, 0, false, 0},
		"others close too late": {11 * time.Second, 0, true, 0},
		"other processes":       {9 * time.Second, 0, false, syscall.ENFILE},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := newMemFS()
				fs := &countedFS{FS: mem, errno: c.errno}
				j := open(t, journal.Config{FS: fs})
				var logs []*journal.Log
				for i := range 10 {
					l, _, err := j.Log(fmt.Sprint("a", i))
					require.NoError(t, err)
					require.NoError(t, l.Append(line{N: 1}))
					logs = append(logs, l)
				}
				start := time.Now()
				fs.scarce = func(open int) bool { return time.Since(start) < c.others && open >= c.room }
				extra, _, err := j.Log("extra")
				if c.room > 0 {
					require.NoError(t, err)
					assert.Zero(t, time.Since(start))
				} else if c.err {
					require.ErrorIs(t, err, syscall.EMFILE)
					assert.ErrorContains(t, err, "journal: open extra.jsonl")
					assert.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
					time.Sleep(2 * time.Second)
					extra, _, err = j.Log("extra")
					require.NoError(t, err, "it is only for now")
				} else {
					require.NoError(t, err)
				}
				for i, l := range append(logs, extra) {
					require.NoError(t, l.Append(line{N: 2}), i)
				}
				require.NoError(t, j.Close())
				assert.Equal(t, "{\"n\":1}\n{\"n\":2}\n", mem.content("a9.jsonl"))
			})
		})
	}
}

// Files are counted right: what could not be opened, and what was closed, takes no
// room from those that are in use.
func TestWhatIsNotOpenTakesNoRoom(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, fs *countedFS, j *journal.Journal, logs []*journal.Log){
		"could not be opened": func(t *testing.T, fs *countedFS, j *journal.Journal, logs []*journal.Log) {
			fs.refused = syscall.EACCES
			for i := range 10 {
				time.Sleep(time.Millisecond)
				_ = logs[i%4].Append(line{N: 1})
			}
			fs.refused = nil
		},
		"was closed": func(t *testing.T, _ *countedFS, j *journal.Journal, _ []*journal.Log) {
			for i := range 10 {
				l, _, err := j.Log(fmt.Sprint("other", i))
				require.NoError(t, err)
				require.NoError(t, l.Close())
			}
		},
		"was closed for want of files": func(t *testing.T, fs *countedFS, _ *journal.Journal, logs []*journal.Log) {
			fs.scarce = func(open int) bool { return open > 0 }
			for i := range 10 {
				require.NoError(t, logs[i%4].Append(line{N: 1}))
			}
			fs.scarce = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := &countedFS{FS: newMemFS()}
			j, logs := openedWith(t, journal.Config{FS: fs, MaxOpen: 3, SyncEvery: -1}, "a", "b", "c", "d")
			before(t, fs, j, logs)
			fs.most = 0
			for i := range 30 {
				if i == 4 {
					fs.opened = 0
				}
				require.NoError(t, logs[1+i%3].Append(line{N: i}))
			}
			assert.Zero(t, fs.opened, "those in use stay open")
			for i := range 30 {
				require.NoError(t, logs[i%4].Append(line{N: i}))
			}
			assert.LessOrEqual(t, fs.most, 3)
		})
	}
}

// Other errors than that files are scarce are told at once.
func TestOtherErrorsOfOpeningAreToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Config{Dir: dir})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents"), nil, 0o600))
	began := time.Now()
	_, _, err := j.Log("agents/a")
	assert.ErrorContains(t, err, "journal: open agents/a.jsonl")
	assert.Less(t, time.Since(began), 5*time.Second)
}

// A log that somebody has cut or taken away while its file was closed is not
// written behind a hole.
func TestALogThatLostItsEndMeanwhileIsNotContinued(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"left alone": func(string) error { return nil },
		"cut":        func(path string) error { return os.Truncate(path, 3) },
		"taken away": os.Remove,
		"replaced":   func(path string) error { return os.WriteFile(path, []byte("{}\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, journal.Config{Dir: dir, MaxOpen: 1, SyncEvery: -1})
			a, _, err := j.Log("a")
			require.NoError(t, err)
			require.NoError(t, a.Append(line{N: 1, Text: "long enough"}))
			b, _, err := j.Log("b") // now a is closed
			require.NoError(t, err)
			require.NoError(t, harm(filepath.Join(dir, "a.jsonl")))
			if name == "left alone" {
				require.NoError(t, a.Append(line{N: 2}))
				require.NoError(t, b.Append(line{N: 2}))
				require.NoError(t, a.Sync())
				return
			}
			assert.ErrorIs(t, a.Append(line{N: 2}), journal.ErrCorrupt)
			assert.ErrorIs(t, a.Sync(), journal.ErrCorrupt, "what is gone is not on the disk")
			assert.NoError(t, b.Append(line{N: 2}))
			data, _ := os.ReadFile(filepath.Join(dir, "a.jsonl"))
			assert.NotContains(t, string(data), "\x00")
		})
	}
}

// What the system says when a file is closed to make room is not lost.
func TestAnErrorOfClosingMeanwhileIsTold(t *testing.T) {
	fs := &countedFS{FS: newMemFS()}
	j, err := journal.Open(journal.Config{FS: fs, MaxOpen: 1, SyncEvery: -1})
	require.NoError(t, err)
	a, _, err := j.Log("a")
	require.NoError(t, err)
	require.NoError(t, a.Append(line{N: 1}))
	fs.closeErr = syscall.EIO
	b, _, err := j.Log("b")
	require.NoError(t, err)
	fs.closeErr = nil
	assert.ErrorIs(t, a.Append(line{N: 2}), syscall.EIO)
	assert.NoError(t, b.Append(line{N: 2}))
	assert.ErrorIs(t, j.Close(), syscall.EIO)
}

// What a kill has left for many logs is put into them with few files open.
func TestManyLogsAreMendedWithFewFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const logs = 300
		mem := newMemFS()
		mem.syncTime = time.Millisecond // so that others gather meanwhile
		fs := &countedFS{FS: mem}
		j := open(t, journal.Config{FS: fs, SyncEvery: -1})
		var wg sync.WaitGroup
		for i := range logs {
			l, _, err := j.Log(fmt.Sprint("agents/a", i))
			require.NoError(t, err)
			wg.Go(func() {
				for n := range 3 {
					_ = l.Append(line{N: n})
					_ = l.Sync()
				}
			})
		}
		wg.Wait()
		parts := bytes.Count([]byte(mem.content("commit.jsonl")), []byte("\n"))
		require.Greater(t, parts, logs, "most were made safe together")
		left := mem.asItStands()
		left.powerCut(1)
		after := &countedFS{FS: left}
		j = open(t, journal.Config{FS: after, MaxOpen: 2})
		assert.LessOrEqual(t, after.most, 3)
		for i := range logs {
			l, lines, err := j.Log(fmt.Sprint("agents/a", i))
			require.NoError(t, err)
			require.Equal(t, []int{0, 1, 2}, numbers(t, lines))
			require.NoError(t, l.Close())
		}
		assert.LessOrEqual(t, after.most, 3)
	})
}
