package journal_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// asItStands returns a copy of what a kill leaves.
func (f *memFS) asItStands() *memFS {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := newMemFS()
	for name, file := range f.files {
		left.files[name] = &memFile{fs: left, data: slices.Clone(file.data), synced: file.synced}
	}
	return left
}

// committed returns a journal of two logs of which lines stand in the commit file.
func committed(t *testing.T, value any) (left *memFS) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		fs.syncTime = time.Millisecond
		j := open(t, journal.Config{FS: fs, SyncEvery: -1})
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			l, _, err := j.Log(name)
			require.NoError(t, err)
			for range 2 {
				wg.Go(func() {
					for range 50 {
						assert.NoError(t, l.Append(value))
						assert.NoError(t, l.Sync())
					}
				})
			}
		}
		wg.Wait()
		require.NotEmpty(t, fs.content("commit.jsonl"))
		left = fs.asItStands()
	})
	return left
}

// opened returns a journal in a file system, and logs of it.
func opened(t *testing.T, fs journal.FS, names ...string) (j *journal.Journal, logs []*journal.Log) {
	t.Helper()
	return openedWith(t, journal.Config{FS: fs, SyncEvery: -1}, names...)
}

func openedWith(t *testing.T, cfg journal.Config, names ...string) (j *journal.Journal, logs []*journal.Log) {
	t.Helper()
	j = open(t, cfg)
	for _, name := range names {
		l, _, err := j.Log(name)
		require.NoError(t, err)
		logs = append(logs, l)
	}
	return j, logs
}

// together makes logs wait for the disk at the same time, while the first one has it
// alone, so that the others are committed with one sync. It needs a bubble and a disk
// that takes its time.
func together(t *testing.T, lead *journal.Log, others ...*journal.Log) {
	t.Helper()
	var wg sync.WaitGroup
	require.NoError(t, lead.Append(line{}))
	wg.Go(func() { assert.NoError(t, lead.Sync()) })
	synctest.Wait()
	for _, l := range others {
		wg.Go(func() { assert.NoError(t, l.Sync()) })
	}
	wg.Wait()
}

// linesOf returns what a new process finds in a log.
func linesOf(t *testing.T, fs journal.FS, name string) []int {
	t.Helper()
	j, err := journal.Open(journal.Config{FS: fs, SyncEvery: -1})
	require.NoError(t, err)
	defer j.Close()
	_, lines, err := j.Log(name)
	require.NoError(t, err)
	return numbers(t, lines)
}

// A byte that is no UTF-8 neither gets into a line nor harms those that are there.
func TestALineKeepsItsBytesThroughTheCommitFile(t *testing.T) {
	for name, raw := range map[string]string{"no UTF-8": "\"\xff\xfe\xff\"", "separators": "\"\u2028 \u00e4 \\u00e4 <&>\""} {
		t.Run(name, func(t *testing.T) {
			fs := committed(t, map[string]any{"extra": json.RawMessage(raw)})
			before := fs.content("a.jsonl")
			j := open(t, journal.Config{FS: fs})
			_, lines, err := j.Log("a")
			require.NoError(t, err)
			assert.Len(t, lines, 100)
			assert.Equal(t, before, fs.content("a.jsonl"))
			assert.Equal(t, strings.ToValidUTF8(before, "?"), before)
		})
	}
}

// What stands whole in a log is not written over.
func TestACommitFileThatIsNotOfTheLogIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(fs *memFS)
		err   string
		lines int
	}{
		"another line": {func(fs *memFS) {
			a := fs.files["a.jsonl"]
			copy(a.data[len(a.data)-len("{\"n\":7}\n"):], "{\"n\":8}\n")
		}, "another line stands at byte", 0},
		"too short a log": {func(fs *memFS) {
			c, a := fs.files["commit.jsonl"], fs.files["a.jsonl"]
			c.data = c.data[strings.LastIndex(string(c.data), `{"file":"a.jsonl"`):]
			a.data = a.data[:16]
		}, "which has 16", 0},
		"another format": {func(fs *memFS) {
			fs.files["commit.jsonl"].data = []byte("{\"file\":\"a.jsonl\",\"at\":0,\"data\":\"{}\\n\"}\n")
		}, "read commit.jsonl, line 1: cannot be read", 0},
		"a part before the beginning": {func(fs *memFS) {
			fs.files["commit.jsonl"].data = []byte("{\"file\":\"a.jsonl\",\"at\":-1,\"bytes\":\"e30K\"}\n")
		}, "read commit.jsonl, line 1: cannot be read", 0},
		"a part of no log": {func(fs *memFS) {
			fs.files["commit.jsonl"].data = []byte("{\"at\":0,\"bytes\":\"e30K\"}\n")
		}, "read commit.jsonl, line 1: cannot be read", 0},
		"a part without a line break": {func(fs *memFS) {
			fs.files["commit.jsonl"].data = []byte("{\"file\":\"a.jsonl\",\"at\":0,\"bytes\":\"e30=\"}\n")
		}, "another line stands at byte 0", 0},
		"a broken line before others": {func(fs *memFS) {
			fs.files["commit.jsonl"].data = append([]byte("{\"file\n"), fs.files["commit.jsonl"].data...)
		}, "read commit.jsonl, line 1: cannot be read, though lines come after it", 0},
		"rubbish after a power cut": {func(fs *memFS) {
			a := fs.files["a.jsonl"]
			copy(a.data[len(a.data)-8:], "{\"n\":\x00\x00\n")
		}, "", 100},
		"zeros after a power cut": {func(fs *memFS) {
			clear(fs.files["a.jsonl"].data[len(fs.files["a.jsonl"].data)-4:])
		}, "", 100},
		"a log that was removed": {func(fs *memFS) {
			c := fs.files["commit.jsonl"]
			c.data = c.data[strings.LastIndex(string(c.data), `{"file":"a.jsonl"`):]
			delete(fs.files, "a.jsonl")
		}, "", 0},
		"a log that was removed, of which not all is there": {func(fs *memFS) {
			c := fs.files["commit.jsonl"]
			c.data = []byte("{\"file\":\"a.jsonl\",\"at\":0,\"bytes\":\"e30K\"}\n{\"file\":\"a.jsonl\",\"at\":9,\"bytes\":\"e30K\"}\n")
			delete(fs.files, "a.jsonl")
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			fs := committed(t, line{N: 7})
			// The last line of a may have been synced apart.
			part, err := json.Marshal(map[string]any{"file": "a.jsonl", "at": len(fs.content("a.jsonl")) - 8, "bytes": []byte("{\"n\":7}\n")})
			require.NoError(t, err)
			fs.files["commit.jsonl"].data = append(fs.files["commit.jsonl"].data, string(part)+"\n"...)
			b := fs.files["b.jsonl"]
			b.data = b.data[:len(b.data)-8]
			c.spoil(fs)
			before := fs.asItStands()
			j, err := journal.Open(journal.Config{FS: fs})
			if c.err != "" {
				require.ErrorIs(t, err, journal.ErrCorrupt)
				assert.ErrorContains(t, err, c.err)
				for name := range before.files {
					assert.Equal(t, before.content(name), fs.content(name), "nothing is written")
				}
				return
			}
			require.NoError(t, err)
			defer j.Close()
			_, lines, err := j.Log("a")
			require.NoError(t, err)
			assert.Len(t, lines, c.lines)
		})
	}
}

