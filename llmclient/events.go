package llmclient

import (
	"context"
	"log/slog"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// An EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	// EventAttempt: a request is about to be sent.
	EventAttempt EventKind = "attempt"
	// EventSuspect: a clock passed its suspect bound. Nothing was cut.
	EventSuspect EventKind = "suspect"
	// EventFailed: an attempt failed; Err says how.
	EventFailed EventKind = "failed"
	// EventRetry: the call waits for Wait and then tries again.
	EventRetry EventKind = "retry"
	// EventAdapted: the endpoint does not support a part of the API, and is asked
	// without it from now on.
	EventAdapted EventKind = "adapted"
	// EventCoolDown: the endpoint asked for a pause; all calls to it wait.
	EventCoolDown EventKind = "cooldown"
	// EventDead: the endpoint answers neither calls nor probes. Attempts that wait
	// there are cut, and calls wait until it is alive again.
	EventDead EventKind = "dead"
	// EventRetriedAbove: an SDK above a [Transport] retries by itself.
	EventRetriedAbove EventKind = "retried_above"
	// EventInsecure: the key is sent in the clear, over plain http to another
	// machine. It comes once, when the client is made.
	EventInsecure EventKind = "insecure"
	// EventBreaker: the circuit breaker changed its state.
	EventBreaker EventKind = "breaker"
	// EventDone: a call has ended; Err is nil if it succeeded.
	EventDone EventKind = "done"
)

// An Event is something that happened in a call or to an endpoint. Fields that do
// not apply to its kind are zero. It holds no key, no prompt and no answer.
type Event struct {
	Kind        EventKind
	Time        time.Time
	Endpoint    string // its name
	Model       string
	Caller      string // [chat.Request.Caller]
	Call        uint64 // numbers the client's calls from 1
	Attempt     int    // numbers the call's requests from 1
	PromptBytes int    // of the request
	Phase       Phase
	Clock       ClockName // that is suspect, or ran out
	// After is the time since the attempt began; for EventSuspect since the clock
	// began, for EventDone since the call began.
	After time.Duration
	// FirstOutput is the time to first output of the attempt that ended, or of the
	// last one; 0 if there was none.
	FirstOutput time.Duration
	Outputs     int64          // pieces of output of that attempt
	Wait        time.Duration  // before the next attempt; of the cool-down
	Err         error          // an *[Error]; for EventFailed without the other attempts
	Breaker     breaker.Change // for EventBreaker
	Text        string         // an explanation, for some kinds
}

// observed reports whether there is a receiver of events.
func (c *Client) observed() bool { return c.cfg.OnEvent != nil || c.cfg.Logger != nil }

// notify tells an event to OnEvent and the log. Its callers hold no lock.
func (c *Client) notify(e Event) {
	if !c.observed() {
		return
	}
	e.Time = time.Now()
	// A panic of an observer must neither end the process, from inside a timer, nor
	// fail a call.
	if log := c.cfg.Logger; log != nil {
		_, _ = contain(func() (any, error) { logEvent(log, e); return nil, nil })
	}
	if c.cfg.OnEvent == nil {
		return
	}
	_, err := contain(func() (any, error) { c.cfg.OnEvent(e); return nil, nil })
	if log := c.cfg.Logger; err != nil && log != nil {
		_, _ = contain(func() (any, error) { log.Error("neverhang: OnEvent panicked", "panic", err.Error()); return nil, nil })
	}
}

func logEvent(log *slog.Logger, e Event) {
	level := slog.LevelDebug
	switch e.Kind {
	case EventSuspect, EventFailed, EventRetry, EventAdapted, EventCoolDown, EventDead, EventRetriedAbove, EventInsecure, EventBreaker:
		level = slog.LevelWarn
	case EventDone:
		if e.Err != nil {
			level = slog.LevelError
		}
	}
	ctx := context.Background()
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("endpoint", e.Endpoint)}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	add("model", e.Model)
	add("caller", e.Caller)
	if e.Call > 0 {
		attrs = append(attrs, slog.Uint64("call", e.Call), slog.Int("attempt", e.Attempt), slog.String("phase", e.Phase.String()))
	}
	add("clock", string(e.Clock))
	if e.After > 0 {
		attrs = append(attrs, slog.Duration("after", e.After))
	}
	if e.Wait > 0 {
		attrs = append(attrs, slog.Duration("wait", e.Wait))
	}
	if e.Kind == EventBreaker {
		attrs = append(attrs, slog.String("from", e.Breaker.From.String()), slog.String("to", e.Breaker.To.String()))
		add("why", e.Breaker.Why)
	}
	add("text", e.Text)
	if e.Err != nil {
		attrs = append(attrs, slog.String("err", e.Err.Error()))
	}
	log.LogAttrs(ctx, level, "neverhang: "+string(e.Kind), attrs...)
}
