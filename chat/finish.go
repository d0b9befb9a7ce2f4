package chat

// A FinishReason says why the model stopped. Unknown ones are kept as the server
// wrote them.
type FinishReason string

// The finish reasons that this module knows.
const (
	// FinishStop is a natural end.
	FinishStop FinishReason = "stop"
	// FinishToolCalls ends a message that calls tools.
	FinishToolCalls FinishReason = "tool_calls"
	// FinishLength is an answer cut by a token limit. Text that is cut is an answer,
	// but tool calls that are cut are not.
	FinishLength FinishReason = "length"
	// FinishContentFilter is an answer withheld or cut by a filter.
	FinishContentFilter FinishReason = "content_filter"
	// FinishFunctionCall is the old form of FinishToolCalls.
	FinishFunctionCall FinishReason = "function_call"
	// FinishAbort, FinishError and FinishNoResource end an answer that the
	// server gave up on (vLLM and SGLang, OpenRouter, DeepSeek).
	FinishAbort      FinishReason = "abort"
	FinishError      FinishReason = "error"
	FinishNoResource FinishReason = "insufficient_system_resource"
)

// Failed reports whether the reason says that the server gave up on the answer: an
// abort, an error of the server, or output that it could not use. Of Failed,
// [FinishReason.Limited] and [FinishReason.Filtered] at most one is true. Upper and
// lower case, underscores and hyphens make no difference. For an unknown reason none
// is true.
func (r FinishReason) Failed() bool { return r.kind() == failed }

// Limited reports whether a token limit cut the answer: the one in the request, or
// the model's context length.
func (r FinishReason) Limited() bool { return r.kind() == limited }

// Filtered reports whether a filter withheld or cut the answer. "refusal" counts as
// well, since it stands for a classifier next to the model. A model that declines in
// its own words has FinishStop.
func (r FinishReason) Filtered() bool { return r.kind() == filtered }

// spoils reports whether the answer is not what the model meant to say.
func (r FinishReason) spoils() bool { return r.kind() >= failed }

type finishKind int

const (
	unfamiliar finishKind = iota
	noReason
	failed
	limited
	filtered
)

func (r FinishReason) kind() finishKind {
	var buf [maxReason]byte
	folded := foldReason(buf[:0], string(r))
	switch string(folded) {
	case "", "null", "none", "nil", "undefined", "unspecified", "finishreasonunspecified", "notfinished":
		// Some servers write these in place of null in each chunk until the end.
		return noReason
	case "length", "maxlength", "modellength", "lengthlimit", "outputlimit", "maxoutput", "maxtoken",
		"maxtokens", "maxoutputtokens", "maxcompletiontokens", "maxnewtokens", "maxtokensreached",
		"maxpredictedtokensreached", "maxtokenlimit", "tokenlimit", "tokenlimitreached", "errorlimit",
		"contextlength", "contextlengthreached", "contextlengthexceeded", "contextwindow",
		"contextwindowexceeded", "modelcontextwindowexceeded":
		return limited
	case "contentfilter", "contentfiltered", "filter", "filtered", "safety", "imagesafety", "unsafe",
		"recitation", "imagerecitation", "prohibitedcontent", "imageprohibitedcontent", "blocklist",
		"blocked", "contentblocked", "spii", "language", "sensitive", "toxic", "errortoxic",
		"moderation", "moderated", "contentpolicy", "contentpolicyviolation", "policyviolation",
		"guardrail", "guardrails", "guardrailintervened", "refusal":
		return filtered
	case "abort", "aborted", "cancel", "cancelled", "canceled", "usercancel", "usercancelled",
		"usercanceled", "userstopped", "interrupted", "disconnected", "incomplete", "fail", "failed",
		"failure", "timeout", "timedout", "timelimit", "overloaded", "engineoverloaded", "unavailable",
		"modelunloaded", "insufficientsystemresource", "malformedfunctioncall", "malformedtoolcall",
		"malformedtooluse", "malformedresponse", "malformedmodeloutput", "unexpectedtoolcall",
		"toomanytoolcalls", "missingthoughtsignature":
		return failed
	}
	// Any error by its name: network_error, model_error, server_error …
	const suffix = "error"
	if n := len(folded) - len(suffix); n >= 0 && string(folded[n:]) == suffix {
		return failed
	}
	return unfamiliar
}

// maxReason bounds the reasons that are looked at.
const maxReason = 64

// foldReason appends a reason so that MAX_TOKENS, max-tokens and maxTokens are
// one: in lower case, letters and digits only. One that is too long becomes
// "?".
func foldReason(dst []byte, s string) []byte {
	if len(s) > maxReason {
		return append(dst, '?')
	}
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'A' && b <= 'Z':
			dst = append(dst, b+'a'-'A')
		case b == '_' || b == '-' || b == '.' || b <= ' ':
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// finishReason returns what a server wrote as the reason, or "" if that says
// none, without allocating for the common ones.
func finishReason(s []byte) FinishReason {
	switch FinishReason(s) {
	case "":
		return ""
	case FinishStop:
		return FinishStop
	case FinishToolCalls:
		return FinishToolCalls
	case FinishLength:
		return FinishLength
	}
	if r := FinishReason(s); r.kind() != noReason {
		return r
	}
	return ""
}
