package llmclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

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

// guarded makes an exchange from behind a guard.
func guarded(client *http.Client, req *http.Request) (*http.Response, error) {
	g := &guard{ctx: req.Context(), head: make(chan head, 1), want: make(chan int), got: make(chan piece, 1)}
	go g.serve(client, req)
	select {
	case h := <-g.head:
		return h.resp, h.err
	case <-g.ctx.Done():
		return nil, context.Cause(g.ctx)
	}
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
		room := buf[:min(n, len(buf))]
		n, err := contain(func() (int, error) { return body.Read(room) })
		if n < 0 || n > len(room) {
			n, err = 0, errBadRead
		}
		g.got <- piece{data: append([]byte(nil), buf[:n]...), err: err} // has room: one is asked for at a time
		if err != nil {
			return
		}
	}
}

var errBadRead = errors.New("the transport's body returned an impossible count")

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

// contain turns a panic of foreign code into an error. In a goroutine of ours it
// would end the process.
func contain[T any](do func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v", p)
		}
	}()
	return do()
}
