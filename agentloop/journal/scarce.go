//go:build !plan9

package journal

import (
	"errors"
	"syscall"
)

// scarce reports whether an error says that too many files are open.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
