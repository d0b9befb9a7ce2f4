package llmclient

import (
	"net/http"
	"strings"
)

// tooLong reports whether the conversation is longer than the model takes, in
// any of the ways in which servers put it. No two say it alike, so it is told
// from what is measured and how it compares, rather than by whole sentences.
func (r *refusal) tooLong() bool {
	if r.namesOverflow() {
		return true
	}
	switch status := r.means(); status {
	case http.StatusRequestEntityTooLarge:
		return true // some say no more than that
	case http.StatusTooManyRequests:
		// More than fits into the rate at all, or than the plan has: no wait
		// mends that, and less does.
		return strings.Contains(r.words, "request too large") && !r.fitsRate() ||
			strings.Contains(r.words, "required for long context requests")
	case http.StatusPaymentRequired:
		// OpenRouter: longer than what is left would pay for.
		return strings.Contains(r.words, "prompt tokens limit exceeded")
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		return r.saysTooLong() || !r.aboutAnswer() && containsAny(r.words, lengthHints...)
	case http.StatusInternalServerError, http.StatusBadGateway:
		if r.status == 0 { // inside, and it is not said whose fault it is
			return r.saysTooLong() || !r.aboutAnswer() && containsAny(r.words, lengthHints...)
		}
		// Proxies wrap what an engine refused, and engines have run into it late.
		// A server without the memory for a context does not get any by a
		// shorter conversation.
		return r.saysTooLong() && !strings.Contains(r.words, "memory")
	}
	return false
}

// namesOverflow reports whether a type or code stands for nothing else.
func (r *refusal) namesOverflow() bool {
	if isAny(r.names, "contextlengthexceeded", "exceedcontextsize", "contextwindowexceeded", "modelmaxprompttokensexceeded",
		"tokenslimitreached", "maxtokensperrequest", "prompttoolong", "inputtoolong") {
		return true
	}
	// These are about any part of a request.
	return isAny(r.names, "stringabovemaxlength", "arrayabovemaxlength", "stringtoolong") &&
		(r.param == "" || strings.HasPrefix(r.param, "messages") || strings.HasPrefix(r.param, "input"))
}

// saysTooLong reports whether the words are about a conversation that exceeds a
// bound, and can be about nothing else.
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

	// lengthHints are enough where the status already says that it is the
	// request that is at fault.
	lengthHints = []string{
		"context length", "context window", "context size", "too many tokens", "model token limit", "max_total_tokens",
		"prompt token limit", "input token limit", "range of input length", "longer than the model's", "expected maxlength",
	}
)

// aboutAnswer reports whether it is the answer that is asked too much for. A
// shorter conversation does not help there.
func (r *refusal) aboutAnswer() bool {
	return strings.HasPrefix(r.param, "max_") && strings.HasSuffix(r.param, "tokens") || containsAny(r.words,
		"max_tokens must be", "max_tokens` must be", "max_tokens' must be", "max_tokens is too large", "invalid max_tokens",
		"range of max_tokens", "max_tokens (", "max_tokens: ", "max_completion_tokens", "maximum tokens you requested",
		"number of output tokens", "max output tokens", "max_new_tokens` must be strictly", "supports at most")
}
