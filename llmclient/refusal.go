package llmclient

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// A refusal is an error answer, prepared for judging: the kinds of error that it
// names, in one spelling, and its words. Both include the errors of a provider that a
// gateway quotes.
type refusal struct {
	status int      // of the answer, or the one that an error inside a 200 states; 0 if it states none
	param  string   // the parameter that it complains of
	body   string   // the whole of it, of at most errorBytes; mind that it may repeat the prompt
	own    []string // kinds that it names
	names  []string // own, and those of the errors it quotes
	words  string   // lower case, without what is quoted of the request
	asked  bool     // a header says when to come back
	named  bool     // a header or the body does
}

const (
	maxWords = 8 << 10 // of each text that is searched
	maxName  = 100     // of the name of a kind
)

func newRefusal(status int, e *chat.ServerError) *refusal {
	if e == nil {
		e = &chat.ServerError{}
	}
	r := &refusal{status: status, param: e.Param}
	if len(e.Raw) <= errorBytes {
		r.body = string(e.Raw)
	}
	texts := spokenWords(e.Message)
	if quoted := quotedError(e); quoted != "" {
		texts += "\n" + spokenWords(quoted)
	}
	for _, name := range []string{e.Type, e.Code} {
		name = name[:min(len(name), maxName)]
		r.words += strings.ToLower(name) + "\n"
		if name = plainName(name); name != "" {
			r.own = append(r.own, name)
		}
	}
	r.names = slices.Clone(r.own)
	for _, m := range quotedName.FindAllStringSubmatch(texts, 50) {
		r.names = append(r.names, plainName(m[1]))
	}
	r.words += texts
	return r
}

var (
	// quotedName finds the kinds in an error that is quoted as JSON or as Python
	// prints it, even with escaped quotes.
	quotedName = regexp.MustCompile(`["'\\]+(?:type|code|status|error_type|error_code)["'\\]+\s*:\s*["'\\]+([a-z0-9_.-]{1,60})`)

	// quotedRequest is where validation errors begin to repeat what was sent.
	quotedRequest = regexp.MustCompile(`["'\\]+(?:input|messages|prompt|content)["'\\]+\s*:\s*["'\\[{]|\binput_value=|\binput=['"{\[]`)
)

// spokenWords is a text in lower case, without the part that repeats the request.
func spokenWords(text string) string {
	text = strings.ToLower(text[:min(len(text), maxWords)])
	if at := quotedRequest.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return text
}

// quotedError returns the provider's error that a gateway quotes beside its own:
// OpenRouter's metadata.raw.
func quotedError(e *chat.ServerError) string {
	if len(e.Raw) > errorBytes {
		return ""
	}
	var body struct {
		Error struct {
			Metadata struct{ Raw json.RawMessage }
		}
	}
	if json.Unmarshal(e.Raw, &body) != nil {
		return ""
	}
	raw := body.Error.Metadata.Raw
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// plainName returns the one spelling of a kind of error: rate_limit_error,
// RateLimitError and rate-limit are all ratelimit.
func plainName(name string) string {
	name = nameMarks.Replace(strings.ToLower(name[:min(len(name), maxName)]))
	if bare := strings.TrimSuffix(strings.TrimSuffix(name, "exception"), "error"); bare != "" {
		return bare
	}
	return name
}

var nameMarks = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// isAny reports whether one of the names is among the given ones.
func isAny(names []string, of ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(of, n) })
}

// hasAny reports whether one of the names has one of the parts.
func hasAny(names []string, parts ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return containsAny(n, parts...) })
}

// containsAny reports whether text contains one of the phrases.
func containsAny(text string, phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
}

// means returns the status that fits the error. Mostly it is the one that came, but
// gateways wrap one error in the status of another, and some errors inside an answer
// state none.
func (r *refusal) means() int {
	names, words := r.names, r.words
	switch s := r.status; {
	case s == http.StatusPaymentRequired || s == http.StatusTooManyRequests:
		return s
	case s > http.StatusInternalServerError:
		return s // a server error, in spite of its words
	case s == http.StatusRequestEntityTooLarge:
		if hasAny(names, throttleNames...) && r.fitsRate() {
			return http.StatusTooManyRequests
		}
		return s
	case hasAny(names, throttleNames...):
		return http.StatusTooManyRequests
	case hasAny(names, "overloaded"):
		return 529
	case s == 0:
		return r.meansInside()
	case s == http.StatusForbidden && r.asked:
		return http.StatusTooManyRequests
	case s == http.StatusBadRequest || s == http.StatusForbidden:
		switch {
		case containsAny(words, throttleWords...):
			return http.StatusTooManyRequests
		case containsAny(words, overloadWords...):
			return 529
		}
	case s == http.StatusInternalServerError:
		if final := finalStatus(r.own); final != 0 {
			return final
		}
	}
	return r.status
}

// meansInside is means for an error inside an answer that states no status.
func (r *refusal) meansInside() int {
	switch names, words := r.names, r.words; {
	case hasAny(names, "invalidrequest", "badrequest", "contextlength", "exceedcontext"):
		return http.StatusBadRequest
	case hasAny(names, "authentication", "unauthorized"):
		return http.StatusUnauthorized
	case hasAny(names, "permission"):
		return http.StatusForbidden
	case hasAny(names, "notfound"):
		return http.StatusNotFound
	case hasAny(names, "timeout"):
		return http.StatusGatewayTimeout
	case containsAny(words, throttleWords...):
		return http.StatusTooManyRequests
	case containsAny(words, overloadWords...):
		return 529
	}
	return http.StatusInternalServerError
}

// finalStatus returns the status of a refusal that is final by its name or by the
// number in its code, or 0. Gateways wrap such refusals in a 500.
func finalStatus(names []string) int {
	switch {
	case isAny(names, "authentication", "unauthorized", "invalidapikey", "401"):
		return http.StatusUnauthorized
	case isAny(names, "permission", "permissiondenied", "403"):
		return http.StatusForbidden
	case isAny(names, "notfound", "modelnotfound", "404"):
		return http.StatusNotFound
	case isAny(names, "invalidrequest", "badrequest", "unprocessableentity", "invalidargument", "validation", "400", "422"):
		return http.StatusBadRequest
	}
	return 0
}

// The names of throttles, and their words where the status is another one.
var (
	throttleNames = []string{
		"ratelimit", "throttl", "slowdown", "toomanyrequests", "requestlimitexceeded", "limitrequests", "limitburstrate",
	}
	throttleWords = []string{
		"rate limit", "rate-limit", "ratelimit", "too many requests", "throttl", "please wait before trying again",
		"please slow down", "too many concurrent requests",
	}
	overloadWords = []string{"overloaded", "is at capacity", "model busy"}
)

// rateSizes finds a rate and how much of it the request needs: "on tokens per minute
// (TPM): Limit 6000, Requested 7411".
var rateSizes = regexp.MustCompile(`limit:? (\d{1,15})\b[^\n]{0,60}?requested:? (\d{1,15})\b`)

// fitsRate reports whether the error says that the request is within the rate: then
// it can be sent once the rate has filled up again.
func (r *refusal) fitsRate() bool {
	m := rateSizes.FindStringSubmatch(r.words)
	return m != nil && (len(m[2]) < len(m[1]) || len(m[2]) == len(m[1]) && m[2] <= m[1])
}
