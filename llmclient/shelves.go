package llmclient

import "sync"

// shelves hold the calls in flight. There are several, so that thousands of
// calls that begin or end at once do not wait for one another.
type shelves [16]shelf

type shelf struct {
	mu     sync.Mutex
	calls  []*call // nil where a place is free
	free   []int32 // the places that are
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
	if n := len(h.free); n > 0 {
		cl.place, h.free = h.free[n-1], h.free[:n-1]
		h.calls[cl.place] = cl
		return true
	}
	cl.place = int32(len(h.calls))
	h.calls = append(h.calls, cl)
	return true
}

// take takes a call out. It touches no other call: when thousands end at once,
// each of those would have to be fetched from memory again.
func (s *shelves) take(cl *call) {
	h := s.of(cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[cl.place] = nil
	if h.free = append(h.free, cl.place); len(h.free) == len(h.calls) {
		h.calls, h.free = h.calls[:0], h.free[:0]
	}
}

// all lists the calls.
func (s *shelves) all() (list []*call) {
	for i := range s {
		h := &s[i]
		h.mu.Lock()
		for _, cl := range h.calls {
			if cl != nil {
				list = append(list, cl)
			}
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
