//go:build !linux

package llmclient

import (
	"net"
	"syscall"
	"time"
)

// unacknowledged and endUnacknowledged do nothing on systems without
// TCP_USER_TIMEOUT.
func unacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }

func endUnacknowledged(net.Conn, time.Duration) {}
