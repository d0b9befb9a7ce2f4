package llmclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// A detached exchange uses a transport that may ignore contexts. Its goroutine makes
// the exchange and reads the body piece by piece, on demand. When the context ends or
// the body is closed, the call goes on without it; the goroutine ends when the
// transport returns.
type detached struct {
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

// doDetached makes an exchange that the call can leave behind.
func doDetached(client *http.Client, req *http.Request) (*http.Response, error) {
	d := &detached{ctx: req.Context(), head: make(chan head, 1), want: make(chan int), got: make(chan piece, 1)}
	go d.serve(client, req)
	select {
	case h := <-d.head:
		return h.resp, h.err
	case <-d.ctx.Done():
		return nil, context.Cause(d.ctx)
	}
}

func (d *detached) serve(client *http.Client, req *http.Request) {
	resp, err := contain(func() (*http.Response, error) { return client.Do(req) })
	if err != nil {
		d.head <- head{err: err}
		return
	}
	body := resp.Body
	closeBody := func() { _, _ = contain(func() (any, error) { return nil, body.Close() }) }
	defer closeBody()
	// A Read that ignores the context may still notice this.
	defer context.AfterFunc(d.ctx, closeBody)()
	resp.Body = d
	d.head <- head{resp: resp}
	buf := make([]byte, 4<<10)
	for {
		var n int
		select {
		case n = <-d.want:
		case <-d.ctx.Done():
			return
		}
		room := buf[:min(n, len(buf))]
		n, err := contain(func() (int, error) { return body.Read(room) })
		if n < 0 || n > len(room) {
			n, err = 0, errBadRead
		}
		d.got <- piece{data: append([]byte(nil), buf[:n]...), err: err} // has room: one is asked for at a time
		if err != nil {
			return
		}
	}
}

var errBadRead = errors.New("the transport's body returned an impossible count")

// Read is only called by the goroutine that reads the answer.
func (d *detached) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.readErr == nil && len(p) > 0 {
		if !d.waiting {
			select {
			case d.want <- len(p):
				d.waiting = true
			case <-d.ctx.Done():
				return 0, context.Cause(d.ctx)
			}
		}
		select {
		case got := <-d.got:
			d.waiting = false
			d.rest, d.readErr = got.data, got.err
		case <-d.ctx.Done():
			return 0, context.Cause(d.ctx)
		}
	}
	n := copy(p, d.rest)
	if d.rest = d.rest[n:]; len(d.rest) > 0 {
		return n, nil
	}
	return n, d.readErr
}

// Close does nothing: the attempt ends its context when it closes the body, which ends
// the goroutine.
func (d *detached) Close() error { return nil }

// contain turns a panic of foreign code into an error. In a goroutine of this package
// it would end the process.
func contain[T any](do func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panicked: %v", p)
		}
	}()
	return do()
}
