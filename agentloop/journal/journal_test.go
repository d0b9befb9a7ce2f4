package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// asHolder makes the test binary a process that holds a journal.
const asHolder = "JOURNAL_TEST_HOLDS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHolder); dir != "" {
		_, err := journal.Open(journal.Config{Dir: dir})
		fmt.Println("holds", err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type line struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func open(t testing.TB, cfg journal.Config) *journal.Journal {
	t.Helper()
	j, err := journal.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func numbers(t testing.TB, lines []json.RawMessage) (list []int) {
	t.Helper()
	for _, raw := range lines {
		var l line
		require.NoError(t, json.Unmarshal(raw, &l))
		list = append(list, l.N)
	}
	return list
}

func TestLinesAreThereAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "run")
	for round := range 3 {
		j := open(t, journal.Config{Dir: dir})
		for _, name := range []string{"run", "agents/Anna", "agents/" + journal.Escape("../b / ü?"), "agents/" + strings.Repeat("x", 500)} {
			l, lines, err := j.Log(name)
			require.NoError(t, err)
			assert.Equal(t, []int{0, 1, 2, 3}[:2*round], append([]int{}, numbers(t, lines)...))
			require.NoError(t, l.Append(line{N: 2 * round, Text: "a\nb <&>"}))
			require.NoError(t, l.Append(line{N: 2*round + 1}))
			if round == 1 {
				require.NoError(t, l.Sync())
				require.NoError(t, l.Close())
				assert.ErrorIs(t, l.Append(line{}), journal.ErrClosed)
				assert.ErrorIs(t, l.Sync(), journal.ErrClosed)
				assert.NoError(t, l.Close())
			}
			if round == 0 {
				_, _, err = j.Log(name)
				assert.ErrorContains(t, err, "it is open already")
			}
			if round == 2 {
				return
			}
		}
		require.NoError(t, j.Close())
		require.NoError(t, j.Close())
		_, _, err := j.Log("run")
		assert.ErrorIs(t, err, journal.ErrClosed)
	}
	files, err := filepath.Glob(filepath.Join(dir, "agents", "*"))
	require.NoError(t, err)
	assert.Len(t, files, 3, "none outside of its folder")
}

// A log's file has the name that docs/journal.md says.
func TestNamesOfFiles(t *testing.T) {
	for name, file := range map[string]string{
		"run":                                "run.jsonl",
		"agents/azAZ09-_":                    "agents/azAZ09-_.jsonl",
		"agents/v1.2":                        "agents/v1.2.jsonl",
		"agents/.hidden":                     "agents/%2Ehidden.jsonl",
		"agents/..":                          "agents/%2E..jsonl",
		"agents/":                            "agents/%.jsonl",
		"agents/a b\\ü":                      "agents/a%20b%5C%C3%BC.jsonl",
		"agents/@[`{/:":                      "agents/%40%5B%60%7B/%3A.jsonl",
		"agents/" + journal.Escape("a/b%2F"): "agents/a%252Fb%25252F.jsonl",
		"agents/" + strings.Repeat("x", 200): "agents/" + strings.Repeat("x", 200) + ".jsonl",
		"agents/" + strings.Repeat("x", 200) + "y": "agents/" + strings.Repeat("x", 183) + "-",
	} {
		fs := newMemFS()
		_, _ = opened(t, fs, name)
		delete(fs.files, "commit.jsonl")
		for got := range fs.files {
			if strings.HasSuffix(file, "-") {
				assert.Len(t, got, len("agents/.jsonl")+200)
				got = got[:len(file)]
			}
			assert.Equal(t, file, got)
		}
	}
}

