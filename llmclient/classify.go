package llmclient

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// An outcome is the part of an attempt's result that its ruling depends on.
type outcome struct {
	status int               // 0 if no answer came
	header http.Header       // of the answer
	server *chat.ServerError // the endpoint's words, from an error body or from inside the answer
	inside bool              // they came inside an answer with status 200
	passes []string          // codes of refusals that are worth a retry
	err    error             // of the transport, the decoder or the check of the answer

	connected bool // there was a connection to send on
	reused    bool // the connection had been used before
	firstByte bool // a byte of the answer came
}

// A fault says which side caused an outcome.
type fault uint8

const (
	nobodys fault = iota // it proves nothing about the endpoint
	theirs               // the endpoint failed, or the way to it
	ours                 // the endpoint answers, and refuses the request
)

// A ruling says what follows from an outcome. Retry, breaker, pacer, telemetry and the
// caller's error depend on it alone.
type ruling struct {
	kind      Kind
	retry     bool
	fault     fault
	after     time.Duration // how long the endpoint asks to wait
	hasAfter  bool
	throttle  bool // the endpoint wants all callers to slow down
	stale     bool // a pooled connection was dead: send again at once, nothing failed
	unreached bool // the endpoint could not be reached
	adapted   bool // the endpoint needs another dialect, now known: send again at once
}

// classify decides what an outcome means. It is pure; its table test is the
// specification.
func classify(o outcome, now time.Time) ruling {
	asked, isAsked := parseRetryAfter(o.header, now)
	said, isSaid := saidRetryAfter(o.server, now)
	if left, ok := resetAfter(o.header, now); ok && !isSaid && o.status == http.StatusTooManyRequests {
		said, isSaid = left, true
	}
	var r ruling
	if o.err != nil && !o.inside {
		r = classifyFailure(o)
	} else {
		status := o.status
		if o.inside {
			status = statedStatus(o.server)
		}
		f := newRefusal(status, o.server)
		f.asked, f.named = asked > 0, asked > 0 || said > 0
		r = classifyError(f)
	}
	if e := o.server; e != nil && e.Code != "" && slices.Contains(o.passes, e.Code) && r.fault == ours && r.kind == ErrRequest {
		// The endpoint refused the model's output, which is different each time.
		r = ruling{kind: ErrAborted, retry: true}
	}
	switch {
	case isAsked && (asked > 0 || !isSaid || !r.retry):
		r.after, r.hasAfter = asked, true
	case isSaid && r.retry:
		r.after, r.hasAfter = said, true
	}
	if o.status >= 400 && r.kind != ErrQuota {
		// The endpoint's own word on whether to try again beats its status.
		switch strings.ToLower(o.header.Get("X-Should-Retry")) {
		case "true":
			r.retry = true
		case "false":
			r.retry = false
		}
	}
	return r
}

// classifyFailure classifies attempts that did not end with an error status.
func classifyFailure(o outcome) ruling {
	var bad *badAnswer
	var large *sse.TooLargeError
	var runaway *runawayError
	var body *bodyError
	switch {
	case errors.As(o.err, &body):
		return ruling{kind: ErrRequest, fault: nobodys}
	case errors.As(o.err, &bad):
		return bad.ruling()
	case errors.As(o.err, &large), errors.Is(o.err, errAnswerTooLarge), errors.Is(o.err, errTooManyCalls):
		return ruling{kind: ErrTooLarge, fault: nobodys}
	case errors.As(o.err, &runaway):
		return ruling{kind: ErrRunaway, retry: true, fault: nobodys}
	case o.status != 0:
		// The answer had begun: the connection broke.
		return ruling{kind: ErrIncomplete, retry: true, fault: theirs}
	case o.reused && !o.firstByte:
		return ruling{kind: ErrNetwork, retry: true, stale: true}
	case permanent(o.err):
		return ruling{kind: ErrNetwork, fault: theirs}
	case calmed(o.err):
		return throttled
	}
	return ruling{kind: ErrNetwork, retry: true, fault: theirs, unreached: !o.connected && refused(o.err)}
}

