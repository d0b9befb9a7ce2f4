package llmclient

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/neverhang/neverhang/chat"
)

// A Kind says what went wrong. Kinds are errors themselves, so that
//
//	errors.Is(err, llmclient.ErrThrottled)
//
// and a switch over [Error.Kind] both work.
type Kind uint8

const (
	// ErrTimeout: one of the client's clocks ran out; [Error.Clock] names it.
	ErrTimeout Kind = iota + 1
	// ErrCanceled: the caller cancelled its context.
	ErrCanceled
	// ErrDeadline: the caller's deadline passed.
	ErrDeadline
	// ErrClosed: the client or the stream was closed by its owner.
	ErrClosed
	// ErrNetwork: no connection, or one that broke before the answer ended.
	ErrNetwork
	// ErrThrottled: the endpoint asks for fewer requests (429 and the like).
	ErrThrottled
	// ErrQuota: the account has nothing left; waiting does not help.
	ErrQuota
	// ErrServer: the endpoint failed (5xx, or an error inside a 200).
	ErrServer
	// ErrAuth: the endpoint refused the key, or the key may not do this.
	ErrAuth
	// ErrNotFound: the endpoint has no such path or model.
	ErrNotFound
	// ErrRequest: the endpoint, or this client, refused the request as it is.
	ErrRequest
	// ErrContextLength: the conversation is longer than the model takes.
	ErrContextLength
	// ErrIncomplete: the answer ended without saying that it was finished.
	ErrIncomplete
	// ErrAborted: the server gave up on the answer and said so in its finish
	// reason.
	ErrAborted
	// ErrTruncated: a token limit cut the answer inside its tool calls.
	ErrTruncated
	// ErrEmpty: the answer had nothing in it, not even an end.
	ErrEmpty
	// ErrMalformed: what came is not an answer: broken JSON, or a web page.
	ErrMalformed
	// ErrTooLarge: the answer exceeds one of [Limits].
	ErrTooLarge
	// ErrRunaway: the answer would never end: the model said the same over and
	// over, wrote more than any answer has, or next to nothing for long. See
	// [Limits].
	ErrRunaway
	// ErrOpen: the circuit breaker lets no call through, and the caller did
	// not want to wait, or not for so long.
	ErrOpen
	// ErrQueue: the pacer did not admit the call.
	ErrQueue
)

var kindNames = [...]string{
	ErrTimeout: "timeout", ErrCanceled: "canceled", ErrDeadline: "deadline", ErrClosed: "closed",
	ErrNetwork: "network", ErrThrottled: "throttled", ErrQuota: "quota", ErrServer: "server",
	ErrAuth: "auth", ErrNotFound: "not_found", ErrRequest: "request", ErrContextLength: "context_length",
	ErrIncomplete: "incomplete", ErrAborted: "aborted", ErrTruncated: "truncated", ErrEmpty: "empty",
	ErrMalformed: "malformed", ErrTooLarge: "too_large", ErrRunaway: "runaway", ErrOpen: "breaker_open", ErrQueue: "queue",
}

// String returns the kind's name, fit for a metric's attribute.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error returns the kind's name as an error of this package; printing a Kind
// prints that, and String the name alone.
func (k Kind) Error() string { return "llmclient: " + k.String() }

// An Error is a failed call. Every error that this package returns from a
// call is one.
//
// It matches its Kind and its cause: the context's error if the caller ended the
// call or left too little time for the next attempt, [breaker.ErrOpen], a
// [net.Error], and so on. If a clock of the client ran out it does not match
// [context.DeadlineExceeded], which stands for the caller's deadline.
//
// Its text and fields hold no key, no prompt and no answer, except Partial.
type Error struct {
	Kind  Kind
	Phase Phase // where the call was when it failed

	// Clock is the clock that ran out, if one did. Bound is the limit that ran
	// out or, if Evidence cut the attempt, how long the clock had run.
	Clock ClockName
	Bound time.Duration

	// Evidence says why the attempt was cut before the clock's limit; empty if
	// it was not.
	Evidence string

	// Verdict is what [Config.Explain] said about the server when a clock ran out.
	Verdict string

	// Deadlines are the nested bounds that were in force when time ran out or the
	// caller left, the outermost first; empty for other errors.
	Deadlines []Deadline

	Endpoint  string // its name: the base URL, without credentials and query, unless it was given another
	Model     string
	Status    int    // HTTP status; 0 if there was no answer
	Code      string // the provider's code or type
	Message   string // the provider's message, bounded
	RequestID string // the provider's name for the request

	// Attempts are the requests that were sent, in order. Of more than 64 they
	// are the first 8 and the last 56. AttemptCount counts all.
	Attempts     []Attempt
	AttemptCount int

	// Partial is the part of the answer that had arrived; nil if nothing had. It is
	// not an answer: no tool call in it should be run.
	Partial *chat.Response

	around [4]Deadline // room for Deadlines

	text       string // what happened, and what to do
	retryable  bool
	retryAfter time.Duration
	outlasted  bool // the attempt had all the time that the given http.Client allows
	causes     []error
	out        []run // what the requests met that are not in Attempts
}

// Error returns one sentence that says what happened and what to do about it,
// and, if there were several attempts, how the earlier ones failed: equal texts in
// a row once, with their number, and five in all at most.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("llmclient: ")
	b.WriteString(e.text)
	b.WriteString(tree(e.Deadlines))
	if e.Verdict != "" {
		b.WriteString("; the server: ")
		b.WriteString(e.Verdict)
	}
	if n := len(e.Attempts); n > 1 {
		fmt.Fprintf(&b, " (attempt %d; before it: %s)", max(n, e.AttemptCount), earlier(e.Attempts, e.out))
	}
	return b.String()
}

func (e *Error) clone() *Error { c := *e; return &c }

// Is reports whether target is the error's kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Unwrap returns what caused the error.
func (e *Error) Unwrap() []error { return e.causes }

// Timeout reports whether time ran out: a clock of the client, or the
// caller's deadline.
func (e *Error) Timeout() bool { return e.Kind == ErrTimeout || e.Kind == ErrDeadline }

// Retryable reports whether the same call, unchanged, may succeed later.
func (e *Error) Retryable() bool { return e.retryable }

// RetryAfter returns how long the endpoint asked to wait, or zero.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// ContextOverflow reports whether the conversation is longer than the model
// takes. A shorter one may succeed.
func (e *Error) ContextOverflow() bool { return e.Kind == ErrContextLength }

// StatusCode returns Status, for code that looks for this method.
func (e *Error) StatusCode() int { return e.Status }

// Truncated returns the answer whose tool calls a token limit cut, or nil for other
// errors. A caller that goes on with the conversation needs it to tell the model
// what happened.
func (e *Error) Truncated() *chat.Response {
	if e.Kind == ErrTruncated {
		return e.Partial
	}
	return nil
}

// errClosed is the cause of calls that Close ended.
var errClosed = errors.New("closed")

// bounded returns s on one line, without control characters, and cut to at most n
// bytes.
func bounded(s string, n int) string {
	if !tidy(s) {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	}
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// tidy reports whether s is plain text on one line already, as most is.
func tidy(s string) bool {
	space := true // at the beginning there should be none
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c >= 0x7f || c == ' ' && space:
			return false
		default:
			space = c == ' '
		}
	}
	return !space || s == ""
}