// A line that the sweeper is just syncing is not on the disk yet. A caller that waits
// for a line after it waits for both.
func TestSyncWhileTheSweeperSyncsTheSameLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		j := open(t, journal.Config{FS: fs})
		logs := make(map[string]*journal.Log)
		for _, name := range []string{"a", "b", "c"} {
			l, _, err := j.Log(name)
			require.NoError(t, err)
			logs[name] = l
		}
		fs.files["a.jsonl"].slow, fs.files["c.jsonl"].slow = time.Hour, time.Second
		require.NoError(t, logs["a"].Append(line{N: 1}))
		time.Sleep(1500 * time.Millisecond) // the sweeper is at it
		for _, name := range slices.Sorted(maps.Keys(logs)) {
			require.NoError(t, logs[name].Append(line{N: 2}))
		}
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, logs["c"].Sync()) }) // leads alone
		synctest.Wait()
		start := time.Now()
		for _, name := range []string{"a", "b"} { // are committed together then
			wg.Go(func() { assert.NoError(t, logs[name].Sync()) })
		}
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(start), "it does not wait for the sweeper")
		for luck := range uint64(20) {
			dark := fs.asItStands()
			dark.powerCut(luck)
			after := open(t, journal.Config{FS: dark, SyncEvery: -1})
			_, lines, err := after.Log("a")
			require.NoError(t, err)
			require.Equal(t, []int{1, 2}, numbers(t, lines), "luck %d", luck)
		}
		fs.mu.Lock()
		fs.files["a.jsonl"].slow = 0
		fs.mu.Unlock()
		time.Sleep(time.Hour) // the sweeper is through then
	})
}

// Close waits for callers that are at the disk, and for a disk that hangs not for
// ever.
func TestCloseWhileOthersSync(t *testing.T) {
	for slow, want := range map[time.Duration]string{time.Second: "", time.Minute: "the disk is not through after 5s"} {
		synctest.Test(t, func(t *testing.T) {
			fs := newMemFS()
			fs.syncTime = time.Millisecond
			j, err := journal.Open(journal.Config{FS: fs, SyncEvery: -1})
			require.NoError(t, err)
			var wg sync.WaitGroup
			for i := range 6 {
				l, _, err := j.Log(fmt.Sprint(i))
				require.NoError(t, err)
				wg.Go(func() {
					for n := 0; l.Append(line{N: n}) == nil && l.Sync() == nil; n++ {
						time.Sleep(time.Millisecond)
						fs.mu.Lock()
						if f := fs.files["commit.jsonl"]; f != nil {
							f.slow = slow
						}
						fs.mu.Unlock()
					}
				})
			}
			time.Sleep(10 * time.Millisecond)
			start := time.Now()
			err = j.Close()
			fs.mu.Lock()
			assert.Equal(t, want == "", fs.unlocked, "what hangs may still be written")
			fs.mu.Unlock()
			if want == "" {
				require.NoError(t, err)
				assert.Less(t, time.Since(start), 2*slow)
				assert.Empty(t, fs.content("commit.jsonl"))
			} else {
				require.ErrorContains(t, err, want)
				assert.Equal(t, 5*time.Second, time.Since(start).Truncate(100*time.Millisecond))
			}
			wg.Wait()
			time.Sleep(2 * slow) // Close is through then, even if nobody waits for it
			again := open(t, journal.Config{FS: fs, SyncEvery: -1})
			for i := range 6 {
				_, _, err := again.Log(fmt.Sprint(i))
				require.NoError(t, err)
			}
		})
	}
}
