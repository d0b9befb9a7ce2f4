package llmclient

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
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
			assert.Equal(t, tc.ms, timeoutOf(t, conn))
		})
	}
}

// Whose transport it is makes no difference to a firewall.
func TestConnectionsOfAGivenClientEndLikewise(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`))
	})
	for name, tc := range map[string]struct {
		server func(http.Handler) *httptest.Server
		clock  Clock
		dialer net.Dialer
		ms     int
	}{
		"in the clear":         {server: httptest.NewServer, ms: 30_000},
		"over TLS":             {server: httptest.NewTLSServer, ms: 30_000},
		"as it was set":        {server: httptest.NewServer, clock: Clock{Limit: 2 * time.Minute}, ms: 120_000},
		"if it is off":         {server: httptest.NewServer, clock: Clock{Limit: -1}},
		"as its dialer has it": {server: httptest.NewServer, dialer: net.Dialer{Control: unacknowledged(7 * time.Second)}, ms: 7_000},
	} {
		t.Run(name, func(t *testing.T) {
			srv := tc.server(answer)
			defer srv.Close()
			var mu sync.Mutex
			var conns []net.Conn
			client := srv.Client()
			defer client.CloseIdleConnections()
			client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := tc.dialer.DialContext(ctx, network, addr)
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
				return conn, err
			}
			c, err := New(Config{BaseURL: srv.URL, Model: "m", HTTPClient: client, Clocks: Clocks{Send: tc.clock}})
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("hello")}})
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, conns, 1)
			assert.Equal(t, tc.ms, timeoutOf(t, conns[0]))
		})
	}
}

// timeoutOf returns a connection's TCP_USER_TIMEOUT.
func timeoutOf(t *testing.T, conn net.Conn) (ms int) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, userTimeout)
	}))
	require.NoError(t, err)
	return ms
}
