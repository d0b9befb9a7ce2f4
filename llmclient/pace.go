package llmclient

import (
	"sync"
	"time"
)

const (
	// A call is an orphan if it has been without a byte for orphanAfter, if at least
	// orphanSiblings like calls that started later have finished, and if it has waited
	// orphanTimes as long as the slowest of them.
	orphanAfter    = 2 * time.Minute
	orphanSiblings = 8
	orphanTimes    = 10

	// paceKept is how many finished calls are remembered.
	paceKept = 256
)

// A callKind describes calls that should take equally long.
type callKind struct {
	model     string
	reasoning bool
	size      int // bytes of the request
}

// like reports whether two calls may be expected to take equally long.
func (k callKind) like(o callKind) bool {
	return k.model == o.model && k.reasoning == o.reasoning && k.size <= 2*o.size && o.size <= 2*k.size
}

// pace is how fast an endpoint has been: its last finished calls.
type pace struct {
	mu   sync.Mutex
	last []paced
	next int

	longest longest // of the model that was last asked for
}

// longest is the longest waits of one model, as long as they are known.
type longest struct {
	known      bool
	model      string
	first, gap time.Duration
}

func (l *longest) take(c *paced) {
	if l.known && c.model == l.model {
		l.first, l.gap = max(l.first, c.first), max(l.gap, c.gap)
	}
}

type paced struct {
	callKind
	started time.Time
	first   time.Duration // until the first output
	gap     time.Duration // the longest between two outputs
}

// add notes a finished call.
func (p *pace) add(k callKind, started time.Time, first, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := paced{k, started, first, gap}
	p.longest.take(&c)
	if len(p.last) < paceKept {
		p.last = append(p.last, c)
		return
	}
	if old := &p.last[p.next]; old.model == p.longest.model && (old.first >= p.longest.first || old.gap >= p.longest.gap) {
		p.longest.known = false // it may have been the longest
	}
	p.last[p.next] = c
	p.next = (p.next + 1) % paceKept
}

// overtaken reports whether the endpoint has forgotten a call that began at a time
// and has waited without a byte: see orphanAfter.
func (p *pace) overtaken(k callKind, started time.Time, waited time.Duration) (n int, slowest time.Duration, yes bool) {
	if waited < orphanAfter {
		return 0, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.last {
		if c.like(k) && c.started.After(started) {
			n++
			slowest = max(slowest, c.first)
		}
	}
	return n, slowest, n >= orphanSiblings && waited >= orphanTimes*slowest
}

// shown returns a model's longest waits in whole answers: for the first output, and
// between outputs.
func (p *pace) shown(model string) (first, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := &p.longest; !l.known || l.model != model {
		*l = longest{known: true, model: model}
		for i := range p.last {
			l.take(&p.last[i])
		}
	}
	return p.longest.first, p.longest.gap
}
