package llmclient

import (
	"math"
	"net"
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
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { setUserTimeout(fd, d) })
	}
}

// endUnacknowledged does the same to a connection that the user's transport has
// dialled, unless its dialer has set TCP_USER_TIMEOUT itself.
func endUnacknowledged(conn net.Conn, d time.Duration) {
	if d <= 0 {
		return
	}
	for {
		outer, ok := conn.(interface{ NetConn() net.Conn }) // as those over TLS are
		if !ok {
			break
		}
		conn = outer.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if ms, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout); err == nil && ms == 0 {
			setUserTimeout(fd, d)
		}
	})
}

func setUserTimeout(fd uintptr, d time.Duration) {
	ms := int(min(max(d.Milliseconds(), 1), math.MaxInt32))
	// If it cannot be set, the clocks still bound the call.
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout, ms)
}
