package llmclient

import (
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConnectionsEndWhenNothingIsAcknowledged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for name, tc := range map[string]struct {
		clock Clock
		ms    int
	}{
		"by default":     {Clock{}, 30_000},
		"as it was set":  {Clock{Limit: 2 * time.Minute}, 120_000},
		"if it is off":   {Clock{Limit: -1}, 0},
		"beyond numbers": {Clock{Limit: 1 << 62}, 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := Clocks{Send: tc.clock}
			tr := newOwnTransport(&url.URL{Scheme: "http"}, time.Second, c.bound(iSend, load{}).limit)
			conn, err := tr.DialContext(t.Context(), "tcp", l.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			raw, err := conn.(*net.TCPConn).SyscallConn()
			require.NoError(t, err)
			var ms int
			require.NoError(t, raw.Control(func(fd uintptr) {
				ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout)
			}))
			require.NoError(t, err)
			assert.Equal(t, tc.ms, ms)
		})
	}
}
