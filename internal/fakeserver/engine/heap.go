package engine

import "time"

// An event is something that a core has to do at a moment.
type event struct {
	at   time.Duration
	kind eventKind
	key  uint64
	seq  uint64
	call *Call
	try  int
	w    *worker
}

// eventKind is a kind of event; of one moment they are handled in this order.
type eventKind uint8

const (
	changing eventKind = iota
	unpinning
	transferred
	timedOut
	noticing
	arrived
)

func (e event) before(f event) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.kind != f.kind:
		return e.kind < f.kind
	case e.key != f.key:
		return e.key < f.key
	}
	return e.seq < f.seq
}

// events is a heap of events, the next one first.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *events) pop() event {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s[n] = event{}
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
			if s[k].before(s[least]) {
				least = k
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
