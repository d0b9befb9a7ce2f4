package llmclient

import "sync"

// shelves hold the calls in flight. There are several, so that thousands of
// calls that begin or end at once do not wait for one another.
type shelves [16]shelf

type shelf struct {
	mu     sync.Mutex
	first  *call // the latest
	closed bool
}

func (s *shelves) of(cl *call) *shelf { return &s[cl.id%uint64(len(s))] }

// put takes a call in and counts it, or reports false if the shelves are closed.
func (s *shelves) put(cl *call, count *sync.WaitGroup) bool {
	h := s.of(cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	count.Add(1) // under the lock: who has closed the shelves may wait
	if cl.next = h.first; cl.next != nil {
		cl.next.prev = cl
	}
	h.first = cl
	return true
}

// take takes a call out.
func (s *shelves) take(cl *call) {
	h := s.of(cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	if cl.next != nil {
		cl.next.prev = cl.prev
	}
	if cl.prev != nil {
		cl.prev.next = cl.next
	} else {
		h.first = cl.next
	}
	cl.prev, cl.next = nil, nil
}

// all lists the calls.
func (s *shelves) all() (list []*call) {
	for i := range s {
		h := &s[i]
		h.mu.Lock()
		for cl := h.first; cl != nil; cl = cl.next {
			list = append(list, cl)
		}
		h.mu.Unlock()
	}
	return list
}

// close lets no further call in, and lists those that are there.
func (s *shelves) close() []*call {
	for i := range s {
		h := &s[i]
		h.mu.Lock()
		h.closed = true
		h.mu.Unlock()
	}
	return s.all()
}
