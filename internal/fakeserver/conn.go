package fakeserver

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is the server's end of a connection, over memory or TCP. It can be
// told to misbehave.
type conn struct {
	net.Conn
	srv    *Server
	id     int
	lost   atomic.Bool // a black hole: nothing goes in or out any more
	onIdle []NetFault  // what happens once it is idle

	mu     sync.Mutex
	timers []*time.Timer // run while it is idle
	gone   bool
}

func (c *conn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.lost.Load() {
			return n, err
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close closes the connection in the ordinary way.
func (c *conn) Close() error {
	if !c.leave() {
		return net.ErrClosed
	}
	return c.Conn.Close()
}

// reset breaks the connection, so that the client sees a reset.
func (c *conn) reset() {
	if !c.leave() {
		return
	}
	abort(c.Conn)
}

// abort closes a connection of either network with a reset.
func abort(nc net.Conn) {
	switch nc := nc.(type) {
	case *end:
		nc.reset()
		return
	case *net.TCPConn:
		_ = nc.SetLinger(0)
	}
	_ = nc.Close()
}

// leave takes the connection off the books; only the first call reports true.
func (c *conn) leave() bool {
	c.mu.Lock()
	first := !c.gone
	c.gone = true
	c.stopLocked()
	c.mu.Unlock()
	if first {
		c.srv.closed(c)
	}
	return first
}

// idle starts the clocks of what happens to an idle connection.
func (c *conn) idle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLocked()
	if c.gone {
		return
	}
	for _, f := range c.onIdle {
		act := func() { _ = c.Close() }
		if f.Kind == BlackHole {
			act = func() { c.lost.Store(true) }
		}
		if f.After <= 0 && f.Kind == BlackHole {
			act()
			continue
		}
		c.timers = append(c.timers, time.AfterFunc(max(f.After, 0), act))
	}
}

// busy ends an idle time.
func (c *conn) busy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLocked()
}

func (c *conn) stopLocked() {
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
}

// small has the client read what is written from now on in pieces of at most n
// bytes, or with a negative n of a random size up to -n. 0 ends it. Over TCP it
// does nothing.
func (c *conn) small(n int, rng *rand.Rand) {
	e, ok := c.Conn.(*end)
	if !ok {
		return
	}
	switch {
	case n > 0:
		e.out.readSmall(func() int { return n })
	case n < 0:
		// Not the reply's own random numbers: reads come from another goroutine.
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		e.out.readSmall(func() int { return 1 + own.IntN(-n) })
	default:
		e.out.readSmall(nil)
	}
}
