//go:build !linux

package llmclient

import (
	"net"
	"syscall"
	"time"
)

// unacknowledged and endUnacknowledged are for systems that cannot be told so for
// each connection.
func unacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }

func endUnacknowledged(net.Conn, time.Duration) {}
