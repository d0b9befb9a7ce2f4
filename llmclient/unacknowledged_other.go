//go:build !linux

package llmclient

import (
	"syscall"
	"time"
)

// unacknowledged is for systems that cannot be told so for each connection.
func unacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
