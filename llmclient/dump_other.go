//go:build !unix

package llmclient

import "os"

// dumpSignals are those of DumpOnSignal where none is given: there is none that
// stands for a question.
func dumpSignals() []os.Signal { return nil }
