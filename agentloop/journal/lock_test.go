package journal_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop/journal"
)

func TestALockIsHeldByOneOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var held, most, taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				l, err := journal.Lock(path)
				if err != nil {
					continue
				}
				taken.Add(1)
				if n := held.Add(1); n > 1 {
					most.Store(n)
				}
				held.Add(-1)
				_ = l.Close()
			}
		})
	}
	wg.Wait()
	assert.Positive(t, taken.Load())
	assert.Zero(t, most.Load(), "holders at one time")
	assert.NoFileExists(t, path)
}

// What stands where the lock belongs, and is none, is neither waited for nor
// written to.
func TestWhatIsNoLock(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	link := filepath.Join(dir, "link")
	if err := os.Symlink(other, link); err != nil {
		t.Skip(err)
	}
	_, err := journal.Lock(link)
	assert.EqualError(t, err, "journal: lock "+link+": it is no file of its own, or comes and goes")
	_, err = journal.Lock(dir)
	assert.Error(t, err)
	_, err = journal.Lock(filepath.Join(dir, "none", "lock"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	data, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(data))
}
