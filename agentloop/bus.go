package agentloop

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxQueued is how many events wait for a slow consumer. Beyond, new ones are dropped
// unless they are vital.
const maxQueued = 1 << 16

// flushTime is how long a group waits at its end until consumers have got all queued
// events. Later ones still reach them in the background.
const flushTime = time.Second

// A bus takes events from all agents without ever blocking them, and gives
// them to the consumers in order, one at a time, on a goroutine of its own.
type bus struct {
	all    func(Event)
	by     map[string]func(Event) // consumers of single agents
	logger *slog.Logger
	line   func(Event) // writes it to the logger; nil without one

	wake chan struct{} // holds a token if there may be something to do
	done chan struct{} // closed when all is delivered after close

	// The event that is being delivered; used by the delivering goroutine alone.
	now  Event
	ears [3]func(Event)
	rest []func(Event) // the consumers that have not got it yet

	mu      sync.Mutex
	queue   []Event
	seq     uint64
	closed  bool
	dropped int
}

// newBus returns a running bus, or nil if nobody listens. All methods do
// nothing on a nil bus.
func newBus(cfg *GroupConfig) *bus {
	b := &bus{all: cfg.OnEvent, logger: cfg.Logger}
	for _, a := range cfg.Agents {
		if a.cfg.OnEvent != nil {
			if b.by == nil {
				b.by = make(map[string]func(Event))
			}
			b.by[a.cfg.Name] = a.cfg.OnEvent
		}
	}
	if b.all == nil && b.by == nil && b.logger == nil {
		return nil
	}
	if b.logger != nil {
		b.line = b.log
	}
	b.wake, b.done = make(chan struct{}, 1), make(chan struct{})
	go b.deliver()
	return b
}

func (b *bus) emit(e Event) {
	if b == nil {
		return
	}
	b.mu.Lock()
	// The time is taken under the lock so that it grows along the queue.
	e.Time = time.Now()
	b.seq++
	e.Seq = b.seq
	switch {
	case b.closed: // of what was left behind
	case len(b.queue) >= maxQueued && !vital(e.Kind):
		b.dropped++
	default:
		b.queue = append(b.queue, e)
	}
	b.mu.Unlock()
	b.nudge()
}

// vital reports whether an event is queued even if the queue is full: ends, and what
// is told only once. There are few of them.
func vital(kind EventKind) bool {
	switch kind {
	case EventEnded, EventGroupEnded, EventStalled, EventSystemic, EventRecovered, EventUncertain, EventToolAbandoned:
		return true
	}
	return false
}

func (b *bus) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// close waits for a while until everything is delivered, and returns how many events
// were dropped.
func (b *bus) close(wait time.Duration) (dropped int) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	b.closed = true
	dropped = b.dropped
	b.mu.Unlock()
	b.nudge()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-b.done:
	case <-t.C:
	}
	return dropped
}

func (b *bus) deliver() {
	over := false
	defer func() {
		if !over { // a consumer ended the goroutine
			go b.deliver()
		}
	}()
	for {
		for len(b.rest) > 0 {
			next := b.rest[0]
			b.rest = b.rest[1:] // first: it may not come back
			b.one(b.now, next)
		}
		b.mu.Lock()
		var e Event
		some := len(b.queue) > 0
		if some {
			e, b.queue = b.queue[0], b.queue[1:]
		} else {
			b.queue = nil // let go of what was delivered
		}
		over = !some && b.closed
		b.mu.Unlock()
		switch {
		case some:
			b.now, b.rest = e, b.listeners(e)
		case over:
			close(b.done)
			return
		default:
			<-b.wake
		}
	}
}

// listeners returns the consumers of an event.
func (b *bus) listeners(e Event) []func(Event) {
	list := b.ears[:0]
	for _, f := range [...]func(Event){b.line, b.by[e.Agent], b.all} {
		if f != nil {
			list = append(list, f)
		}
	}
	return list
}

// one gives an event to one consumer. A panic of the consumer harms nobody else.
func (b *bus) one(e Event, hear func(Event)) {
	defer func() {
		if v := recover(); v != nil && b.logger != nil {
			defer func() { _ = recover() }() // the logger may be what panics
			b.logger.Error("agentloop: event consumer panicked", "kind", string(e.Kind), "panic", v)
		}
	}()
	hear(e)
}

// log writes the event as a line. Message texts are stable; output of models and
// tools is left out.
func (b *bus) log(e Event) {
	level := slog.LevelDebug
	switch e.Kind {
	case EventStalled, EventUncertain, EventRestart, EventParked, EventSystemic, EventToolPanicked, EventToolAbandoned, EventWarned:
		level = slog.LevelWarn
	case EventStarted, EventResumed, EventStep, EventNudged, EventNarrowed, EventForced, EventShrunk, EventSummarized, EventRecovered, EventGroupEnded:
		level = slog.LevelInfo
	case EventEnded:
		level = slog.LevelInfo
		if e.Outcome != Done {
			level = slog.LevelWarn
		}
	}
	if !b.logger.Enabled(context.Background(), level) {
		return
	}
	var attrs []slog.Attr
	if e.Agent != "" {
		attrs = append(attrs, slog.String("agent", e.Agent), slog.Int("round", e.Round))
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("tool", e.Tool)
	add("step", e.Step)
	add("outcome", string(e.Outcome))
	switch e.Kind {
	case EventStalled:
		add("waits", e.Text)
	case EventShrunk, EventResumed, EventGroupEnded:
		add("text", e.Text)
	}
	if e.After > 0 {
		attrs = append(attrs, slog.Duration("after", e.After))
	}
	if e.Err != nil && e.Kind != EventToolEnded {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	b.logger.LogAttrs(context.Background(), level, "agentloop: "+string(e.Kind), attrs...)
}
