package agentloop

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxQueued is how many events wait for a slow consumer before new ones are
// dropped. Ends of agents are never dropped.
const maxQueued = 1 << 16

// flushTime is how long a group waits at its end for consumers to hear what is
// queued. They go on hearing it afterwards.
const flushTime = time.Second

// A bus takes events from all agents without ever blocking them, and gives
// them to the consumers in order, one at a time, on a goroutine of its own.
type bus struct {
	all    func(Event)
	by     map[string]func(Event) // consumers of single agents
	logger *slog.Logger

	wake chan struct{} // holds a token if there may be something to do
	done chan struct{} // closed when all is delivered after close

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
	case len(b.queue) >= maxQueued && e.Kind != EventEnded && e.Kind != EventGroupEnded:
		b.dropped++
	default:
		b.queue = append(b.queue, e)
	}
	b.mu.Unlock()
	b.nudge()
}

func (b *bus) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// close waits for a while until everything is delivered, and returns how many
// events were dropped.
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
			b.tell(e)
		case over:
			close(b.done)
			return
		default:
			<-b.wake
		}
	}
}

func (b *bus) tell(e Event) {
	if b.logger != nil {
		b.one(e, b.log)
	}
	if f := b.by[e.Agent]; f != nil {
		b.one(e, f)
	}
	if b.all != nil {
		b.one(e, b.all)
	}
}

// one lets one consumer hear one event; its panic is its own affair.
func (b *bus) one(e Event, hear func(Event)) {
	defer func() {
		if v := recover(); v != nil && b.logger != nil {
			defer func() { _ = recover() }() // the logger may be what panics
			b.logger.Error("agentloop: event consumer panicked", "kind", string(e.Kind), "panic", v)
		}
	}()
	hear(e)
}

// log writes the event as a line. Message texts are stable, what models and
// tools say is left out.
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
