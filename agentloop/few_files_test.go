//go:build darwin || linux

package agentloop_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// Ten thousand agents that are all at work at the same time keep their journals
// in a process that may have 256 files open, and go on from them.
func TestTenThousandJournalsWithFewFiles(t *testing.T) {
	n := 10_000
	if testing.Short() || raced {
		n = 1000
	}
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = 256
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()

	dir := t.TempDir()
	run := func(m agentloop.Model) *agentloop.Report {
		j, err := journal.Open(journal.Config{Dir: dir})
		require.NoError(t, err)
		defer func() { assert.NoError(t, j.Close()) }()
		return runGroup(t, t.Context(), agentloop.GroupConfig{Journal: j, Agents: many(t, n, agentloop.Config{Model: m})})
	}
	all := make(chan struct{}, n)
	gate := make(chan struct{})
	go func() {
		for range n {
			<-all
		}
		close(gate)
	}()
	rep := run(agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		all <- struct{}{}
		select {
		case <-gate:
		case <-time.After(2 * time.Minute):
		}
		return says("the answer to "+req.Caller)(ctx, req)
	}))
	require.Equal(t, n, rep.Counts[agentloop.Done], "%v: %v", rep.Counts, rep.Results[0].Err)

	rep = run(agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) {
		t.Error("what is done is not asked again")
		return nil, errWrongKey
	}))
	require.Equal(t, n, rep.Counts[agentloop.Done], "%v", rep.Counts)
	for _, r := range rep.Results {
		require.Equal(t, "the answer to "+r.Name, r.Text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "agents", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, n)
	data, err := os.ReadFile(files[n/2])
	require.NoError(t, err)
	assert.Equal(t, 3, bytes.Count(data, []byte("\n")), fmt.Sprintf("begin, answer, end: %s", data))
}
