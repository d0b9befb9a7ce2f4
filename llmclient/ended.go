package llmclient

import (
	"context"
	"errors"
	"time"
)

// error returns an error of the call that is not from an attempt.
func (cl *call) error(k Kind, text string) *Error { return cl.errorIn(cl.where(), k, text) }

func (cl *call) errorIn(p Phase, k Kind, text string) *Error {
	e := &Error{Kind: k, Phase: p, Endpoint: cl.at.ep.name, Model: cl.at.model, text: text}
	if last := cl.retry.last; last != nil {
		if last.Endpoint == e.Endpoint {
			e.Status, e.Code, e.Message, e.RequestID = last.Status, last.Code, last.Message, last.RequestID
		}
		e.Partial = last.Partial
		e.causes = append(e.causes, last)
		if !cl.sending() {
			e.text += "; before that, " + last.text
		}
	}
	return e
}

// ended returns the error of a call that its caller or Close ended. It is built by
// hand, since thousands may end at once.
func (cl *call) ended() *Error {
	left, cause := cl.callersEnd()
	return cl.endedIn(cl.where(), left, cause, time.Now())
}

// endedIn is ended for a call that is in phase.
func (cl *call) endedIn(phase Phase, left, cause error, now time.Time) *Error {
	after, in := round(now.Sub(cl.started)).String(), phase.String()
	if left == errClosed {
		return cl.errorIn(phase, ErrClosed, "the client was closed "+after+" into the call, in phase "+in)
	}
	var e *Error
	if left != context.Canceled && errors.Is(left, context.DeadlineExceeded) {
		e = cl.errorIn(phase, ErrDeadline, "the caller's deadline passed "+after+" into the call, in phase "+in)
	} else {
		e = cl.errorIn(phase, ErrCanceled, "the caller cancelled the call after "+after+", in phase "+in)
	}
	if e.causes = append(e.causes, left); len(e.causes) > 1 {
		e.causes[0], e.causes[1] = left, e.causes[0] // the caller's own comes first
	}
	if cause != nil && cause != left {
		e.causes = append(e.causes, cause)
		e.text += " (" + bounded(cl.at.redact(cause.Error()), 200) + ")"
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
