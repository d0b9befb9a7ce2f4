package fakeserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/neverhang/neverhang/internal/fakeserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	usageBody  = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	plainBody  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
)

// inMemory runs a test on a server in memory, in virtual time.
func inMemory(t *testing.T, cfg fakeserver.Config, test func(t *testing.T, srv *fakeserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := fakeserver.New(cfg)
		defer srv.Close()
		test(t, srv)
	})
}

// onLoopback runs a test on a server on a loopback listener, in real time.
func onLoopback(t *testing.T, cfg fakeserver.Config, test func(t *testing.T, srv *fakeserver.Server)) {
	t.Helper()
	srv, err := fakeserver.Listen(cfg)
	require.NoError(t, err)
	defer srv.Close()
	test(t, srv)
}

// onBoth runs a test on both networks.
func onBoth(t *testing.T, cfg fakeserver.Config, test func(t *testing.T, srv *fakeserver.Server)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) { inMemory(t, cfg, test) })
	t.Run("on loopback", func(t *testing.T) { onLoopback(t, cfg, test) })
}

// seen is what a client gets to see of a reply.
type seen struct {
	status  int
	header  http.Header
	body    string
	reads   int   // of the body, those that gave something
	longest int   // what one of them gave
	err     error // other than the end of the body
	silent  bool  // nothing came for the time given, so the client left
	took    time.Duration
}

// ask posts a completion request and reads the answer until it ends, or until
// nothing has come for a while.
func ask(t *testing.T, rt http.RoundTripper, srv *fakeserver.Server, body string, patience time.Duration) seen {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var gaveUp atomic.Bool
	watch := time.AfterFunc(patience, func() {
		gaveUp.Store(true)
		cancel()
	})
	defer watch.Stop()

	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return seen{err: err, silent: gaveUp.Load(), took: time.Since(start)}
	}
	defer resp.Body.Close()
	s := seen{status: resp.StatusCode, header: resp.Header}
	var all strings.Builder
	buf := make([]byte, 4096)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf)
		if n > 0 {
			watch.Reset(patience)
			s.reads++
			s.longest = max(s.longest, n)
		}
		all.Write(buf[:n])
	}
	s.body, s.took, s.silent = all.String(), time.Since(start), gaveUp.Load()
	if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err
	}
	return s
}

// transport returns a transport that ends with the test.
func transport(t *testing.T, srv *fakeserver.Server) *http.Transport {
	tr := srv.Transport()
	tr.DisableCompression = true
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
