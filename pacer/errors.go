package pacer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrQueueFull is matched by the error for a caller that found MaxQueue others
// waiting. The error itself is a [QueueFullError].
var ErrQueueFull = errors.New("pacer: queue is full")

// A QueueFullError refuses a caller because too many wait already.
type QueueFullError struct {
	Queued int // callers waiting
	Max    int // Config.MaxQueue
	For    Reason
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("pacer: queue is full: %d callers wait for %s, want at most %d", e.Queued, e.For, e.Max)
}

// Is makes the error match [ErrQueueFull].
func (e *QueueFullError) Is(target error) bool { return target == ErrQueueFull }

// ErrTooLarge is matched by the error for a request of more tokens than
// TokensPerMinute. The error itself is a [TooLargeError].
var ErrTooLarge = errors.New("pacer: request is too large")

// A TooLargeError refuses a request that could never be admitted.
type TooLargeError struct {
	Tokens int // of the demand
	Max    int // Config.TokensPerMinute
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("pacer: request is too large: %d tokens, want at most %d, all that a minute has", e.Tokens, e.Max)
}

// Is makes the error match [ErrTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// A WaitError refuses a wait that the rates or the cool-down make longer than the
// context's deadline allows. It matches [context.DeadlineExceeded], though that
// deadline has not passed yet.
type WaitError struct {
	Wait time.Duration // at least this long until admission
	Left time.Duration // until the context's deadline
	For  Reason        // what makes the wait so long
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("pacer: would wait %v for %s, but the context ends in %v", readable(e.Wait), e.For, readable(e.Left))
}

// Is makes the error match [context.DeadlineExceeded].
func (e *WaitError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout reports true, as the error of a passed deadline does.
func (e *WaitError) Timeout() bool { return true }

// ended makes the error of a wait that the context ended. It matches both ctx.Err()
// and the context's cause.
func ended(ctx context.Context, waited time.Duration, why Reason) error {
	text := "pacer: not admitted"
	if why != "" {
		text = fmt.Sprintf("pacer: waited %v for %s", readable(waited), why)
	}
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%s: %w", text, cause)
	}
	return fmt.Errorf("%s: %w: %w", text, err, cause)
}

// readable rounds a duration to three digits or so: texts that differ in
// nanoseconds look like different errors. Package breaker has a copy, since the
// two import nothing of each other.
func readable(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}
