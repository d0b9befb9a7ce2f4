package agentloop

import (
	"context"
	"errors"
	"time"
)

// A foreignError is an error that came from somebody else's code. Its methods
// may panic (a typed nil, say) or never return, so its text was taken once,
// where that could do no harm, and it is looked into with care. It has no
// Unwrap: whoever walks the chain comes no further than Is and As.
type foreignError struct {
	err  error
	text string

	// mute hides that err matches the errors of contexts: the caller's context
	// has not ended, and a Result must not look as if it had.
	mute bool
}

// foreign takes the text of err, which may panic or block: guarded code only.
func foreign(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *foreignError:
		return e
	}
	if plain(err) {
		return err
	}
	return &foreignError{err: err, text: err.Error()}
}

// plain reports whether err is known to be harmless.
func plain(err error) bool {
	switch e := err.(type) {
	case *DeadlineError:
		return e != nil
	case *foreignError:
		return e != nil
	}
	return same(err, context.Canceled) || same(err, context.DeadlineExceeded)
}

// same compares errors that may be of a type that has no comparison.
func same(a, b error) (yes bool) {
	defer func() { _ = recover() }()
	return a == b
}

// muted returns err with its likeness to the errors of contexts hidden.
func muted(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *foreignError:
		return &foreignError{err: e.err, text: e.text, mute: true}
	}
	if same(err, context.Canceled) || same(err, context.DeadlineExceeded) {
		return &foreignError{err: err, text: err.Error(), mute: true}
	}
	return err
}

// textTime is how long the text of a cause is waited for.
const textTime = 50 * time.Millisecond

// contained makes a foreign error of a context's cause, which no guarded code
// has seen yet. It returns soon whatever the cause does.
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
		return &foreignError{err: err, text: text}
	case <-t.C:
		return &foreignError{err: err, text: "an error whose text does not come"}
	}
}

func (e *foreignError) Error() string { return e.text }

func (e *foreignError) Is(target error) (yes bool) {
	defer func() { _ = recover() }()
	if e.mute && (target == context.Canceled || target == context.DeadlineExceeded) {
		return false
	}
	if f, ok := target.(*foreignError); ok {
		target = f.err
	}
	return errors.Is(e.err, target)
}

// As of a target that is no pointer panics in errors.As before it comes here.
func (e *foreignError) As(target any) (yes bool) {
	defer func() { _ = recover() }()
	return errors.As(e.err, target)
}
