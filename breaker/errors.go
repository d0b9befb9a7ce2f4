package breaker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrOpen is matched by the errors of refused calls. Those of [Breaker.Acquire]
// are of type [OpenError], those of [Breaker.Wait] of type [WaitError].
var ErrOpen = errors.New("breaker: open")

// errFailed is what the counter underneath is told.
var errFailed = errors.New("failed")

// An OpenError refuses a call. It matches [ErrOpen].
type OpenError struct {
	Name  string // Config.Name
	State State  // Open, or HalfOpen with all trials out

	Since time.Time     // when the breaker came into that state
	For   time.Duration // from then to the refusal

	Retry   time.Time     // when a call may pass at the latest, if no trial ends before
	RetryIn time.Duration // from the refusal to then
}

func (e *OpenError) Error() string {
	if e.State == HalfOpen {
		return fmt.Sprintf("%s: half-open for %v, all trials are out, the next is overdue in %v", title(e.Name),
			readable(e.For), readable(e.RetryIn))
	}
	return fmt.Sprintf("%s: open for %v, next trial in %v", title(e.Name), readable(e.For), readable(e.RetryIn))
}

// Is makes the error match [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// A WaitError refuses a wait that cannot end before the context's deadline,
// because the cool-down does not. It matches [ErrOpen] and
// [context.DeadlineExceeded], though that deadline has not passed yet.
type WaitError struct {
	Name string        // Config.Name
	Wait time.Duration // at least this long until the next trial
	Left time.Duration // until the context's deadline
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("%s: open, next trial in %v, but the context ends in %v", title(e.Name), readable(e.Wait),
		readable(e.Left))
}

// Is makes the error match [ErrOpen] and [context.DeadlineExceeded].
func (e *WaitError) Is(target error) bool {
	return target == ErrOpen || target == context.DeadlineExceeded
}

// Timeout reports true, as the error of a passed deadline does.
func (e *WaitError) Timeout() bool { return true }

// ended makes the error of a wait that the context ended. It matches both ctx.Err()
// and the context's cause, but not ErrOpen, since it is not the endpoint's fault.
func ended(ctx context.Context, name string, waited time.Duration) error {
	var text strings.Builder
	text.WriteString(title(name))
	if waited > 0 {
		fmt.Fprintf(&text, ": waited %v for it to close", waited)
	}
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("%s: %w", text.String(), cause)
	}
	return fmt.Errorf("%s: %w: %w", text.String(), err, cause)
}

func title(name string) string {
	if name == "" {
		return "breaker"
	}
	return fmt.Sprintf("breaker: %s", name)
}

// readable rounds a duration to three digits or so: texts that differ in
// nanoseconds look like different errors. Package pacer has a copy, since the two
// import nothing of each other.
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
