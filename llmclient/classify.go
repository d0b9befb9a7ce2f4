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

// An outcome is what became of one attempt, as far as deciding needs it.
type outcome struct {
	status int               // 0 if no answer came
	header http.Header       // of the answer
	server *chat.ServerError // the endpoint's words, from an error body or from inside the answer
	inside bool              // they came inside an answer with status 200
	passes []string          // codes of refusals that pass when asked again
	err    error             // what the transport, the decoder or the check of the answer said

	connected bool // there was a connection to send on
	reused    bool // the connection had been used before
	firstByte bool // a byte of the answer came
}

// A fault says whose it was.
type fault uint8

const (
	nobodys fault = iota // nothing is to be learned about the endpoint
	theirs               // the endpoint failed, or the way to it
	ours                 // the endpoint answers, and does not like the request
)

// A ruling is what follows from an outcome. Everything downstream (retry,
// breaker, pacer, telemetry, the caller) reads it and nothing else.
type ruling struct {
	kind      Kind
	retry     bool
	fault     fault
	after     time.Duration // how long the endpoint asks to wait
	hasAfter  bool
	throttle  bool // the endpoint wants everybody to slow down
	stale     bool // a pooled connection was dead: send again at once, nobody failed
	unreached bool // nobody was reached
	adapted   bool // the endpoint's dialect is known better now: send again at once
}

