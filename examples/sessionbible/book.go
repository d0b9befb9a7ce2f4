package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// The names inside the output folder. Nothing else in it is touched.
const (
	articlesDir = "articles"
	draftsDir   = "drafts"
	journalDir  = "journal" // what the agents did, to go on from
	indexFile   = "index.md"
	markerFile  = ".sessionbible"      // says that the names above are ours
	lockFile    = ".sessionbible.lock" // there while a run writes, with the number of its process
	earlierDir  = "earlier"            // earlier books, each in a folder named after its time
)

// A book is the output folder of one run. It is safe for concurrent use if no two
// agents have the same name.
type book struct {
	dir  string
	root *os.Root
	lock io.Closer
}

// A marker is the content of markerFile.
type marker struct {
	Session  string    `json:"session"`
	Title    string    `json:"title"`
	Articles int       `json:"articles"`
	Started  time.Time `json:"started"`
	Incident string    `json:"incident,omitempty"` // that was played
}

// newBook returns the book in the folder dir, which open makes ready.
func newBook(dir string) *book { return &book{dir: dir} }

// open prepares the folder for a new book with the given number of articles. A book
// of an earlier run, with its drafts, is moved as a whole to the folder earlier/TIME:
// no two runs mix, and none loses the other's work. It is an error if another run
// writes there now, or if files are in the way that no run made. moved is where the
// earlier book went, or "".
func (b *book) open(s *session, articles int, incident string, now time.Time) (moved string, err error) {
	if err := b.take(); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	if moved, err = b.moveEarlier(now); err != nil {
		return "", err
	}
	m, err := json.Marshal(marker{Session: s.ID, Title: s.Title, Articles: articles, Started: now.UTC(), Incident: incident})
	if err == nil {
		err = writeFile(b.root, markerFile, append(m, '\n'))
	}
	for _, name := range []string{articlesDir, draftsDir} {
		if err == nil {
			err = b.root.Mkdir(name, 0o755)
		}
	}
	return moved, err
}

// take opens the folder, for this run alone.
func (b *book) take() (err error) {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if b.root, err = os.OpenRoot(b.dir); err != nil {
		return err
	}
	if b.lock, err = journal.Lock(filepath.Join(b.dir, lockFile)); err != nil {
		if errors.Is(err, journal.ErrLocked) {
			err = fmt.Errorf("%w; wait for its end, or name another folder", err)
		}
		_ = b.close()
	}
	return err
}

// reopen takes up the book that an earlier run left unfinished. It is an error
// if there is none, or one of another session or another plan.
func (b *book) reopen(s *session, articles int) (m marker, err error) {
	none := fmt.Errorf("there is no book in %s to go on with", b.dir)
	// To take the folder would make it.
	if _, err := os.Lstat(filepath.Join(b.dir, markerFile)); errors.Is(err, fs.ErrNotExist) {
		return m, none
	}
	if err := b.take(); err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	data, err := b.root.ReadFile(markerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return m, none
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("the book in %s cannot be gone on with: %w", b.dir, err)
	case m.Session != s.ID || m.Title != s.Title:
		return m, fmt.Errorf("the book in %s is of session %q, not of %q", b.dir, m.Title, s.Title)
	case m.Articles != articles:
		return m, fmt.Errorf("the book in %s is planned for %d articles, not for %d", b.dir, m.Articles, articles)
	}
	for _, name := range []string{articlesDir, draftsDir} {
		if err := ignoreExisting(b.root.Mkdir(name, 0o755)); err != nil {
			return m, err
		}
	}
	for _, name := range []string{".", articlesDir, draftsDir} {
		b.sweep(name)
	}
	return m, nil
}

// articles counts those that are saved: one per number, whatever their titles.
func (b *book) articles() int {
	files, _ := fs.Glob(b.root.FS(), path.Join(articlesDir, "[0-9]*-*.md"))
	numbers := make(map[string]bool)
	for _, name := range files {
		number, _, _ := strings.Cut(path.Base(name), "-")
		numbers[number] = true
	}
	return len(numbers)
}

