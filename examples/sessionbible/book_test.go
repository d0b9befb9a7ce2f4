package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openTestBook(t *testing.T, dir string, s *session) *book {
	t.Helper()
	b := newBook(dir)
	_, err := b.open(s, 1, "", time.Now())
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.close() })
	return b
}

// links matches Markdown links, but not those whose brackets are escaped.
var links = regexp.MustCompile(`\[(?:\\.|[^\]\\])*\]\(([^)]*)\)`)

// checkLinks follows every link of a file of the book.
func checkLinks(t *testing.T, file string) (n int) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, m := range links.FindAllStringSubmatch(string(data), -1) {
		_, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(m[1])))
		assert.NoError(t, err, "link %s of %s", m[1], file)
		n++
	}
	return n
}

func TestBookBindsSavedPagesAndNamesTheRest(t *testing.T) {
	dir := t.TempDir()
	s := conversation("user: please do this for me", "tool: grep", "tool: read", "assistant: All done now.")
	b := openTestBook(t, dir, s)
	plan := planArticles(s, 0)
	require.Len(t, plan, 4)

	var entries []entry
	for i, a := range plan {
		d := &desk{book: b, session: s, article: a, model: "m"}
		title := []string{"# Where it [begins](nowhere.md)\n\n", "", "# \"Quotes\": - and <b>\n\n", "# Ende\n\n"}[i]
		_, err := d.write(t.Context(), textArgs{Text: title + "The text of article " + a.name()})
		require.NoError(t, err)
		if i != 1 {
			_, err := d.save(t.Context(), noArgs{})
			require.NoError(t, err)
		}
		entries = append(entries, d.entry("stalled"))
	}
	require.NoError(t, b.bind(t.Context(), s, entries))

	files, err := filepath.Glob(filepath.Join(dir, articlesDir, "*.md"))
	require.NoError(t, err)
	assert.Equal(t, []string{"001-where-it-begins.md", "003-quotes-and-b.md", "004-ende.md"}, bases(files))
	for i, file := range files {
		want := 3
		if i != 1 {
			want = 2 // the first and the last have one neighbour
		}
		assert.Equal(t, want, checkLinks(t, file), file)
	}
	assert.Equal(t, 4, checkLinks(t, filepath.Join(dir, indexFile)), "three articles and one draft")

	index, err := os.ReadFile(filepath.Join(dir, indexFile))
	require.NoError(t, err)
	assert.Contains(t, string(index), "3 of 4 articles on the 4 messages")
	assert.Contains(t, string(index), "- Tools used: grep (message 1): stalled, [draft](drafts/article-002.md)")
	page, err := os.ReadFile(files[1])
	require.NoError(t, err)
	assert.Contains(t, string(page), "---\ntitle: \"\\\"Quotes\\\": - and \\u003cb\\u003e\"\nnumber: 3\nsession: \"ses_t\"\n")
	assert.Contains(t, string(page), "\nmessages: [2]\n")
}

func TestTwoRunsDoNotShareAFolder(t *testing.T) {
	dir := t.TempDir()
	s := conversation("user: please do this for me")
	first := newBook(dir)
	_, err := first.open(s, 1, "", time.Now())
	require.NoError(t, err)
	file, err := first.keepDraft("article-001", "unfinished")
	require.NoError(t, err)

	_, err = newBook(dir).open(s, 1, "", time.Now())
	require.ErrorContains(t, err, fmt.Sprintf("another process writes to it (process %d); wait for its end, or name another folder", os.Getpid()))
	assert.FileExists(t, file, "nothing of the first run is moved")

	var stderr bytes.Buffer
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-out", dir, "-faults", "none"}, io.Discard, &stderr))
	assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
	assert.Contains(t, stderr.String(), "sessionbible: -out: journal: lock ")
	assert.Contains(t, stderr.String(), ": another process writes to it (process ")

	require.NoError(t, first.close())
	assert.NoFileExists(t, filepath.Join(dir, lockFile))

	// What a run left that was killed is nobody's lock.
	require.NoError(t, os.WriteFile(filepath.Join(dir, lockFile), []byte("999999999\n"), 0o644))
	second := newBook(dir)
	moved, err := second.open(s, 1, "", time.Now())
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(moved, "drafts", "article-001.md"))
	require.NoError(t, second.close())
}

func bases(files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, filepath.Base(f))
	}
	return out
}

