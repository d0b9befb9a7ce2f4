package llmclient

import "sync"

// A callTable holds the calls in flight. It has several shards, so that thousands of
// calls that begin or end at once do not wait for one another.
type callTable [16]callShard

type callShard struct {
	mu     sync.Mutex
	calls  []*call // nil where a place is free
	free   []int32 // the places that are
	closed bool
}

func (t *callTable) of(cl *call) *callShard { return &t[cl.id%uint64(len(t))] }

// put takes a call in and counts it, or reports false if the table is closed.
func (t *callTable) put(cl *call, count *sync.WaitGroup) bool {
	h := t.of(cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	count.Add(1) // under the lock: whoever has closed the table may wait
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
func (t *callTable) take(cl *call) {
	h := t.of(cl)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[cl.place] = nil
	if h.free = append(h.free, cl.place); len(h.free) == len(h.calls) {
		h.calls, h.free = h.calls[:0], h.free[:0]
	}
}

// all lists the calls.
func (t *callTable) all() (list []*call) {
	for i := range t {
		h := &t[i]
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
func (t *callTable) close() []*call {
	for i := range t {
		h := &t[i]
		h.mu.Lock()
		h.closed = true
		h.mu.Unlock()
	}
	return t.all()
}
