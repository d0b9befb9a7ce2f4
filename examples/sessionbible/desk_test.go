package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newTestDesk(t *testing.T) (*desk, string) {
	t.Helper()
	dir := t.TempDir()
	s := conversation("user: please do this for me", "assistant: "+strings.Repeat("a long line\n", 1500), "tool: grep", "aborted:")
	return &desk{book: openTestBook(t, dir, s), session: s, article: article{Number: 1, First: 1, Last: 2, Subject: "S"}, model: "m"}, dir
}

func TestReadMessage(t *testing.T) {
	d, _ := newTestDesk(t)
	read := func(index, page int) reading {
		r, err := d.readMessage(t.Context(), readArgs{Index: index, Page: page})
		require.NoError(t, err)
		return r
	}
	own := read(1, 0)
	assert.True(t, own.InRange)
	assert.Equal(t, 1, own.Page)
	assert.Equal(t, 3, own.Pages)
	assert.LessOrEqual(t, len(own.Text), pageSize)
	assert.Equal(t, strings.TrimSpace(strings.Repeat("a long line\n", 1500)), own.Text+read(1, 2).Text+read(1, 3).Text)

	before := read(0, 0)
	assert.False(t, before.InRange)
	assert.Equal(t, "please do this for me", before.Text)
	assert.Equal(t, "background only: your article is on messages 1 to 2", before.Note)
	for _, index := range []int{-1, 4, math.MaxInt} {
		_, err := d.readMessage(t.Context(), readArgs{Index: index})
		assert.ErrorContains(t, err, "the session has 0 to 3; your article is on messages 1 to 2", "the step is not taken")
	}
	_, err := d.readMessage(t.Context(), readArgs{Index: 1, Page: 4})
	assert.EqualError(t, err, "message 1 has pages 1 to 3, not 4")
}

func TestWhatIsWrittenIsOnDiskAtOnce(t *testing.T) {
	d, dir := newTestDesk(t)
	draft := filepath.Join(dir, draftsDir, "article-001.md")
	onDisk := func() string {
		data, err := os.ReadFile(draft)
		require.NoError(t, err)
		return string(data)
	}
	_, err := d.save(t.Context(), noArgs{})
	require.EqualError(t, err, "nothing is written yet: call write first")
	_, err = d.write(t.Context(), textArgs{Text: " \n"})
	require.ErrorContains(t, err, "text is empty")

	_, err = d.append(t.Context(), textArgs{Text: "# One"})
	require.NoError(t, err)
	assert.Equal(t, "# One", onDisk())
	_, err = d.append(t.Context(), textArgs{Text: "Two.\n"})
	require.NoError(t, err)
	assert.Equal(t, "# One\n\nTwo.\n", onDisk())
	text, err := d.append(t.Context(), textArgs{Text: "Two."})
	require.NoError(t, err)
	assert.Contains(t, text, "there already", "a call that a model repeats adds nothing")
	assert.Equal(t, "# One\n\nTwo.\n", onDisk())
	_, err = d.append(t.Context(), textArgs{Text: "wo."})
	require.NoError(t, err)
	assert.Equal(t, "# One\n\nTwo.\n\nwo.", onDisk(), "the end of a line is not a line")
	_, err = d.write(t.Context(), textArgs{Text: strings.Repeat("x", maxArticle+1)})
	require.ErrorContains(t, err, "the most is 262144")
	path, err := d.keep()
	require.NoError(t, err)
	assert.Equal(t, draft, path)

	_, err = d.save(t.Context(), noArgs{})
	require.NoError(t, err)
	assert.NoFileExists(t, draft)
	saved, kept := d.paths()
	assert.Equal(t, filepath.Join(dir, articlesDir, "001-one.md"), saved)
	assert.Empty(t, kept)
	text, err = d.save(t.Context(), noArgs{})
	require.NoError(t, err)
	assert.Equal(t, "The article is saved already.", text)
	_, err = d.write(t.Context(), textArgs{Text: "more"})
	assert.ErrorIs(t, err, errSaved)
}

func TestDraftOutlivesADiskThatFailed(t *testing.T) {
	d, dir := newTestDesk(t)
	drafts := filepath.Join(dir, draftsDir)
	require.NoError(t, os.Remove(drafts))
	text, err := d.write(t.Context(), textArgs{Text: "precious"})
	require.NoError(t, err, "the agent can go on: the text is in memory")
	assert.Contains(t, text, "not to disk")
	_, err = d.keep()
	require.ErrorContains(t, err, "the draft could not be kept")

	require.NoError(t, os.Mkdir(drafts, 0o755))
	path, err := d.keep()
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(data))
}

func TestSaveThatFailsCanBeTriedAgain(t *testing.T) {
	d, dir := newTestDesk(t)
	articles := filepath.Join(dir, articlesDir)
	require.NoError(t, os.Remove(articles))
	_, err := d.write(t.Context(), textArgs{Text: "text"})
	require.NoError(t, err)
	_, err = d.save(t.Context(), noArgs{})
	require.ErrorContains(t, err, "the article could not be saved")
	_, err = d.append(t.Context(), textArgs{Text: "more"})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(articles, 0o755))
	_, err = d.save(t.Context(), noArgs{})
	require.NoError(t, err)
}

func TestAllAtOnceOnOneDesk(t *testing.T) {
	d, dir := newTestDesk(t)
	_, err := d.write(t.Context(), textArgs{Text: "# Start"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, _ = d.append(t.Context(), textArgs{Text: "a piece"}) })
		wg.Go(func() { _, _ = d.save(t.Context(), noArgs{}) })
		wg.Go(func() { _, _ = d.keep(); d.paths() })
	}
	wg.Wait()
	saved, draft := d.paths()
	assert.FileExists(t, saved)
	assert.Empty(t, draft)
	left, err := os.ReadDir(filepath.Join(dir, draftsDir))
	require.NoError(t, err)
	assert.Empty(t, left)
}
