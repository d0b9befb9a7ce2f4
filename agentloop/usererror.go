package agentloop

import (
	"context"
	"errors"
	"time"
)

// A userError is an error of user code. Its methods may panic (a typed nil, say) or
// never return. So its text was taken once, in guarded code, and Is and As recover
// from panics. It has no Unwrap: errors.Is and errors.As go no further than these
// two.
type userError struct {
	err  error
	text string

	// mute hides that err matches the errors of contexts: the caller's context has not
	// ended, and a Result must not look as if it had.
	mute bool
}

// asUserError takes the text of err, which may panic or block: call it in guarded
// code only.
func asUserError(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *userError:
		return e
	}
	if plain(err) {
		return err
	}
	return &userError{err: err, text: err.Error()}
}

// plain reports whether err is known to be safe.
func plain(err error) bool {
	switch e := err.(type) {
	case *TimeoutError:
		return e != nil
	case *userError:
		return e != nil
	}
	return same(err, context.Canceled) || same(err, context.DeadlineExceeded)
}

// same compares errors that may be of a type that is not comparable.
func same(a, b error) (yes bool) {
	defer func() { _ = recover() }()
	return a == b
}

// muted returns err as an error that does not match the errors of contexts.
func muted(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *userError:
		return &userError{err: e.err, text: e.text, mute: true}
	}
	if same(err, context.Canceled) || same(err, context.DeadlineExceeded) {
		return &userError{err: err, text: err.Error(), mute: true}
	}
	return err
}

// textTime is how long the text of a cause is waited for.
const textTime = 50 * time.Millisecond

// contained makes a userError of a context's cause, which no guarded code has seen
// yet. It returns soon whatever the cause does.
func contained(err error) error {
	if err == nil || plain(err) {
		return err
	}
	back := make(chan string, 1)
	go func() {
		text := "an error whose text panics"
		defer func() {
			_ = recover()
			back <- text
		}()
		text = err.Error()
	}()
	t := time.NewTimer(textTime)
	defer t.Stop()
	select {
	case text := <-back:
		return &userError{err: err, text: text}
	case <-t.C:
		return &userError{err: err, text: "an error whose text does not come"}
	}
}

func (e *userError) Error() string { return e.text }

func (e *userError) Is(target error) (yes bool) {
	defer func() { _ = recover() }()
	if e.mute && (target == context.Canceled || target == context.DeadlineExceeded) {
		return false
	}
	if f, ok := target.(*userError); ok {
		target = f.err
	}
	return errors.Is(e.err, target)
}

// errors.As panics for a target that is no pointer before it gets here.
func (e *userError) As(target any) (yes bool) {
	defer func() { _ = recover() }()
	return errors.As(e.err, target)
}