// classifyError classifies refusals. The body decides the meaning of a status.
func classifyError(f *refusal) ruling {
	status := f.means()
	switch {
	case f.quota():
		return ruling{kind: ErrQuota, fault: ours}
	case f.tooLong():
		return ruling{kind: ErrContextLength, fault: ours}
	case status < 500 && isAny(f.names, "modelnotfound"), status == http.StatusBadRequest && strings.Contains(f.words, "not a valid model"):
		return ruling{kind: ErrNotFound, fault: ours}
	case status == http.StatusBadRequest && containsAny(f.words, "api key not valid", "api_key_invalid"):
		return ruling{kind: ErrAuth, fault: ours}
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ruling{kind: ErrAuth, fault: ours}
	case http.StatusProxyAuthRequired:
		return ruling{kind: ErrAuth, fault: nobodys} // the endpoint has not heard of it
	case http.StatusPreconditionFailed:
		return ruling{kind: ErrQuota, fault: ours} // Fireworks, Portkey: a budget is used up
	case http.StatusPaymentRequired:
		if strings.Contains(f.body, "in_flight_budget") {
			return throttled // OpenRouter: too much under way at once
		}
		return ruling{kind: ErrQuota, fault: ours}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return ruling{kind: ErrNotFound, fault: ours}
	case http.StatusTooManyRequests, 498:
		return throttled
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusFailedDependency, http.StatusTooEarly, 499:
		// 424 and 499 are what gateways say when the model behind them failed.
		return ruling{kind: ErrServer, retry: true, fault: theirs}
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return ruling{kind: ErrRequest, fault: ours}
	}
	switch {
	case status >= 500:
		r := ruling{kind: ErrServer, retry: true, fault: theirs}
		r.throttle = status == http.StatusServiceUnavailable || status == 529
		return r
	case status >= 300 && status < 400:
		return ruling{kind: ErrNotFound, fault: ours}
	}
	return ruling{kind: ErrRequest, fault: ours}
}

var throttled = ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}

// statedStatus returns the status that an error inside a 200 states, or 0.
func statedStatus(e *chat.ServerError) int {
	if e.Status != 0 {
		return e.Status
	}
	return miniMaxStatus[e.Code]
}

// insideStatus returns the status that an error inside a 200 stands for.
func insideStatus(e *chat.ServerError) int {
	if status := statedStatus(e); status != 0 {
		return status
	}
	f := newRefusal(0, e)
	switch {
	case f.quota():
		return http.StatusPaymentRequired
	case f.tooLong():
		return http.StatusBadRequest
	}
	return f.means()
}

// miniMaxStatus maps the codes in MiniMax's base_resp to statuses; all its answers
// have status 200. Other codes are server errors.
var miniMaxStatus = map[string]int{
	"1001": http.StatusGatewayTimeout,
	"1002": http.StatusTooManyRequests, // requests a minute
	"1004": http.StatusUnauthorized,
	"1008": http.StatusPaymentRequired,
	"1026": http.StatusBadRequest,      // what was sent offends
	"1027": http.StatusBadRequest,      // what was written offends
	"1039": http.StatusTooManyRequests, // tokens a minute
	"1041": http.StatusTooManyRequests, // connections
	"1042": http.StatusBadRequest,
	"2013": http.StatusBadRequest,
	"2045": http.StatusTooManyRequests, // too steep a rise
	"2049": http.StatusUnauthorized,
	"2056": http.StatusPaymentRequired, // the plan is used up
}

// A badAnswer is an answer with status 200 that is unusable.
type badAnswer struct {
	kind Kind
	text string // what is wrong with it
	err  error  // the decoder's words, if it was the decoder
}

func (e *badAnswer) Error() string { return e.text }
func (e *badAnswer) Unwrap() error { return e.err }

func (e *badAnswer) ruling() ruling {
	switch e.kind {
	case ErrTruncated:
		// The model used up its tokens; it would again.
		return ruling{kind: e.kind, fault: nobodys}
	case ErrRequest:
		return ruling{kind: e.kind, fault: ours}
	}
	return ruling{kind: e.kind, retry: true, fault: theirs}
}

// cut reports whether the error says that there was less than announced.
func cut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
