package llmclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// response returns the answer of an attempt that has committed.
func (a *attempt) response(req *http.Request) *http.Response {
	resp := *a.head
	resp.Header = resp.Header.Clone()
	resp.Request = req
	if !a.answer.opaque {
		// Blank lines before the JSON have been taken off.
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	b := &passthroughBody{a: a, resp: &resp, release: func() bool { return true }}
	resp.Body = b
	if a.settled.Load() { // it was whole before there was any output, or is one value
		b.ready = a.tape.take(-1)
		a.call.succeed(a)
		b.turn.end(io.EOF)
		return &resp
	}
	b.ready = a.tape.take(a.answer.consumed())
	a.watch.tell((*meter).pause)
	set := make(chan struct{}) // release must be set before interrupt runs
	b.release = context.AfterFunc(a.ctx, func() { <-set; b.interrupt() })
	close(set)
	return &resp
}

// A passthroughBody is the body of a committed answer, as the SDK reads it.
type passthroughBody struct {
	a       *attempt
	resp    *http.Response
	ready   []byte // checked, not yet read
	closed  atomic.Bool
	turn    turn
	release func() bool // stops listening to the context
}

// Read returns bytes of whole events only.
func (b *passthroughBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.closed.Load() {
		if err := b.turn.ended(); err != nil && err != io.EOF {
			return 0, err
		}
		return 0, http.ErrBodyReadAfterClose
	}
	for len(b.ready) == 0 {
		if err := b.turn.read(); err != nil {
			return 0, err
		}
		b.fetch()
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// fetch reads the next piece of the answer. It has the turn, and gives it back.
func (b *passthroughBody) fetch() {
	a := b.a
	a.watch.tell((*meter).resume)
	_, err := a.next()
	a.watch.tell((*meter).pause)
	switch {
	case err == nil:
		b.ready = a.tape.take(a.answer.consumed())
		b.turn.done()
		if a.call.gone() {
			b.interrupt() // it came while we were reading
		}
	case err == io.EOF && a.answer.torn:
		b.ready = a.tape.take(a.answer.consumed())
		b.whole()
	case err == io.EOF:
		b.ready = a.tape.take(-1)
		b.whole()
	default:
		// The bytes that made it fail are not handed on, since the SDK might take the
		// end of the stream for a good one. An error event of the server is.
		if in := (*insideError)(nil); errors.As(err, &in) {
			b.ready = a.tape.take(a.answer.consumed())
		}
		failed, _ := a.fail(err)
		b.fail(failed)
	}
}

// whole ends the call with success.
func (b *passthroughBody) whole() {
	b.resp.Trailer = b.a.head.Trailer // those that were not announced are known only now
	b.a.settle(nil, breaker.Success, time.Now())
	b.release()
	b.a.call.succeed(b.a)
	b.turn.end(io.EOF)
}

func (b *passthroughBody) fail(failed *Error) {
	b.release()
	b.turn.end(b.a.call.fail(failed))
}

// interrupt ends a body whose context has ended while nobody was reading it.
func (b *passthroughBody) interrupt() {
	if !b.turn.seize() {
		return
	}
	if b.a.leave() {
		b.release()
		b.a.call.succeed(b.a)
		b.turn.end(io.EOF)
		return
	}
	failed, _ := b.a.fail(errClosed)
	b.fail(failed)
}

// Close gives back all that the answer holds. An answer that is closed before its
// end counts neither as a success nor as a failure.
func (b *passthroughBody) Close() error {
	b.closed.Store(true)
	if b.turn.ended() == nil {
		b.a.call.stop()
		b.interrupt()
	}
	return nil
}

// A tape keeps the bytes of an answer until they have been checked.
type tape struct {
	buf   []byte
	start int64 // the offset in the answer at which buf begins, counting what was left out
}

// take returns the bytes up to an offset of the answer, or all of them.
func (t *tape) take(to int64) []byte {
	n := len(t.buf)
	if to >= 0 {
		n = max(0, min(n, int(to-t.start)))
	}
	b := t.buf[:n:n]
	t.buf = t.buf[n:]
	t.start += int64(n)
	return b
}

// leaveOut removes the bytes between two offsets that have not been taken.
func (t *tape) leaveOut(from, to int64) {
	i, j := max(0, int(from-t.start)), min(len(t.buf), int(to-t.start))
	if i < j {
		t.buf = append(t.buf[:i], t.buf[j:]...) // what has been taken lies before it
		t.start += int64(j - i)
	}
}

// trim removes line ends from an offset on.
func (t *tape) trim(from int64) {
	i := max(0, int(from-t.start))
	j := i
	for j < len(t.buf) && (t.buf[j] == '\r' || t.buf[j] == '\n') {
		j++
	}
	t.leaveOut(from, t.start+int64(j))
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
