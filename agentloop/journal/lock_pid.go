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

// claim says that the file is ours unless it names another process that lives.
// It is weaker than a lock of the system: of two that begin in the same moment
// both may get it.
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
	// Windows finds only what lives; elsewhere one has to ask.
	return runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil
}