// sweep removes the temporary files of a run that was killed.
func (b *book) sweep(dir string) {
	files, _ := fs.Glob(b.root.FS(), path.Join(dir, ".*.tmp"))
	for _, name := range files {
		_ = b.root.Remove(name)
	}
}

// moveEarlier moves an earlier book away. One without articles and drafts is removed.
func (b *book) moveEarlier(now time.Time) (string, error) {
	var found []string
	for _, name := range []string{articlesDir, draftsDir, journalDir, indexFile} {
		_, err := b.root.Lstat(name)
		if err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	data, err := b.root.ReadFile(markerFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(found) > 0:
		return "", fmt.Errorf("%s is in the way, and no earlier run made it; name another folder with -out",
			filepath.Join(b.dir, found[0]))
	case errors.Is(err, fs.ErrNotExist) || len(found) == 0:
		return "", nil
	case err != nil:
		return "", err
	}
	if b.blank() {
		return "", errors.Join(ignoreMissing(b.root.Remove(articlesDir)), ignoreMissing(b.root.Remove(draftsDir)),
			ignoreMissing(b.root.Remove(indexFile)), b.root.RemoveAll(journalDir))
	}
	var m marker
	if json.Unmarshal(data, &m) != nil || m.Started.IsZero() {
		m.Started = now
	}
	if err := ignoreExisting(b.root.Mkdir(earlierDir, 0o755)); err != nil {
		return "", err
	}
	stamp := m.Started.UTC().Format("20060102-150405")
	to := path.Join(earlierDir, stamp)
	err = b.root.Mkdir(to, 0o755)
	for n := 2; errors.Is(err, fs.ErrExist) && n < 1000; n++ {
		to = path.Join(earlierDir, fmt.Sprintf("%s-%d", stamp, n))
		err = b.root.Mkdir(to, 0o755)
	}
	// The marker goes last: until then a second try finds the rest.
	for _, name := range append(found, markerFile) {
		if err == nil {
			err = b.root.Rename(name, path.Join(to, name))
		}
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(b.dir, filepath.FromSlash(to)), nil
}

// blank reports whether a run left neither articles nor drafts.
func (b *book) blank() bool {
	for _, name := range []string{articlesDir, draftsDir} {
		d, err := b.root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false
		}
		_, err = d.Readdirnames(1)
		_ = d.Close()
		if !errors.Is(err, io.EOF) {
			return false
		}
	}
	return true
}

// close gives the folder back. Files already written stay.
func (b *book) close() error {
	if b.lock != nil {
		_ = b.lock.Close()
		b.lock = nil
	}
	return b.root.Close()
}

// keepDraft writes the unfinished text of the agent called name, and returns
// its path.
func (b *book) keepDraft(name, text string) (string, error) {
	file := path.Join(draftsDir, name+".md")
	if err := writeFile(b.root, file, []byte(text)); err != nil {
		return "", err
	}
	return b.path(file), nil
}

// dropDraft removes a draft that became an article.
func (b *book) dropDraft(name string) error {
	return ignoreMissing(b.root.Remove(path.Join(draftsDir, name+".md")))
}

// save writes a page and returns its path.
func (b *book) save(p *page, links nav) (string, error) {
	file := path.Join(articlesDir, p.file())
	if err := writeFile(b.root, file, p.render(links)); err != nil {
		return "", err
	}
	return b.path(file), nil
}

// savedAt returns when a page was saved, and false if it is not there.
func (b *book) savedAt(p *page) (time.Time, bool) {
	data, err := b.root.ReadFile(path.Join(articlesDir, p.file()))
	if err != nil {
		return time.Time{}, false
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "saved: "); ok {
			var at time.Time
			return at, json.Unmarshal([]byte(text), &at) == nil
		}
	}
	return time.Time{}, false
}

// articlePath returns where a page is saved.
func (b *book) articlePath(p *page) string { return b.path(path.Join(articlesDir, p.file())) }

// path returns the path, from the working folder, of a file of the book.
func (b *book) path(file string) string {
	return filepath.Join(b.dir, filepath.FromSlash(file))
}

func ignoreExisting(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
