package llmclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// error returns an error of the call that is no attempt's.
func (cl *call) error(k Kind, text string) *Error {
	e := &Error{Kind: k, Phase: cl.where(), Endpoint: cl.at.ep.name, Model: cl.at.model, text: text}
	if last := cl.retry.last; last != nil {
		e.Status, e.Code, e.Message, e.RequestID = last.Status, last.Code, last.Message, last.RequestID
		e.Partial = last.Partial
		e.causes = append(e.causes, last)
		if !cl.sending() {
			e.text += "; before that, " + last.text
		}
	}
	return e
}

// endKind says how the call was ended from outside.
func (cl *call) endKind() Kind {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	switch {
	case cl.stopped != nil:
		return ErrClosed
	case errors.Is(cl.parent.Err(), context.DeadlineExceeded):
		return ErrDeadline
	}
	return ErrCanceled
}

// cause returns why the caller ended the call. It asks its own context, to which
// that has come down: thousands who ask the caller's wait for one another there.
func (cl *call) cause() error {
	if cause := context.Cause(cl.ctx); cause != nil && cause != errExpired {
		return cause
	}
	return context.Cause(cl.parent)
}

// ended returns the error of a call that its caller ended, or Close.
func (cl *call) ended() *Error {
	k := cl.endKind()
	after := round(time.Since(cl.started))
	var text string
	switch k {
	case ErrClosed:
		text = fmt.Sprintf("the client was closed %v into the call, in phase %s", after, cl.where())
	case ErrDeadline:
		text = fmt.Sprintf("the caller's deadline passed %v into the call, in phase %s", after, cl.where())
	default:
		text = fmt.Sprintf("the caller cancelled the call after %v, in phase %s", after, cl.where())
	}
	e := cl.error(k, text)
	if k != ErrClosed {
		e.causes = append([]error{cl.parent.Err()}, e.causes...)
		if cause := cl.cause(); cause != nil && cause != cl.parent.Err() {
			e.causes = append(e.causes, cause)
			e.text += " (" + bounded(cl.at.ep.secrets.redact(cause.Error()), 200) + ")"
		}
	}
	return e
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d
}