func TestTornLines(t *testing.T) {
	whole := "{\"n\":1}\n{\"n\":2}\n"
	for name, c := range map[string]struct {
		data string
		want []int
		err  string
	}{
		"none":                           {whole, []int{1, 2}, ""},
		"the last, in its middle":        {whole + `{"n":`, []int{1, 2}, ""},
		"the last, at its first byte":    {whole + `{`, []int{1, 2}, ""},
		"only its line break":            {strings.TrimSuffix(whole, "\n"), []int{1, 2}, ""},
		"with a line break":              {whole + "{\"n\":\n", []int{1, 2}, ""},
		"several, after a power cut":     {whole + "\x00\x00\x00\n\x00\x00", []int{1, 2}, ""},
		"a number alone is no line":      {whole + "17\n", []int{1, 2}, ""},
		"longer than what comes next":    {whole + `{"n":3,"text":"` + strings.Repeat("x", 100), []int{1, 2}, ""},
		"all":                            {"{\"n\"", nil, ""},
		"in the middle":                  {"{\"n\":1}\n{\"n\"\n{\"n\":3}\n", nil, "journal: read agents/a.jsonl, line 2: cannot be read, though lines come after it"},
		"in the middle, and at the end":  {"{\"n\":1}\n\n\n{\"n\":3}\n{", nil, "journal: read agents/a.jsonl, line 2: cannot be read"},
		"two in one, as without a break": {"{\"n\":1}{\"n\":2}\n{\"n\":3}\n", nil, "journal: read agents/a.jsonl, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "agents", "a.jsonl")
			require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(c.data), 0o600))
			j := open(t, journal.Config{Dir: dir})
			l, lines, err := j.Log("agents/a")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, journal.ErrCorrupt)
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				assert.Equal(t, c.data, string(data), "nothing is thrown away")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, numbers(t, lines))
			require.NoError(t, l.Append(line{N: 7}))
			require.NoError(t, l.Close())
			_, lines, err = j.Log("agents/a")
			require.NoError(t, err)
			assert.Equal(t, append(c.want, 7), numbers(t, lines), "what comes after is not glued to it")
		})
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHolder+"="+dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	buf := make([]byte, 64)
	n, _ := out.Read(buf)
	require.Equal(t, "holds <nil>\n", string(buf[:n]))

	_, err = journal.Open(journal.Config{Dir: dir})
	require.ErrorIs(t, err, journal.ErrLocked)
	assert.EqualError(t, err, fmt.Sprintf("journal: lock %s: another process writes to it (process %d)", dir, cmd.Process.Pid))

	// Killed, it holds nothing any more.
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	_ = in.Close()
	open(t, journal.Config{Dir: dir})
	_, err = journal.Open(journal.Config{Dir: dir})
	assert.ErrorIs(t, err, journal.ErrLocked, "not even twice in one process")
}

func TestWhatCannotBeOpened(t *testing.T) {
	_, err := journal.Open(journal.Config{})
	assert.EqualError(t, err, "journal: Dir is empty")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = journal.Open(journal.Config{Dir: file})
	assert.ErrorIs(t, err, syscall.ENOTDIR)
	e, ok := errors.AsType[*journal.Error](err)
	require.True(t, ok)
	assert.Equal(t, "lock", e.Op)

	j := open(t, journal.Config{Dir: t.TempDir()})
	l, _, err := j.Log("a")
	require.NoError(t, err)
	assert.ErrorContains(t, l.Append(func() {}), "journal: encode a.jsonl")
	require.NoError(t, os.Mkdir(filepath.Join(j.Dir(), "b.jsonl"), 0o755))
	_, _, err = j.Log("b")
	assert.ErrorContains(t, err, "journal: open b.jsonl: ")
}

// memFS is a disk that can be full, and fail.
type memFS struct {
	mu       sync.Mutex
	files    map[string]*memFile
	room     int // bytes left
	syncs    atomic.Int32
	syncTime time.Duration
	syncErr  error
	unlocked bool
}

// memLock is the lock of a memFS.
type memLock memFS

func (l *memLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlocked = true
	return nil
}

type memFile struct {
	fs     *memFS
	data   []byte
	read   int
	stuck  bool // it cannot be made shorter
	slow   time.Duration
	synced int
}

func newMemFS() *memFS { return &memFS{files: map[string]*memFile{}, room: 1 << 30} }

func (f *memFS) Open(name string) (journal.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files[name] == nil {
		f.files[name] = &memFile{fs: f}
	}
	f.files[name].read = 0
	return f.files[name], nil
}
func (f *memFS) Lock(string) (io.Closer, error) { return (*memLock)(f), nil }
func (f *memFS) content(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.files[name].data)
}

func (f *memFile) Read(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := copy(p, f.data[f.read:])
	if f.read += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := min(len(p), f.fs.room)
	f.fs.room -= n
	for len(f.data) < int(at) { // a hole
		f.data = append(f.data, 0)
	}
	if end := int(at) + n; end < len(f.data) {
		copy(f.data[at:], p[:n])
	} else {
		f.data = append(f.data[:at:at], p[:n]...)
	}
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}
func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.stuck {
		return syscall.EIO
	}
	f.fs.room += len(f.data) - int(size)
	f.data = f.data[:size]
	f.synced = min(f.synced, int(size))
	return nil
}
func (f *memFile) Sync() error {
	f.fs.syncs.Add(1)
	f.fs.mu.Lock()
	seen, slow := len(f.data), f.fs.syncTime+f.slow
	f.fs.mu.Unlock()
	time.Sleep(slow)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.synced = min(max(f.synced, seen), len(f.data))
	return f.fs.syncErr
}
func (f *memFile) Close() error { return nil }

