//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// claim reports whether the file is ours: it is unless it names another process that
// lives. This is weaker than a lock of the system: two processes that begin at the
// same moment may both get it.
func claim(f *os.File) (bool, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return false, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return err != nil || !lives(pid), nil
}

func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	// Windows finds only living processes; elsewhere a signal tells.
	return runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil
}
