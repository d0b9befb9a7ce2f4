//go:build unix

package llmclient

import (
	"os"
	"syscall"
)

// dumpSignals are those of DumpOnSignal where none is given.
func dumpSignals() []os.Signal { return []os.Signal{syscall.SIGUSR1} }