// A full disk costs the line that did not fit, and nothing else; when there is
// room again it goes on.
func TestAFullDisk(t *testing.T) {
	for name, stuck := range map[string]bool{"that lets go": false, "that does not": true} {
		for room := range 9 {
			fs := newMemFS()
			j := open(t, journal.Config{FS: fs, SyncEvery: -1})
			l, _, err := j.Log("a")
			require.NoError(t, err)
			require.NoError(t, l.Append(line{N: 1}))
			fs.files["a.jsonl"].stuck = stuck
			fs.room = room
			err = l.Append(line{N: 2}) // eight bytes
			if room == 8 {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, syscall.ENOSPC, name)
			require.EqualError(t, err, "journal: write a.jsonl: no space left on device")
			fs.room = 1000
			err = l.Append(line{N: 3})
			if stuck && room > 0 {
				assert.ErrorIs(t, err, syscall.EIO, "nothing is written behind half a line")
				fs.files["a.jsonl"].stuck = false
				err = l.Append(line{N: 3})
			}
			require.NoError(t, err)
			assert.Equal(t, "{\"n\":1}\n{\"n\":3}\n", fs.content("a.jsonl"))
		}
	}
}

// Callers that wait for the disk at the same time wait together.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		fs.syncTime = 10 * time.Millisecond
		j := open(t, journal.Config{FS: fs})
		var logs []*journal.Log
		for i := range 45 {
			l, _, err := j.Log(fmt.Sprint("agents/", i))
			require.NoError(t, err)
			logs = append(logs, l)
		}
		start := time.Now()
		var wg sync.WaitGroup
		for _, l := range logs {
			for k := range 3 { // three that write to one log
				wg.Go(func() {
					assert.NoError(t, l.Append(line{N: k}))
					assert.NoError(t, l.Sync())
				})
			}
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(start), 30*time.Millisecond, "the first, then all who came meanwhile")
		assert.LessOrEqual(t, int(fs.syncs.Load()), 3, "one sync for all")
		n := fs.syncs.Load()
		require.NoError(t, logs[0].Sync())
		assert.Equal(t, n, fs.syncs.Load(), "nothing to do")

		fs.powerCut(0)
		again := open(t, journal.Config{FS: fs})
		for i := range logs {
			_, lines, err := again.Log(fmt.Sprint("agents/", i))
			require.NoError(t, err)
			assert.Len(t, lines, 3)
		}
	})
}

// powerCut leaves of each file what was synced, and of the rest what luck wants:
// nothing, a part, or zeros in its place.
func (f *memFS) powerCut(luck uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := rand.New(rand.NewPCG(luck, 7))
	for _, file := range f.files {
		rest := slices.Clone(file.data[min(file.synced, len(file.data)):])
		switch r.IntN(3) {
		case 0:
			rest = nil
		case 1:
			rest = rest[:r.IntN(len(rest)+1)]
		default:
			clear(rest[r.IntN(len(rest)+1):])
		}
		file.data = append(slices.Clone(file.data[:min(file.synced, len(file.data))]), rest...)
	}
}

// Whatever a power cut leaves, what was waited for is there, and in order.
func TestWhatWasSyncedSurvivesAPowerCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(50) {
		synctest.Test(t, func(t *testing.T) { powerCuts(t, seed, round) })
	}
}

func powerCuts(t *testing.T, seed, round uint64) {
	luck := rand.New(rand.NewPCG(seed, round))
	fs := newMemFS()
	fs.syncTime = time.Millisecond // so that others gather meanwhile
	together := 0
	sure := make([]int, 5) // lines of each log that somebody has waited for
	next := make([]int, 5)
	for range 3 { // power cuts
		j, err := journal.Open(journal.Config{FS: fs, SyncEvery: -1})
		require.NoError(t, err, "seed %d, round %d", seed, round)
		var logs []*journal.Log
		for i := range sure {
			l, lines, err := j.Log(fmt.Sprint("agents/", i))
			require.NoError(t, err, "seed %d, round %d", seed, round)
			got := numbers(t, lines)
			require.GreaterOrEqual(t, len(got), sure[i], "seed %d, round %d", seed, round)
			for n, have := range got {
				require.Equal(t, n, have, "seed %d, round %d", seed, round)
			}
			next[i] = len(got)
			logs = append(logs, l)
		}
		for range 5 + luck.IntN(15) {
			var wg sync.WaitGroup
			for i, l := range logs {
				if luck.IntN(3) == 0 {
					continue
				}
				require.NoError(t, l.Append(line{N: next[i], Text: strings.Repeat("x", luck.IntN(50))}))
				next[i]++
				if luck.IntN(3) > 0 {
					wg.Go(func() {
						if assert.NoError(t, l.Sync()) {
							sure[i] = next[i]
						}
					})
				}
			}
			wg.Wait()
		}
		together += len(fs.content("commit.jsonl"))
		fs.powerCut(luck.Uint64())
	}
	require.NotZero(t, together, "some were made safe together")
}

