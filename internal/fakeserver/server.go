package fakeserver

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config sets up a [Server]. The zero value plays an [Author] without faults.
type Config struct {
	// Script decides on the reply to each completion request. Nil means a
	// zero [Author]. It is called from the goroutine of the request, several
	// at a time.
	Script Script

	// Handler, if not nil, serves all requests in place of the script, on the
	// same networks. Connections are on the books then, requests are not.
	Handler http.Handler

	// Models decides on the reply to a request for the list of models. Nil
	// means a healthy list.
	Models Script

	// Faults are dealt out at random on top of the script, and Seed says
	// which request gets which: equal seeds deal equally.
	Faults Faults
	Seed   uint64

	// Net is the trouble on the network from the start; see [Server.SetNet].
	Net []NetFault

	// Slots is how many requests are served at a time, lists of models
	// included. Zero or less means any number. Those that find none free wait
	// in line, unless Full is set: then completions are answered with it.
	Slots int
	Full  Step

	// Buffer is how many bytes each direction of a connection in memory holds
	// before its writer waits. Zero or less means 64 KiB.
	Buffer int

	// Forget drops bodies and chat requests from the records once a request
	// has ended, for long runs.
	Forget bool
}

const (
	defaultBuffer = 64 << 10
	maxBody       = 64 << 20
)

// A Server is a scripted model server. It is safe for concurrent use.
type Server struct {
	cfg    Config
	url    string
	dial   func(ctx context.Context) (net.Conn, error)
	http   *http.Server
	start  time.Time
	slots  chan struct{}
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   chan struct{} // closed when Close has finished

	mu      sync.Mutex
	closing bool
	net     []NetFault
	dials   int
	conns   map[*conn]struct{}
	held    map[net.Conn]struct{} // accepted, but nobody is at home
	records
}

// New returns a server on a network of its own in memory, at
// http://model.test. Use [Server.DialContext] or [Server.Transport] to reach
// it. In a synctest bubble it must be made, used and closed inside.
func New(cfg Config) *Server {
	s := newServer(cfg)
	s.url = "http://model.test"
	lis := &memory{srv: s, pending: make(chan net.Conn)}
	s.dial = lis.dial
	s.serve(lis)
	return s
}

// Listen returns a server on a free port of 127.0.0.1, for clients that dial
// for themselves.
func Listen(cfg Config) (*Server, error) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := newServer(cfg)
	s.url = "http://" + tcp.Addr().String()
	s.dial = func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", tcp.Addr().String())
	}
	s.serve(&loopback{Listener: tcp, srv: s})
	return s, nil
}

func newServer(cfg Config) *Server {
	if cfg.Script == nil {
		cfg.Script = Author{}.Reply
	}
	if cfg.Models == nil {
		cfg.Models = Always(ModelList())
	}
	if cfg.Buffer <= 0 {
		cfg.Buffer = defaultBuffer
	}
	s := &Server{
		cfg:   cfg,
		start: time.Now(),
		done:  make(chan struct{}),
		net:   slices.Clone(cfg.Net),
		conns: make(map[*conn]struct{}),
		held:  make(map[net.Conn]struct{}),
	}
	s.records.init()
	if cfg.Slots > 0 {
		s.slots = make(chan struct{}, cfg.Slots)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

type connKey struct{}

func (s *Server) serve(lis net.Listener) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:     http.HandlerFunc(s.handle),
		Protocols:   &protocols,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, nc)
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			if c, ok := nc.(*conn); ok {
				switch state {
				case http.StateIdle:
					c.idle()
				case http.StateActive:
					c.busy()
				}
			}
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.wg.Go(func() { _ = s.http.Serve(lis) })
}

// URL returns the server's address without a path.
func (s *Server) URL() string { return s.url }

// BaseURL returns the address that clients of the API want: [Server.URL] and
// /v1.
func (s *Server) BaseURL() string { return s.url + "/v1" }

// DialContext connects to the server, whatever address it is given. It fits
// [http.Transport].DialContext.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.dial(ctx)
}

// Transport returns a new plain transport that reaches the server. It has no
// timeouts and may be changed before its first use.
func (s *Server) Transport() *http.Transport {
	return &http.Transport{DialContext: s.DialContext}
}

// SetNet replaces the trouble on the network for connections dialled from now
// on. Those that are open keep theirs.
func (s *Server) SetNet(faults ...NetFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.net = slices.Clone(faults)
}

// LoseConns makes black holes of all connections that are open now: what
// clients write is taken, nothing comes back, no end is seen. New ones work.
func (s *Server) LoseConns() {
	for _, c := range s.open() {
		c.lost.Store(true)
	}
}

// CloseConns closes all connections that are open now, also in the middle of
// an answer. New ones work.
func (s *Server) CloseConns() {
	for _, c := range s.open() {
		_ = c.Close()
	}
}

func (s *Server) open() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// Close ends all replies and connections, and returns when nothing of the
// server runs any more. It may be called several times.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.done
		return
	}
	s.closing = true
	held := slices.Collect(maps.Keys(s.held))
	clear(s.held)
	s.mu.Unlock()

	s.cancel()
	for _, nc := range held {
		_ = nc.Close()
	}
	s.CloseConns()
	_ = s.http.Shutdown(context.Background())
	s.wg.Wait()
	close(s.done)
}

// admit gives a connection its number and finds the trouble that meets it at
// the door, and the trouble that waits for it once it is idle.
func (s *Server) admit() (id int, door NetKind, idle []NetFault) {
	age := time.Since(s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	id = s.dials
	if s.cfg.Faults.down(age) {
		s.faults["outage"]++
		s.tellLocked()
		return id, Refused, nil
	}
	for _, f := range s.net {
		switch {
		case !f.hits(id, age):
		case f.Kind == BlackHole || f.Kind == IdleClose:
			idle = append(idle, f)
		case door == "":
			door = f.Kind
		}
	}
	s.tellLocked()
	return id, door, idle
}

// opened books a connection that works. It reports false if the server is
// closing.
func (s *Server) opened(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[c] = struct{}{}
	s.tellLocked()
	return true
}

func (s *Server) closed(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.tellLocked()
}

// hold books a connection on which nobody is at home.
func (s *Server) hold(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.held[nc] = struct{}{}
	s.tellLocked()
	return true
}

func (s *Server) unhold(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, nc)
	s.tellLocked()
}
