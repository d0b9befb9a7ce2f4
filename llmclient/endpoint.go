package llmclient

import (
	"net/http"
	"strings"
	"sync"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// An endpoint is one server, as its callers share it: its guards, and what has
// been learned about how it speaks.
type endpoint struct {
	name    string // for people: no credentials, no query
	host    string
	secrets secrets
	pacer   *pacer.Pacer
	breaker *breaker.Breaker

	evidence *evidence
	budget   budget

	mu      sync.Mutex
	dialect dialect
	reasons map[string]bool // models that were seen to reason
}

// A dialect is what an endpoint does not understand, or does not do.
type dialect struct {
	plain   bool // it does not stream
	noUsage bool // it does not know stream_options
	ends    bool // it has been seen to send a finish reason
}

func (e *endpoint) speaks() dialect {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dialect
}

// finishes is told that the endpoint sent a finish reason, and reports whether
// that is known already.
func (e *endpoint) finishes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dialect.ends = true
}

func (e *endpoint) reasoning(model string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reasons[model]
}

func (e *endpoint) sawReasoning(model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reasons == nil {
		e.reasons = make(map[string]bool)
	}
	if len(e.reasons) < 1000 { // names come from callers
		e.reasons[model] = true
	}
}

// adapt looks at a refusal of a request that was sent in dialect d. If what
// was refused is streaming or its options, the endpoint is spoken to without
// from now on, and the request can be sent again: that is reported, with a text
// if it is news.
func (e *endpoint) adapt(d dialect, status int, said *chat.ServerError) (again bool, news string) {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return false, ""
	}
	if d.plain || said == nil {
		return false, ""
	}
	words := strings.ToLower(said.Param + " " + said.Message)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !d.noUsage && (strings.Contains(words, "stream_options") || strings.Contains(words, "include_usage")):
		if !e.dialect.noUsage {
			news = "it refuses stream_options: no usage is asked for in streams"
		}
		e.dialect.noUsage = true
		return true, news
	case said.Param == "stream", strings.Contains(words, "stream") && refuses(words):
		if !e.dialect.plain {
			news = "it refuses to stream: answers are asked for whole"
		}
		e.dialect.plain = true
		return true, news
	}
	return false, ""
}

// refuses reports whether a message says that something is not to be had.
func refuses(words string) bool {
	for _, s := range []string{"not support", "unsupported", "not allowed", "not available", "not implemented",
		"disabled", "not permitted", "must be false", "does not stream", "unrecognized", "extra inputs", "unknown"} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}