// The file that lines are made safe in does not grow for ever.
func TestTheCommitFileBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		fs.syncTime = time.Millisecond
		j, logs := opened(t, fs, "lead", "a", "b")
		text := strings.Repeat("x", 300_000)
		most, anew := 0, 0
		for n := 0; anew < 2; n++ {
			before := len(fs.content("commit.jsonl"))
			for _, l := range logs[1:] {
				require.NoError(t, l.Append(line{N: n, Text: text}))
			}
			together(t, logs[0], logs[1:]...)
			now := len(fs.content("commit.jsonl"))
			most = max(most, before)
			if now < before {
				anew++
				dark := fs.asItStands()
				dark.powerCut(uint64(n))
				assert.Len(t, linesOf(t, dark, "a"), n+1, "what stood in it is in the logs")
			} else {
				assert.InDelta(t, 800_000, now-before, 10_000, "each line is in it once")
			}
		}
		assert.InDelta(t, 8<<20, most, 1<<20)
		require.NoError(t, logs[1].Append(line{N: -1}))
		require.NoError(t, logs[2].Append(line{N: -1}))
		together(t, logs[0], logs[1:]...)
		dark := fs.asItStands()
		dark.powerCut(1)
		assert.Contains(t, linesOf(t, dark, "a"), -1, "it begins at its beginning")
		require.NoError(t, j.Close())
		assert.Empty(t, fs.content("commit.jsonl"))
		_, _, err := open(t, journal.Config{FS: fs}).Log("commit")
		assert.ErrorContains(t, err, "the name is taken")
	})
}

func TestWhatNobodyWaitsForIsSyncedSoon(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{0: time.Second, time.Minute: time.Minute, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			fs := newMemFS()
			j := open(t, journal.Config{FS: fs, SyncEvery: every})
			l, _, err := j.Log("a")
			require.NoError(t, err)
			require.NoError(t, l.Append(line{N: 1}))
			require.NoError(t, l.Append(line{N: 2}))
			for again := range int32(2) { // the next line is like the first
				if want > 0 {
					time.Sleep(want - 1)
					synctest.Wait()
					assert.Equal(t, again, fs.syncs.Load())
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					assert.Equal(t, again+1, fs.syncs.Load())
				} else {
					time.Sleep(time.Hour)
					synctest.Wait()
					assert.Zero(t, fs.syncs.Load())
				}
				time.Sleep(time.Hour)
				require.NoError(t, l.Append(line{N: 3}))
			}
			before := fs.syncs.Load()
			require.NoError(t, j.Close())
			assert.Equal(t, before+1, fs.syncs.Load(), "and at the end in any case")
			assert.Equal(t, len(fs.files["a.jsonl"].data), fs.files["a.jsonl"].synced)
		})
	}
}

// A disk that failed once to sync is not believed any more.
func TestAFailedSyncIsTheEndOfALog(t *testing.T) {
	fs := newMemFS()
	j := open(t, journal.Config{FS: fs, SyncEvery: -1})
	l, _, err := j.Log("a")
	require.NoError(t, err)
	require.NoError(t, l.Append(line{N: 1}))
	fs.syncErr = syscall.EIO
	require.EqualError(t, l.Sync(), "journal: sync a.jsonl: input/output error")
	fs.syncErr = nil
	require.ErrorIs(t, l.Sync(), syscall.EIO)
	require.ErrorIs(t, l.Append(line{N: 2}), syscall.EIO)
	assert.Equal(t, "{\"n\":1}\n", fs.content("a.jsonl"))
}

// Whatever is in a file, opening it gives the whole lines and leaves a file that
// gives them again, or an error that changes nothing.
func FuzzLog(f *testing.F) {
	f.Add([]byte("{}\n{\"a\":1}\n{\"b"))
	f.Add([]byte("\n\n{}"))
	f.Add([]byte("{}{}\n"))
	f.Add([]byte("{}\n{\"text\":\"torn, and longer than the next line"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := newMemFS()
		fs.files["a.jsonl"] = &memFile{fs: fs, data: data}
		j := open(t, journal.Config{FS: fs, SyncEvery: -1})
		l, lines, err := j.Log("a")
		if err != nil {
			if !errors.Is(err, journal.ErrCorrupt) || string(data) != fs.content("a.jsonl") {
				t.Fatalf("%v, left %q of %q", err, fs.content("a.jsonl"), data)
			}
			return
		}
		if err := errors.Join(l.Append(line{N: 1}), l.Close()); err != nil {
			t.Fatal(err)
		}
		_, again, err := j.Log("a")
		if err != nil || len(again) != len(lines)+1 || !strings.HasSuffix(fs.content("a.jsonl"), "{\"n\":1}\n") {
			t.Fatalf("%d lines, then %d in %q, %v", len(lines), len(again), fs.content("a.jsonl"), err)
		}
	})
}
