package llmclient

import (
	"math"
	"syscall"
	"time"
)

// userTimeout is TCP_USER_TIMEOUT (RFC 5482), which package syscall does not name.
const userTimeout = 18

// unacknowledged returns what makes a dialer's connections end when the peer has
// acknowledged nothing of what was sent for d; nil if d is 0.
func unacknowledged(d time.Duration) func(network, address string, c syscall.RawConn) error {
	if d <= 0 {
		return nil
	}
	ms := int(min(max(d.Milliseconds(), 1), math.MaxInt32))
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			// Where it cannot be set, the clocks are all there is.
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, ms)
		})
	}
}
