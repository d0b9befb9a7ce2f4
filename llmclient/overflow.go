package llmclient

import (
	"net/http"
	"strings"
)

// tooLong reports whether the conversation is longer than the model takes. All
// servers word this differently, so it looks for the thing that is measured and for
// the comparison, rather than for whole sentences.
func (r *refusal) tooLong() bool {
	if r.namesOverflow() {
		return true
	}
	switch status := r.means(); status {
	case http.StatusRequestEntityTooLarge:
		return true // some servers say only this
	case http.StatusTooManyRequests:
		// More than the rate or the plan ever allows: no wait helps, but a shorter
		// conversation does.
		return strings.Contains(r.words, "request too large") && !r.fitsRate() ||
			strings.Contains(r.words, "required for long context requests")
	case http.StatusPaymentRequired:
		// OpenRouter: longer than the remaining credit pays for.
		return strings.Contains(r.words, "prompt tokens limit exceeded")
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		return r.saysTooLong() || !r.aboutAnswer() && containsAny(r.words, lengthHints...)
	case http.StatusInternalServerError, http.StatusBadGateway:
		if r.status == 0 { // inside an answer, without a status
			return r.saysTooLong() || !r.aboutAnswer() && containsAny(r.words, lengthHints...)
		}
		// Proxies wrap the refusals of engines, and some engines notice an overflow
		// late. If a server lacks the memory, a shorter conversation does not help.
		return r.saysTooLong() && !strings.Contains(r.words, "memory")
	}
	return false
}

// namesOverflow reports whether a type or code stands for an overflow and nothing else.
func (r *refusal) namesOverflow() bool {
	if isAny(r.names, "contextlengthexceeded", "exceedcontextsize", "contextwindowexceeded", "modelmaxprompttokensexceeded",
		"tokenslimitreached", "maxtokensperrequest", "prompttoolong", "inputtoolong") {
		return true
	}
	// These are about any part of a request.
	return isAny(r.names, "stringabovemaxlength", "arrayabovemaxlength", "stringtoolong") &&
		(r.param == "" || strings.HasPrefix(r.param, "messages") || strings.HasPrefix(r.param, "input"))
}

// saysTooLong reports whether the words can only be about a conversation that exceeds
// a bound.
func (r *refusal) saysTooLong() bool {
	w := r.words
	return containsAny(w, lengthPhrases...) ||
		containsAny(w, contextNouns...) && containsAny(w, exceedVerbs...) ||
		!r.aboutAnswer() && containsAny(w, inputNouns...) && containsAny(w, exceedVerbs...)
}

var (
	lengthPhrases = []string{
		"context_length_exceeded", "exceed_context_size", "contextwindowexceeded", "maximum context length",
		"prompt is too long", "prompt too long", "input is too long", "too many input tokens",
		"reduce the length of the messages", "exceeds the maximum number of tokens", "`inputs` must have less than",
		"`inputs` tokens + `max_new_tokens`", "maximum prompt length", "exceeded model token limit",
	}
	contextNouns = []string{
		"context window", "context length", "context size", "context limit", "model's context",
		"model length", "maximum sequence length", "max message tokens",
	}
	inputNouns = []string{
		"input token", "prompt token", "input length", "prompt length", "requested token", "total number of tokens",
		"total tokens", "tokens in the messages",
	}
	exceedVerbs = []string{
		"exceed", "longer than", "greater than", "larger than", "not enough", "overflow", "too long", "too large",
		"too small", "reached",
	}

	// lengthHints are enough where the status already blames the request.
	lengthHints = []string{
		"context length", "context window", "context size", "too many tokens", "model token limit", "max_total_tokens",
		"prompt token limit", "input token limit", "range of input length", "longer than the model's", "expected maxlength",
	}
)

// aboutAnswer reports whether the request asks for too long an answer. A shorter
// conversation does not help there.
func (r *refusal) aboutAnswer() bool {
	return strings.HasPrefix(r.param, "max_") && strings.HasSuffix(r.param, "tokens") || containsAny(r.words,
		"max_tokens must be", "max_tokens` must be", "max_tokens' must be", "max_tokens is too large", "invalid max_tokens",
		"range of max_tokens", "max_tokens (", "max_tokens: ", "max_completion_tokens", "maximum tokens you requested",
		"number of output tokens", "max output tokens", "max_new_tokens` must be strictly", "supports at most")
}
