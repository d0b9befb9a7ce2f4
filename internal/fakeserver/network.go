package fakeserver

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"
)

// addr is an address of the network in memory.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

const memoryAddr addr = "model.test:80"

// memory is the network in memory, seen as a listener.
type memory struct {
	srv     *Server
	pending chan net.Conn
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case nc := <-m.pending:
		return nc, nil
	case <-m.srv.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with its server's context.
func (m *memory) Close() error   { return nil }
func (m *memory) Addr() net.Addr { return memoryAddr }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: memoryAddr, Err: err}
	}
	s := m.srv
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if s.ctx.Err() != nil {
		return fail(refused())
	}
	id, door, idle := s.admit()
	switch door {
	case Refused:
		return fail(refused())
	case HangDial:
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-s.ctx.Done():
			return fail(refused())
		}
	}

	room := s.cfg.Buffer
	if door == NeverRead {
		room = 0
	}
	client, server := newLink(room, addr("client.test:"+strconv.Itoa(id)), memoryAddr)
	if door == NeverRead {
		if !s.hold(server) {
			return fail(refused())
		}
		client.afterClose = func() { s.unhold(server) }
		return client, nil
	}
	c := &conn{Conn: server, srv: s, id: id, onIdle: idle}
	if !s.opened(c) {
		return fail(refused())
	}
	select {
	case m.pending <- c:
		return client, nil
	case <-ctx.Done():
		_ = c.Close()
		return fail(ctx.Err())
	case <-s.ctx.Done():
		_ = c.Close()
		return fail(refused())
	}
}

func refused() error { return os.NewSyscallError("connect", syscall.ECONNREFUSED) }

// loopback is a TCP listener with trouble at the door.
type loopback struct {
	net.Listener
	srv *Server
}

func (l *loopback) Accept() (net.Conn, error) {
	s := l.srv
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		id, door, idle := s.admit()
		switch door {
		case Refused:
			abort(nc)
			continue
		case HangDial, NeverRead:
			if !s.hold(nc) {
				_ = nc.Close()
			}
			continue
		}
		c := &conn{Conn: nc, srv: s, id: id, onIdle: idle}
		if !s.opened(c) {
			_ = nc.Close()
			continue
		}
		return c, nil
	}
}
