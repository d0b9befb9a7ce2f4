package llmclient

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A wire makes one HTTP exchange. Whatever the transport below it does, an
// exchange ends when its context does.
type wire struct {
	client *http.Client
	own    *http.Transport // made here, closed here; nil if the user gave one

	// trusted is set if the transport is known to honour contexts. Another
	// one gets a goroutine per exchange that can be left behind.
	trusted bool

	// dials is set if asking the transport for a connection means dialing
	// at once, so that the wait for one is the wait for the network. A
	// transport with MaxConnsPerHost has a queue of its own.
	dials bool
}

// Idle connections are given up before the server does, so that no request is
// written into a connection that is being closed. Servers behind plain HTTP
// are mostly uvicorn, which closes after 5 s; those behind TLS are mostly
// gateways, which wait a minute or more, and their handshakes are dear.
const (
	idlePlain = 4 * time.Second
	idleTLS   = 55 * time.Second
)

func newWire(given *http.Client, u *url.URL, connect time.Duration) wire {
	w := wire{client: &http.Client{}}
	if given != nil {
		copied := *given
		w.client = &copied
	}
	switch t := w.client.Transport.(type) {
	case nil:
		if given == nil {
			w.own = newOwnTransport(u, connect)
			w.client.Transport = w.own
			w.dials = true
		}
		w.trusted = true
	case *http.Transport:
		w.trusted, w.dials = true, t.MaxConnsPerHost == 0
	}
	w.client.CheckRedirect = sameHostOnly(w.client.CheckRedirect)
	return w
}

// newOwnTransport returns a transport for long streams and many agents. It
// limits no number of connections: that is the pacer's office, which can see
// who waits.
func newOwnTransport(u *url.URL, connect time.Duration) *http.Transport {
	idle := idleTLS
	if u.Scheme == "http" {
		idle = idlePlain
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// The clocks of the call bound the dial; these bound what is left of
		// it when the call has gone.
		DialContext:           (&net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   connect,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   1024,
		IdleConnTimeout:       idle,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// sameHostOnly follows redirects that repeat the request at the same place.
// Others come back as they are: neither key nor prompt goes anywhere else.
func sameHostOnly(also func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		if req.Method != via[0].Method || req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
			return http.ErrUseLastResponse
		}
		if len(via) >= 5 {
			return http.ErrUseLastResponse
		}
		if also != nil {
			return also(req, via)
		}
		return nil
	}
}

// renew drops pooled connections, so that the next request dials.
func (w *wire) renew() {
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}

func (w *wire) close() { w.renew() }

// do makes the exchange. The response's body must be closed.
func (w *wire) do(req *http.Request) (*http.Response, error) {
	if w.trusted {
		return w.client.Do(req)
	}
	g := &guard{ctx: req.Context(), head: make(chan head, 1), want: make(chan int), got: make(chan piece, 1)}
	go g.serve(w.client, req)
	select {
	case h := <-g.head:
		return h.resp, h.err
	case <-g.ctx.Done():
		return nil, context.Cause(g.ctx)
	}
}

// A guard stands between a call and a transport that may ignore contexts: its
// goroutine makes the exchange and reads the body piece by piece, on demand.
// When the context ends or the body is closed, the call goes on its way and
// the goroutine is left to the transport; it ends when the transport returns.
type guard struct {
	ctx  context.Context
	head chan head
	want chan int // how much the reader has room for
	got  chan piece

	rest    []byte // read, not yet handed out
	readErr error
	waiting bool // a piece has been asked for
}

type head struct {
	resp *http.Response
	err  error
}

type piece struct {
	data []byte
	err  error
}

func (g *guard) serve(client *http.Client, req *http.Request) {
	resp, err := contain(func() (*http.Response, error) { return client.Do(req) })
	if err != nil {
		g.head <- head{err: err}
		return
	}
	body := resp.Body
	closeBody := func() { _, _ = contain(func() (any, error) { return nil, body.Close() }) }
	defer closeBody()
	// A Read that does not hear the context may still hear this.
	defer context.AfterFunc(g.ctx, closeBody)()
	resp.Body = g
	g.head <- head{resp: resp}
	buf := make([]byte, 4<<10)
	for {
		var n int
		select {
		case n = <-g.want:
		case <-g.ctx.Done():
			return
		}
		n, err := contain(func() (int, error) { return body.Read(buf[:min(n, len(buf))]) })
		g.got <- piece{data: append([]byte(nil), buf[:n]...), err: err} // has room: one is asked for at a time
		if err != nil {
			return
		}
	}
}

// Read is only called by the goroutine that reads the answer.
func (g *guard) Read(p []byte) (int, error) {
	if len(g.rest) == 0 && g.readErr == nil && len(p) > 0 {
		if !g.waiting {
			select {
			case g.want <- len(p):
				g.waiting = true
			case <-g.ctx.Done():
				return 0, context.Cause(g.ctx)
			}
		}
		select {
		case got := <-g.got:
			g.waiting = false
			g.rest, g.readErr = got.data, got.err
		case <-g.ctx.Done():
			return 0, context.Cause(g.ctx)
		}
	}
	n := copy(p, g.rest)
	if g.rest = g.rest[n:]; len(g.rest) > 0 {
		return n, nil
	}
	return n, g.readErr
}

// Close does nothing: the attempt ends its context when it closes the body,
// and that is what the goroutine listens to.
func (g *guard) Close() error { return nil }

// contain turns a panic of a foreign transport into an error. In a goroutine
// of ours it would end the process.
func contain[T any](do func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the transport panicked: %v", p)
		}
	}()
	return do()
}

// A bodyReader gives out the request and tells how writing it goes on.
type bodyReader struct {
	rest  []byte
	wrote func()
}

// Read hands out a little at a time: each further Read says that the piece
// before it has found its way to the network.
func (b *bodyReader) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	b.wrote()
	n := copy(p[:min(len(p), 32<<10)], b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *bodyReader) Close() error { return nil }