// classify decides what an outcome means. It is pure; its table test is the
// specification.
func classify(o outcome, now time.Time) ruling {
	var r ruling
	switch {
	case o.inside:
		r = classifyError(insideStatus(o.server), o.server)
	case o.err != nil:
		r = classifyFailure(o)
	default:
		r = classifyError(o.status, o.server)
	}
	if e := o.server; e != nil && e.Code != "" && slices.Contains(o.passes, e.Code) && r.fault == ours && r.kind == ErrRequest {
		// What was refused is what the model wrote. It writes anew each time.
		r = ruling{kind: ErrAborted, retry: true}
	}
	if o.header != nil {
		r.after, r.hasAfter = parseRetryAfter(o.header, now)
		if !r.hasAfter && r.retry && o.server != nil {
			r.after, r.hasAfter = saidRetryAfter(o.server)
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
	}
	return r
}

// classifyFailure is about attempts that did not end with an error status.
func classifyFailure(o outcome) ruling {
	var bad *badAnswer
	var large *sse.TooLargeError
	var runaway *runawayError
	switch {
	case errors.As(o.err, &bad):
		return bad.ruling()
	case errors.As(o.err, &large), errors.Is(o.err, errAnswerTooLarge), errors.Is(o.err, errTooManyCalls):
		return ruling{kind: ErrTooLarge, fault: nobodys}
	case errors.As(o.err, &runaway):
		return ruling{kind: ErrRunaway, retry: true, fault: nobodys}
	case o.status != 0:
		// The answer had begun: what broke it is the connection.
		return ruling{kind: ErrIncomplete, retry: true, fault: theirs}
	case o.reused && !o.firstByte:
		return ruling{kind: ErrNetwork, retry: true, stale: true}
	case permanent(o.err):
		return ruling{kind: ErrNetwork, fault: theirs}
	}
	return ruling{kind: ErrNetwork, retry: true, fault: theirs, unreached: !o.connected && refused(o.err)}
}

// classifyError is about error statuses. The body decides what a status means.
func classifyError(status int, e *chat.ServerError) ruling {
	if e == nil {
		e = &chat.ServerError{}
	}
	// Not the whole body: it may repeat the prompt, and that may say anything.
	words := strings.ToLower(e.Type + " " + e.Code + " " + e.Message)
	switch {
	case quota(status, e, words):
		return ruling{kind: ErrQuota, fault: ours}
	case status == http.StatusBadRequest && strings.Contains(words, "throttl"):
		return throttled // Bedrock: too many tokens, please wait
	case tooLong(status, e, words):
		return ruling{kind: ErrContextLength, fault: ours}
	case status < 500 && e.Code == "model_not_found", status == http.StatusBadRequest && strings.Contains(words, "not a valid model"):
		return ruling{kind: ErrNotFound, fault: ours}
	case status == http.StatusBadRequest && (strings.Contains(words, "api key not valid") || strings.Contains(words, "api_key_invalid")):
		return ruling{kind: ErrAuth, fault: ours}
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ruling{kind: ErrAuth, fault: ours}
	case http.StatusPaymentRequired:
		if strings.Contains(string(e.Raw), "in_flight_budget") {
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

// insideStatus returns the status that an error inside a 200 stands for.
func insideStatus(e *chat.ServerError) int {
	if e.Status != 0 {
		return e.Status
	}
	if status := miniMaxStatus[e.Code]; status != 0 {
		return status
	}
	switch kind := strings.ToLower(e.Type + " " + e.Code); {
	case strings.Contains(kind, "overloaded"):
		return 529
	case strings.Contains(kind, "rate_limit"), strings.Contains(kind, "throttl"), strings.Contains(kind, "slow_down"),
		strings.Contains(kind, "too_many_requests"), strings.Contains(kind, "toomanyrequests"):
		return http.StatusTooManyRequests
	case strings.Contains(kind, "invalid_request"), strings.Contains(kind, "badrequest"),
		strings.Contains(kind, "context_length"), strings.Contains(kind, "exceed_context"):
		return http.StatusBadRequest
	case strings.Contains(kind, "authentication"), strings.Contains(kind, "unauthorized"):
		return http.StatusUnauthorized
	case strings.Contains(kind, "permission"):
		return http.StatusForbidden
	case strings.Contains(kind, "not_found"):
		return http.StatusNotFound
	case strings.Contains(kind, "timeout"):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// miniMaxStatus is what the codes in MiniMax's base_resp stand for, whose
// answers all have status 200. Others there are failures of its own.
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

// quota reports whether the account has nothing left, which no wait mends.
func quota(status int, e *chat.ServerError, words string) bool {
	switch e.Code {
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_hard_limit_reached":
		return true
	}
	switch e.Type {
	case "insufficient_quota", "billing_error", "exceeded_current_quota_error", "insufficient_balance":
		return true
	}
	if status >= 500 {
		return false
	}
	if strings.Contains(words, "exceeded your current quota") {
		// Google says so of each minute's quota as well, and then when to come back.
		_, comesBack := saidRetryAfter(e)
		return !comesBack
	}
	if strings.Contains(words, "insufficient balance") || strings.Contains(words, "credit balance is too low") {
		return true
	}
	return status != 0 && status < 500 && strings.Contains(string(e.Raw), "enforced_spend_limit_reached")
}

// tooLong reports whether the conversation is longer than the model takes, in
// any of the ways in which servers put it.
func tooLong(status int, e *chat.ServerError, words string) bool {
	switch e.Code {
	case "context_length_exceeded", "model_max_prompt_tokens_exceeded", "string_above_max_length":
		return true
	}
	switch e.Type {
	case "context_length_exceeded", "exceed_context_size_error":
		return true
	}
	if strings.Contains(words, "max_tokens must be") {
		return false // it is the answer that is asked too much for
	}
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
	case http.StatusTooManyRequests:
		// More than fits into the rate at all: no wait mends that.
		return strings.Contains(words, "request too large")
	case http.StatusInternalServerError:
		// Proxies wrap what an engine refused.
		return strings.Contains(words, "maximum context length") || strings.Contains(words, "contextwindowexceeded")
	default:
		return false
	}
	for _, s := range []string{
		"context_length_exceeded", "exceed_context_size", "maximum context length", "context length", "context window",
		"context size", "prompt is too long", "prompt too long", "input is too long", "too many input tokens",
		"reduce the length of the messages", "exceeds the maximum number of tokens", "max_total_tokens",
		"model's context", "maximum prompt length", "longer than the model's", "prompt token limit", "input token limit",
		"too many tokens", "model token limit", "max_new_tokens", "contextwindowexceeded", "range of input length",
	} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}

// A badAnswer is an answer that came with status 200 and is none.
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
