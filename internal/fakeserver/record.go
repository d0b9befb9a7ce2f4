package fakeserver

import (
	"context"
	"maps"
	"net/http"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A Request is what the server received, and what became of it. Values are
// copies, except that Header, Body and Chat are shared: read them only.
type Request struct {
	// Ordinal counts completion requests from 1 in the order in which they
	// arrived; others are counted apart.
	Ordinal int

	// Conn tells the connection it came on: its number among all dialled.
	Conn int

	// Arrived is when the whole request had been read, Since the same as time
	// since the server's start.
	Arrived time.Time
	Since   time.Duration

	Method string
	Path   string
	Proto  string
	Header http.Header
	Body   []byte

	// Chat is the decoded body of a completion request, nil if it could not
	// be decoded. Stream and IncludeUsage are what it asks for beside.
	Chat                 *chat.Request
	Stream, IncludeUsage bool

	// Agent stands for the conversation that the request belongs to: equal
	// for all requests with the same first user message. Turn counts the
	// agent's requests from 1.
	Agent string
	Turn  int

	// Asked is how many times this agent has been given a whole and faultless
	// answer to this very conversation before.
	Asked int

	// Fault is the name of the fault that was dealt to it, if any, and Reply
	// the first steps of the script's reply in short.
	Fault string
	Reply string

	// Status is the status sent, 0 if none was.
	Status int

	// Ended is when the reply was over, Left when the client was seen to go
	// away before that. Zero means not yet, or never.
	Ended time.Time
	Left  time.Time
}

// Stats are counts of what has happened so far.
type Stats struct {
	Requests int // completion requests
	Probes   int // other requests
	Ended    int // completion requests whose reply is over
	Left     int // completion requests whose client went away before that
	Dialled  int // connections, refused ones included
	Open     int // connections open now; over TCP an unread one counts until Close

	// Faults counts the faults dealt out by name; outage counts the dials
	// refused and the requests turned away in one. Slowed counts the replies
	// that were only made slow, which is no fault.
	Faults map[string]int
	Slowed map[string]int
}

// FaultCount returns the number of all faults dealt out.
func (s Stats) FaultCount() int {
	n := 0
	for _, k := range s.Faults {
		n += k
	}
	return n
}

// records are the books of a server; its mutex guards them.
type records struct {
	requests []*Request
	probes   []*Request
	agents   map[string]*agent
	ended    int
	left     int
	faults   map[string]int
	slowed   map[string]int
	changed  chan struct{} // closed and replaced whenever something changes
}

// agent is what is known of one conversation.
type agent struct {
	turns    int
	answered map[uint64]int // whole answers given, by conversation
}

func (r *records) init() {
	r.agents = make(map[string]*agent)
	r.faults = make(map[string]int)
	r.slowed = make(map[string]int)
	r.changed = make(chan struct{})
}

func (r *records) tellLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Requests returns the completion requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.requests)
}

// Probes returns the other requests so far: lists of models, health checks
// and wrong paths.
func (s *Server) Probes() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.probes)
}

func values(list []*Request) []Request {
	out := make([]Request, len(list))
	for i, r := range list {
		out[i] = *r
	}
	return out
}

// Stats returns the counts as they are now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statsLocked()
}

func (s *Server) statsLocked() Stats {
	return Stats{
		Requests: len(s.requests),
		Probes:   len(s.probes),
		Ended:    s.ended,
		Left:     s.left,
		Dialled:  s.dials,
		Open:     len(s.conns) + len(s.held),
		Faults:   maps.Clone(s.faults),
		Slowed:   maps.Clone(s.slowed),
	}
}

// Await waits until cond holds, and returns the context's error if it ends
// before that. cond is asked after each change, with no lock held.
func (s *Server) Await(ctx context.Context, cond func(Stats) bool) error {
	for {
		s.mu.Lock()
		stats, changed := s.statsLocked(), s.changed
		s.mu.Unlock()
		if cond(stats) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arrived books a request and returns its record. What it returns is written
// to under the server's mutex only.
func (s *Server) arrived(in Request, conversation uint64) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &in
	r.Arrived = time.Now()
	r.Since = r.Arrived.Sub(s.start)
	if r.Agent == "" && !isCompletion(r.Method, r.Path) {
		s.probes = append(s.probes, r)
		r.Ordinal = len(s.probes)
	} else {
		s.requests = append(s.requests, r)
		r.Ordinal = len(s.requests)
		a := s.agents[r.Agent]
		if a == nil {
			a = &agent{answered: make(map[uint64]int)}
			s.agents[r.Agent] = a
		}
		a.turns++
		r.Turn = a.turns
		r.Asked = a.answered[conversation]
	}
	s.tellLocked()
	return r
}

// dealt books a fault.
func (s *Server) dealt(r *Request, fault string, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Fault = fault
	if slow {
		s.slowed[fault]++
	} else {
		s.faults[fault]++
	}
	s.tellLocked()
}

// gone books that the client went away.
func (s *Server) gone(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.Ended.IsZero() || !r.Left.IsZero() {
		return
	}
	r.Left = time.Now()
	if isCompletion(r.Method, r.Path) {
		s.left++
	}
	s.tellLocked()
}

// over books the end of a reply. whole says that it was all that the script
// wanted to say.
func (s *Server) over(r *Request, status int, whole bool, conversation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Ended = time.Now()
	r.Status = status
	if isCompletion(r.Method, r.Path) {
		s.ended++
		if whole && r.Fault == "" {
			s.agents[r.Agent].answered[conversation]++
		}
	}
	if s.cfg.Forget {
		r.Body, r.Chat = nil, nil
	}
	s.tellLocked()
}
