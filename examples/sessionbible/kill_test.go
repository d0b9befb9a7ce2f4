//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

var (
	kills    = flag.Int("kills", 20, "how often TestKilledRunsGoOn kills the program")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments at which it does; 0 takes one from the clock")
)

// Killed at any moment, over and over, while 45 agents work under faults, the
// program goes on: in the end each article is there once, whole, and no journal was
// ever unreadable.
func TestKilledRunsGoOn(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d kills, -kill-seed %d", *kills, seed)
	luck := rand.New(rand.NewPCG(seed, 1))
	s, err := readSession("")
	require.NoError(t, err)
	plan := planArticles(s, 0)

	killed, books, resumed := 0, 0, 0
	for killed < *kills || books == 0 {
		dir := filepath.Join(t.TempDir(), "bible")
		file := filepath.Join(filepath.Dir(dir), "report.json")
		args := []string{"-out", dir, "-report", file}
		for done := false; !done; {
			// Other faults each time: with the same ones no agent gets further
			// than the first before it is killed.
			cmd := program(t, append(args, "-seed", strconv.FormatUint(luck.Uint64N(1000), 10))...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			require.NoError(t, cmd.Start())
			if killed < *kills {
				// Mostly in the thick of it, at times in the first moments.
				after := time.Duration(luck.Int64N(int64(1500 * time.Millisecond)))
				if luck.IntN(4) == 0 {
					after /= 20
				}
				timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
				err = cmd.Wait()
				timer.Stop()
			} else {
				err = cmd.Wait()
			}
			if done = err == nil; !done {
				require.Equal(t, -1, cmd.ProcessState.ExitCode(), "killed, and nothing else: %s", stderr.String())
				killed++
				checkJournals(t, dir)
			}
			// Before the folder was made ready there is nothing to go on with.
			if _, err := os.Stat(filepath.Join(dir, markerFile)); err == nil && len(args) == 4 {
				args = append(args, "-resume")
			}
		}
		r := &ran{dir: dir}
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r.report))
		checkBook(t, r, s, plan)
		checkNoLeavings(t, dir)
		for _, a := range r.report.Agents {
			resumed += a.Replayed
		}
		books++
	}
	assert.Positive(t, resumed, "something was taken over from runs that were killed")
	t.Logf("%d kills, %d books, %d answers taken over", killed, books, resumed)
}

// checkJournals reads all journals of a book as the next run will.
func checkJournals(t *testing.T, dir string) {
	t.Helper()
	root := filepath.Join(dir, journalDir)
	if _, err := os.Stat(root); err != nil {
		return // killed before
	}
	j, err := journal.Open(journal.Config{Dir: root})
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".jsonl"); ok && d.Name() != "commit.jsonl" {
			name, err := filepath.Rel(root, name)
			require.NoError(t, err)
			l, _, err := j.Log(name)
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
		return err
	}))
}

// checkNoLeavings looks for what killed runs left half written.
func checkNoLeavings(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		assert.NotEqual(t, ".tmp", filepath.Ext(path))
		return err
	}))
}

// A disk on which files find no room costs the run, and no work: with room again
// it goes on.
func TestAFullDiskCostsNoWork(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bible")
	file := filepath.Join(filepath.Dir(dir), "report.json")
	args := []string{"-out", dir, "-report", file, "-articles", "5", "-faults", "none", "-habits", "none"}
	self, err := os.Executable()
	require.NoError(t, err)
	// No file may have more than 4 KiB: journals and articles soon have.
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -f 8; exec "$0" "$@"`, self}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	require.Equal(t, exitNotDone, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Contains(t, stderr.String(), "journal cannot be written")
	checkJournals(t, dir)
	articles, err := filepath.Glob(filepath.Join(dir, articlesDir, "*"))
	require.NoError(t, err)
	assert.Empty(t, articles, "none is there in part")

	again := program(t, append(args, "-resume")...)
	var out bytes.Buffer
	again.Stderr = &out
	require.NoError(t, again.Run(), out.String())
	s, err := readSession("")
	require.NoError(t, err)
	r := &ran{dir: dir}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r.report))
	checkBook(t, r, s, planArticles(s, 5))
	checkNoLeavings(t, dir)
	taken := 0
	for _, a := range r.report.Agents {
		taken += a.Replayed
	}
	assert.Positive(t, taken, "what was read before is not read again")
}

// Where nothing can be written nothing begins, and what is there stays.
func TestAFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bible")
	args := []string{"-articles", "2", "-faults", "none", "-habits", "none", "-out", dir}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitDone, run(t.Context(), args, &stdout, &stderr), stderr.String())
	before, err := filepath.Glob(filepath.Join(dir, articlesDir, "*"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, journalDir)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, journalDir), []byte("in the way"), 0o600))

	stderr.Reset()
	assert.Equal(t, exitUsage, run(t.Context(), append(args, "-resume"), &stdout, &stderr))
	assert.Regexp(t, `^going on: 2 of 2 are done\nsessionbible: -out: journal: lock .*not a directory\n$`, stderr.String())
	after, err := filepath.Glob(filepath.Join(dir, articlesDir, "*"))
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestWhatCannotBeResumed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	quick := []string{"-faults", "none", "-habits", "none"}
	try := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, exitUsage, run(t.Context(), append(args, quick...), &stdout, &stderr))
		return stderr.String()
	}
	book := filepath.Join(dir, "book")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitDone, run(t.Context(), append(quick, "-out", book, "-articles", "2"), &stdout, &stderr), stderr.String())
	assert.Contains(t, try("-resume", "-out", filepath.Join(dir, "none")), "-resume: there is no book in ")
	assert.Contains(t, try("-resume", "-out", book, "-articles", "3"), "is planned for 2 articles, not for 3")
	other := filepath.Join(dir, "other.json")
	require.NoError(t, os.WriteFile(other, []byte(small), 0o600))
	assert.Regexp(t, `-resume: the book in .* is of session ".*", not of ".*"`, try("-resume", "-out", book, other))
	assert.Contains(t, try("-resume", "-naive"), "-naive keeps no journal")

	// What is done stays done, and nobody is asked.
	stderr.Reset()
	require.Equal(t, exitDone, run(t.Context(), append(quick, "-out", book, "-articles", "2", "-resume", "-faults", "500=1"), &stdout, &stderr), stderr.String())
}