func TestBindGoesNoFurtherThanItsTimeButWritesTheIndex(t *testing.T) {
	dir := t.TempDir()
	s := conversation("user: please do this for me", "assistant: All done now.")
	b := openTestBook(t, dir, s)
	var entries []entry
	for _, a := range planArticles(s, 0) {
		d := &desk{book: b, session: s, article: a}
		_, _ = d.write(t.Context(), textArgs{Text: "Some text."})
		_, err := d.save(t.Context(), noArgs{})
		require.NoError(t, err)
		entries = append(entries, d.entry("done"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.bind(ctx, s, entries))
	assert.Equal(t, 2, checkLinks(t, filepath.Join(dir, indexFile)))
	for _, e := range entries {
		assert.Equal(t, 1, checkLinks(t, filepath.Join(dir, articlesDir, e.Page.file())), "only to the index")
	}
}

func TestEarlierBookIsMovedWhole(t *testing.T) {
	dir := t.TempDir()
	s := conversation("user: please do this for me")
	first := openTestBook(t, dir, s)
	_, err := first.keepDraft("article-001", "unfinished")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, articlesDir, "001-old.md"), []byte("old"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o644))
	require.NoError(t, first.bind(t.Context(), s, nil))
	require.NoError(t, first.close())

	open := func() (string, error) {
		b := newBook(dir)
		moved, err := b.open(s, 1, "", time.Now())
		if err == nil {
			err = b.close()
		}
		return moved, err
	}
	moved, err := open()
	require.NoError(t, err)
	for _, name := range []string{"articles/001-old.md", "drafts/article-001.md", indexFile, markerFile} {
		assert.FileExists(t, filepath.Join(moved, name))
	}
	assert.FileExists(t, filepath.Join(dir, "notes.txt"), "what is not ours stays")
	for _, name := range []string{articlesDir, draftsDir} {
		left, err := os.ReadDir(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Empty(t, left)
	}
	assert.NoFileExists(t, filepath.Join(dir, indexFile))

	// A run that came to nothing is not kept, nor told.
	none, err := open()
	require.NoError(t, err)
	assert.Empty(t, none)
	require.NoError(t, os.WriteFile(filepath.Join(dir, draftsDir, "article-001.md"), []byte("new"), 0o644))

	// A third run within the same second finds a name of its own.
	again, err := open()
	require.NoError(t, err)
	assert.NotEqual(t, moved, again)
	assert.FileExists(t, filepath.Join(moved, "articles/001-old.md"))
}

func TestFolderOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, articlesDir), 0o755))
	_, err := newBook(dir).open(conversation("user: a b c d"), 1, "", time.Now())
	assert.ErrorContains(t, err, filepath.Join(dir, articlesDir)+" is in the way")

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = newBook(file).open(conversation("user: a b c d"), 1, "", time.Now())
	assert.Error(t, err)
}

func TestWriteFileIsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.md")
	require.NoError(t, writeFileAt(name, []byte("one")))
	require.NoError(t, writeFileAt(name, []byte("two")))
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "two", string(data))

	// A write that fails leaves neither a new file nor a temporary one.
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "taken", "inside"), 0o755))
	assert.Error(t, writeFileAt(filepath.Join(dir, "taken"), []byte("x")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	assert.ErrorContains(t, writeFile(root, "taken", []byte("x")), "it is no file")
	assert.Error(t, writeFileAt(filepath.Join(dir, "none", "a.md"), []byte("x")))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2)
}

func TestNamesThatTitlesGive(t *testing.T) {
	for title, want := range map[string]string{
		"Hello, World!":            "hello-world",
		"../../etc/passwd":         "etc-passwd",
		"":                         "article",
		"日本語":                      "article",
		"naïve café":               "na-ve-caf",
		"--- a ---":                "a",
		strings.Repeat("long ", 9): "long-long-long-long-long-long-long-long-long",
		strings.Repeat("x", 99):    strings.Repeat("x", 59),
	} {
		assert.Equal(t, want, slug(title), title)
	}
	for n := range 80 {
		assert.LessOrEqual(t, len(slug(strings.Repeat("y", n)+strings.Repeat(" y", 80))), 60)
	}
}

func TestTitleAndLinksOfAText(t *testing.T) {
	s := conversation("user: please do this for me")
	for name, c := range map[string]struct{ body, title, want string }{
		"no heading":       {"Just text.", "S", "Just text."},
		"a heading":        {"# The *end* #\n\ntext", "The *end*", "# The *end* #\n\ntext"},
		"a link in it":     {"## See [that](../x.md)\n", "See that", "## See that"},
		"an empty heading": {"#  \ntext", "S", "#  \ntext"},
		"links that stay":  {"[a](https://a.b/c) [b](#c) <mailto:x@y.z>", "S", "[a](https://a.b/c) [b](#c) <mailto:x@y.z>"},
		"images":           {"> ![pic](img/a.png \"a\") and [docs](docs/)", "S", "> pic and docs"},
		"code":             {"```\n[a](b)\n```\n[a](b)", "S", "```\n[a](b)\n```\na"},
		"quoted code":      {"> ~~~ go\n> [a](b)\n> ~~~\n[a](b)", "S", "> ~~~ go\n> [a](b)\n> ~~~\na"},
	} {
		p := newPage(s, article{Number: 1, Subject: "S"}, c.body, "m", time.Time{})
		assert.Equal(t, c.title, p.Title, name)
		assert.Equal(t, c.want, p.Body, name)
	}
}
