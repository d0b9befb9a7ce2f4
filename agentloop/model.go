package agentloop

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A Model answers a conversation. Agents share it, so it must be safe for concurrent
// use.
//
// The request belongs to the loop: a Model may read it until Chat returns and must
// not write to it. Its Caller is the agent's name.
//
// For each piece of an answer a Model should call the request's OnOutput, or
// [Heartbeat] with the context, so that a long streamed answer is no stall. OnBytes
// is for all other bytes, such as pings: they are signs of life, but no output.
// OnWait announces a wait of known length, such as a Retry-After: the watchdog adds
// it to its usual patience. Calls of these hooks are ignored once the model call was
// given up.
//
// An error may answer five questions with methods, found with errors.As:
//
//   - Retryable() bool: is this a passing fault? If so the agent asks again
//     after a pause. Errors without the method are final.
//   - RetryAfter() time.Duration: how long to wait at least; 0 if unknown.
//   - Truncated() *chat.Response: the answer if a token limit cut it inside its
//     tool calls, else nil. None of its calls is run, and the model is told why.
//   - ContextOverflow() bool: is the conversation too long for the model? Then
//     it is shrunk, see Config.Window, and the model asked again.
//   - StatusCode() int: the HTTP status. It helps to tell whether the server refuses
//     tool_choice. 401, 402, 403, 407 and 429 are about the key or the quota, so the
//     request is not tried without tool_choice. 404 may be a refusal: routers answer
//     so if no model takes tool_choice. 500 and 501 are one if their text speaks of
//     tool_choice or if they come twice in a row.
//
// If an error matches [context.DeadlineExceeded] and the deadline that is near is one
// of this package, the agent ends as [Exhausted]: too little time is left.
//
// The response that Chat returns beside an error is ignored.
//
// A Model may have a method Endpoint() string that names the endpoint it calls. It
// tells apart the trouble of different endpoints (GroupConfig.Systemic). Models
// without the method count as one endpoint.
type Model interface {
	Chat(ctx context.Context, req *chat.Request) (*chat.Response, error)
}

// endpointOf asks a model for its endpoint, which may panic.
func endpointOf(m Model) (name string) {
	defer func() { _ = recover() }()
	if e, ok := m.(interface{ Endpoint() string }); ok {
		return e.Endpoint()
	}
	return ""
}

// A ModelFunc is a function that is a [Model].
type ModelFunc func(ctx context.Context, req *chat.Request) (*chat.Response, error)

// Chat calls f.
func (f ModelFunc) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	return f(ctx, req)
}

// A reply is the outcome of a model call: an answer, or a failure with the answers to
// the questions asked of it.
type reply struct {
	resp      *chat.Response
	err       error
	retryable bool
	after     time.Duration
	late      bool  // it matches context.DeadlineExceeded
	denied    bool  // it is about the caller's key or quota
	broken    bool  // the server says that it cannot, not that it has no room
	choosy    bool  // it speaks of tool_choice
	overflow  bool  // the conversation is too long
	ofAll     bool  // the same happens to most agents
	played    bool  // it is from the journal
	finished  bool  // there is none, for the agent was done before
	unsaved   error // why it is not in the journal
	bill      bill
}

// put asks a model and turns every kind of failure into an error.
func put(ctx context.Context, m Model, req *chat.Request) reply {
	resp, err := m.Chat(ctx, req)
	switch {
	case err != nil:
		if t, ok := errors.AsType[interface {
			error
			Truncated() *chat.Response
		}](err); ok && t.Truncated() != nil {
			cut := *t.Truncated()
			if !cut.FinishReason.Filtered() {
				cut.FinishReason = chat.FinishLength
			}
			return reply{resp: &cut}
		}
		f := reply{err: asUserError(err), late: errors.Is(err, context.DeadlineExceeded)}
		if r, ok := errors.AsType[interface {
			error
			Retryable() bool
		}](err); ok {
			f.retryable = r.Retryable()
		}
		if a, ok := errors.AsType[interface {
			error
			RetryAfter() time.Duration
		}](err); ok {
			f.after = max(0, a.RetryAfter())
		}
		if o, ok := errors.AsType[interface {
			error
			ContextOverflow() bool
		}](err); ok {
			f.overflow = o.ContextOverflow()
		}
		if s, ok := errors.AsType[interface {
			error
			StatusCode() int
		}](err); ok {
			status := s.StatusCode()
			f.denied = denies(status)
			f.broken = status == http.StatusInternalServerError || status == http.StatusNotImplemented
		}
		f.choosy = ofChoice(f.err.Error())
		return f
	case resp == nil:
		return reply{err: errNoResponse, retryable: true}
	case resp.FinishReason.Failed():
		return reply{err: &brokenOffError{resp.FinishReason}, retryable: true}
	}
	if u := whole(resp.Usage); u != resp.Usage {
		counted := *resp // the model's own stays as it is
		counted.Usage = u
		resp = &counted
	}
	return reply{resp: resp}
}

// ofChoice reports whether an error speaks of tool_choice. Servers refuse it with any
// status, even 500, so only the text can tell.
func ofChoice(text string) bool {
	text = strings.ToLower(text)
	for _, name := range []string{"tool_choice", "tool choice", "toolchoice"} {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// denies reports whether an HTTP status is about the caller's key or quota, not about
// the request.
func denies(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusProxyAuthRequired, http.StatusTooManyRequests:
		return true
	}
	return false
}
