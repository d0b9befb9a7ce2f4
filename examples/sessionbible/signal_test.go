//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program returns the program as a process of its own, ready to start.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func TestInterruptKeepsDrafts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, file := filepath.Join(dir, "bible"), filepath.Join(dir, "r.json")
	// Nothing fails, but each answer takes its time.
	cmd := program(t, "-out", out, "-report", file, "-faults", "slow=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		drafts, _ := filepath.Glob(filepath.Join(out, draftsDir, "article-*.md"))
		return len(drafts) > 0
	}, time.Minute, 5*time.Millisecond)
	began := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.Less(t, time.Since(began), 2*time.Second)
	assert.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr.String())

	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(data, &r))
	assert.Equal(t, exitInterrupted, r.Run.ExitCode)
	assert.Len(t, r.Agents, 45)
	assert.Positive(t, r.Totals.Drafts)
	for _, a := range r.Agents {
		if a.Draft != nil {
			text, err := os.ReadFile(*a.Draft)
			require.NoError(t, err)
			assert.NotEmpty(t, text)
			assert.Equal(t, "cancelled", a.Outcome)
			assert.Equal(t, "interrupted", *a.Error)
		}
	}
	checkLinks(t, filepath.Join(out, indexFile))
}

func TestSecondInterruptLeavesAtOnce(t *testing.T) {
	t.Parallel()
	// Reading a pipe that nobody writes to is a wait that no context ends.
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	cmd := program(t, pipe)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var writer *os.File // can be opened once the program reads
	require.Eventually(t, func() bool {
		writer, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	defer writer.Close()

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "sessionbible: interrupted, keeping drafts; once more to leave at once\n", line)
	began := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.Less(t, time.Since(began), time.Second)
	assert.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
}
