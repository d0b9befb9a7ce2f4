//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A session given as the report, by a slip of the shell, is not written over.
func TestWhatIsNoReportIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"session.json": `{"info":{},"messages":[]}`, "notes.txt": "notes", "lines.jsonl": "{}\n{}\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		assert.ErrorContains(t, checkReport(file), "no report of an earlier run", name)
	}
	for name, text := range map[string]string{"empty": "", "report.json": `{"run":{"id":"1"},"totals":{"saved":1},"agents":[]}`} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		assert.NoError(t, checkReport(file), name)
	}
}

func TestLinksAreFollowedAndStay(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(in("far/deep"), 0o755))
	require.NoError(t, os.WriteFile(in("far/old"), []byte(`{"run":{},"totals":{},"agents":[]}`), 0o644))
	for link, to := range map[string]string{
		"to-file": "far/old", "to-link": "to-file", "to-none": in("far/new"), "folder": "far/deep", "far/deep/up": "../other",
	} {
		require.NoError(t, os.Symlink(to, in(link)))
	}
	for name, lands := range map[string]string{
		"to-link": "far/old", "to-none": "far/new", "folder/up": "far/other",
	} {
		require.NoError(t, checkReport(in(name)), name)
		require.NoError(t, writeFileAt(in(name), []byte(name)), name)
		data, err := os.ReadFile(in(lands))
		require.NoError(t, err, name)
		assert.Equal(t, name, string(data))
	}
	for _, link := range []string{"to-file", "to-link", "to-none", "far/deep/up"} {
		info, err := os.Lstat(in(link))
		require.NoError(t, err)
		assert.Equal(t, os.ModeSymlink, info.Mode().Type(), link)
	}
	require.NoError(t, os.Symlink("loop", in("loop")))
	assert.ErrorContains(t, checkReport(in("loop")), "links")
	assert.ErrorContains(t, writeFileAt(in("loop"), nil), "links")

	// In the book too, though not out of it.
	root, err := os.OpenRoot(in("far"))
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, writeFile(root, "deep/up", []byte("again")))
	data, err := os.ReadFile(in("far/other"))
	require.NoError(t, err)
	assert.Equal(t, "again", string(data))
	require.NoError(t, os.Symlink("../escaped", in("far/out")))
	assert.Error(t, writeFile(root, "out", nil))
	assert.NoFileExists(t, in("escaped"))
}

func TestDevicesAndPipesAreWrittenInto(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err == nil {
		link := filepath.Join(t.TempDir(), "full")
		require.NoError(t, os.Symlink("/dev/full", link))
		assert.ErrorIs(t, writeFileAt(link, []byte("x")), syscall.ENOSPC)
	}
	require.NoError(t, writeFileAt(os.DevNull, []byte("x")))

	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	began := time.Now()
	assert.ErrorContains(t, writeFileAt(pipe, []byte("x")), "nobody reads it")
	assert.Less(t, time.Since(began), 2*deliverLimit)

	// A reader that is there and does not read costs no more.
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	defer reader.Close()
	began = time.Now()
	assert.ErrorIs(t, writeFileAt(pipe, make([]byte, 4<<20)), os.ErrDeadlineExceeded)
	assert.Less(t, time.Since(began), 2*deliverLimit)

	fresh := filepath.Join(t.TempDir(), "fresh")
	require.NoError(t, syscall.Mkfifo(fresh, 0o600))
	got := make(chan []byte, 1)
	go func() {
		f, err := os.Open(fresh)
		if err != nil {
			got <- nil
			return
		}
		defer f.Close()
		data, _ := io.ReadAll(f)
		got <- data
	}()
	text := bytes.Repeat([]byte("report "), 50_000) // more than a pipe holds
	require.NoError(t, writeFileAt(fresh, text))
	assert.Equal(t, text, <-got)
}

// A shell that sends the output to a file has it open: a report that is named
// by that file must not take its place.
func TestReportThatIsTheOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const summary, json = "2 of 2 articles saved", `"faults_injected": 0`
	for name, c := range map[string]struct {
		report         string
		stdout, stderr []string // what they hold; of the above no more
	}{
		"stdout by its device": {"/dev/stdout", []string{json}, []string{summary}},
		"stdout by its file":   {filepath.Join(dir, "out"), []string{json}, []string{summary}},
		"stderr by its device": {"/dev/stderr", []string{summary}, []string{json}},
		"stderr by its file":   {filepath.Join(dir, "err"), []string{summary}, []string{json}},
	} {
		out, err := os.Create(filepath.Join(dir, "out"))
		require.NoError(t, err)
		errs, err := os.Create(filepath.Join(dir, "err"))
		require.NoError(t, err)
		cmd := program(t, "-out", filepath.Join(dir, "bible"), "-report", c.report, "-articles", "2", "-faults", "none", "-habits", "none")
		cmd.Stdout, cmd.Stderr = out, errs
		require.NoError(t, cmd.Run(), name)
		require.NoError(t, errors.Join(out.Close(), errs.Close()))
		for file, want := range map[string][]string{"out": c.stdout, "err": c.stderr} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			for _, text := range []string{summary, json} {
				assert.Equal(t, slices.Contains(want, text), strings.Contains(string(data), text), "%s: %s", name, data)
			}
		}
	}
}
