package fakeserver

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// newLink returns the two ends of a connection in memory. Each direction
// holds up to room bytes before its writer waits.
//
// It differs from [net.Pipe] in what matters to a client: what was written
// before a close still arrives, a reset is seen as a reset, a peer that never
// reads can be told from one that is slow, and reads can be kept small.
//
// All waits are on channels, with no lock held, so that the clock of a
// synctest bubble can move meanwhile.
func newLink(room int, client, server net.Addr) (c, s *end) {
	up, down := newPipe(room), newPipe(room)
	c = &end{in: down, out: up, local: client, remote: server}
	s = &end{in: up, out: down, local: server, remote: client}
	return c, s
}

// An end is one end of a link. It is safe for concurrent use.
type end struct {
	in, out         *pipe
	local, remote   net.Addr
	readBy, writeBy deadline
	closing         sync.Once
	afterClose      func() // set before the end is used; may be nil
}

func (e *end) Read(b []byte) (int, error) {
	n, err := e.in.read(b, &e.readBy)
	return n, e.wrap("read", err)
}

func (e *end) Write(b []byte) (int, error) {
	n, err := e.out.write(b, &e.writeBy)
	return n, e.wrap("write", err)
}

// Close lets the peer read what is under way and then see an end.
func (e *end) Close() error {
	e.shut(func() {
		e.out.finish()
		e.in.abandon(net.ErrClosed, syscall.EPIPE)
		e.out.abandonWriter(net.ErrClosed)
	})
	return nil
}

// reset breaks the link at once: what is under way is lost, both sides fail.
func (e *end) reset() {
	e.shut(func() {
		e.out.abandon(syscall.ECONNRESET, net.ErrClosed)
		e.in.abandon(net.ErrClosed, syscall.ECONNRESET)
	})
}

func (e *end) shut(how func()) {
	e.closing.Do(func() {
		how()
		e.readBy.set(time.Time{})
		e.writeBy.set(time.Time{})
		if e.afterClose != nil {
			e.afterClose()
		}
	})
}

func (e *end) LocalAddr() net.Addr  { return e.local }
func (e *end) RemoteAddr() net.Addr { return e.remote }

func (e *end) SetDeadline(t time.Time) error {
	e.readBy.set(t)
	e.writeBy.set(t)
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.readBy.set(t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.writeBy.set(t)
	return nil
}

// wrap gives an error the form that the net package gives it.
func (e *end) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError(op, no)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: e.local, Addr: e.remote, Err: err}
}

// A pipe is one direction of a link.
type pipe struct {
	mu      sync.Mutex
	buf     []byte
	room    int           // bytes that may wait; none while it is 0
	in, out int           // bytes ever written and read
	small   span          // bytes that are handed out in small reads
	ended   bool          // the writer has closed
	readErr error         // what a reader gets at once
	wrErr   error         // what a writer gets at once
	changed chan struct{} // closed when the above changes; nil while nobody waits for it
}

func newPipe(room int) *pipe {
	return &pipe{room: room}
}

func (p *pipe) tellLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// changeLocked returns a channel that is closed with the next change.
func (p *pipe) changeLocked() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

func (p *pipe) read(b []byte, by *deadline) (int, error) {
	for {
		over := by.passed()
		if isClosed(over) {
			return 0, os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		switch {
		case p.readErr != nil:
			defer p.mu.Unlock()
			return 0, p.readErr
		case len(p.buf) > 0 || len(b) == 0:
			defer p.mu.Unlock()
			n := copy(b[:min(len(b), p.small.most(p.out))], p.buf)
			p.buf = p.buf[n:]
			p.out += n
			p.tellLocked()
			return n, nil
		case p.ended:
			defer p.mu.Unlock()
			return 0, io.EOF
		}
		changed := p.changeLocked()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-over:
		}
	}
}

func (p *pipe) write(b []byte, by *deadline) (n int, err error) {
	for {
		over := by.passed()
		if isClosed(over) {
			return n, os.ErrDeadlineExceeded
		}
		p.mu.Lock()
		if p.wrErr != nil || p.ended {
			defer p.mu.Unlock()
			if p.wrErr == nil {
				return n, net.ErrClosed
			}
			return n, p.wrErr
		}
		if k := min(p.room-len(p.buf), len(b)); k > 0 {
			p.buf = append(p.buf, b[:k]...)
			b, n = b[k:], n+k
			p.in += k
			p.tellLocked()
		}
		if len(b) == 0 {
			p.mu.Unlock()
			return n, nil
		}
		changed := p.changeLocked()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-over:
		}
	}
}

// finish marks the end: the reader gets what is left, then io.EOF.
func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.tellLocked()
}

// abandon fails reads and writes from now on and drops what is under way. An
// error that is there already stays.
func (p *pipe) abandon(read, write error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readErr == nil {
		p.readErr = read
	}
	if p.wrErr == nil {
		p.wrErr = write
	}
	p.buf = nil
	p.tellLocked()
}

// abandonWriter fails writes from now on; the reader still gets what is left.
func (p *pipe) abandonWriter(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrErr == nil {
		p.wrErr = err
	}
	p.tellLocked()
}

// readSmall has what is written from now on handed out in reads of at most
// the size that size returns; nil ends it.
func (p *pipe) readSmall(size func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size == nil {
		p.small.to = min(p.small.to, p.in)
		return
	}
	p.small = span{from: p.in, to: math.MaxInt, size: size}
}

// A span is a part of all bytes of a pipe, with a bound for reads.
type span struct {
	from, to int
	size     func() int
}

// most returns how much a read at an offset may return.
func (s span) most(at int) int {
	switch {
	case at < s.from:
		return s.from - at
	case at < s.to:
		return min(max(s.size(), 1), s.to-at)
	}
	return math.MaxInt
}

// A deadline is a moment to wait for that can be moved while it is waited for.
type deadline struct {
	mu    sync.Mutex
	over  chan struct{} // closed once the moment has passed
	timer *time.Timer
	turn  int // counts settings, so that a late timer does no harm
}

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = make(chan struct{})
	}
	return d.over
}

// set moves the deadline. The zero time means never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.turn++
	if d.over == nil || isClosed(d.over) {
		d.over = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.over)
		return
	}
	turn := d.turn
	d.timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.turn == turn {
			close(d.over)
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
