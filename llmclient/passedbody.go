package llmclient

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/neverhang/neverhang/breaker"
)

// response returns the answer of an attempt that has committed.
func (a *attempt) response(req *http.Request) *http.Response {
	resp := *a.head
	resp.Header = resp.Header.Clone()
	resp.Request = req
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	b := &passedBody{a: a}
	if a.settled.Load() { // it was whole before there was any output
		b.ready, b.over = a.tape.take(-1), io.EOF
		a.call.succeed(a)
	} else {
		b.ready = a.tape.take(a.answer.consumed())
		a.watch.tell((*meter).pause)
		b.release = context.AfterFunc(a.call.ctx, b.interrupt)
	}
	resp.Body = b
	return &resp
}

// A passedBody is the body of a committed answer, as the SDK reads it.
type passedBody struct {
	a       *attempt
	ready   []byte // checked, not yet read
	release func() bool

	mu      sync.Mutex
	reading bool
	over    error // io.EOF, or why it ended
}

// Read returns bytes of whole events only.
func (b *passedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(b.ready) == 0 {
		b.mu.Lock()
		if b.over != nil {
			defer b.mu.Unlock()
			return 0, b.over
		}
		b.reading = true
		b.mu.Unlock()
		b.fetch()
		b.mu.Lock()
		b.reading = false
		b.mu.Unlock()
		if b.a.call.ctx.Err() != nil {
			b.interrupt()
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// fetch reads the next piece of the answer.
func (b *passedBody) fetch() {
	a := b.a
	a.watch.tell((*meter).resume)
	_, err := a.next()
	a.watch.tell((*meter).pause)
	switch {
	case err == nil:
		b.ready = a.tape.take(a.answer.consumed())
	case err == io.EOF:
		b.ready = a.tape.take(-1)
		a.settle(nil, breaker.Success)
		b.end(nil)
	default:
		b.ready = a.tape.take(a.answer.consumed())
		failed, _ := a.fail(err)
		b.end(failed)
	}
}

func (b *passedBody) end(failed *Error) {
	b.mu.Lock()
	if b.over != nil {
		b.mu.Unlock()
		return
	}
	b.over = io.EOF
	if failed != nil {
		b.over = failed
	}
	b.mu.Unlock()
	b.release()
	if failed == nil {
		b.a.call.succeed(b.a)
		return
	}
	err := b.a.call.fail(failed)
	b.mu.Lock()
	b.over = err
	b.mu.Unlock()
}

// interrupt ends a body whose context has ended while nobody was reading it.
func (b *passedBody) interrupt() {
	b.mu.Lock()
	busy := b.reading || b.over != nil
	b.reading = true
	b.mu.Unlock()
	if busy {
		return
	}
	failed, _ := b.a.fail(context.Cause(b.a.call.ctx))
	b.end(failed)
}

// Close gives back all that the answer holds. An answer closed before its end
// counts for nothing.
func (b *passedBody) Close() error {
	b.mu.Lock()
	over := b.over != nil
	b.mu.Unlock()
	if !over {
		b.a.call.cancel(errClosed)
		b.interrupt()
	}
	return nil
}

// A tape keeps the bytes of an answer until they have been checked.
type tape struct {
	buf   []byte
	taken int64
}

// take returns the bytes up to an offset of the answer, or all of them.
func (t *tape) take(to int64) []byte {
	n := len(t.buf)
	if to >= 0 {
		n = min(n, int(to-t.taken))
	}
	b := t.buf[:n:n]
	t.buf = t.buf[n:]
	t.taken += int64(n)
	return b
}

// A taping reader keeps what is read through it.
type taping struct {
	src  io.Reader
	tape *tape
}

func (r taping) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.tape.buf = append(r.tape.buf, p[:n]...)
	return n, err
}
