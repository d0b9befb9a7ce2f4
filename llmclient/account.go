package llmclient

import (
	"hash/maphash"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Headers and parameters that identify the account of a request, and so the limits
// that apply to it. It is a list of exact names: many others look like a secret but
// change with every request (Idempotency-Key, signatures) or often (cookies).
var (
	accountHeaders = []string{
		"Authorization", "Proxy-Authorization",
		"X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "X-Auth-Token", "Cf-Aig-Authorization",
		"Openai-Organization", "Openai-Project", "X-Goog-User-Project",
	}
	accountParams = []string{"key", "api-key", "api_key", "subscription-key", "access_token", "X-Amz-Credential"}
)

// account returns a hash that identifies the account of a request.
func account(seed maphash.Seed, header http.Header, query url.Values) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	write := func(name string, values []string) {
		_, _ = h.WriteString(name)
		for _, v := range values {
			_ = h.WriteByte(0)
			_, _ = h.WriteString(accessKey(v))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if canonical := textproto.CanonicalMIMEHeaderKey(name); slices.Contains(accountHeaders, canonical) {
			write(canonical, header[name])
		}
	}
	for _, name := range accountParams {
		if values := query[name]; len(values) > 0 {
			write(name, values)
		}
	}
	return h.Sum64()
}

// accessKey returns the part of a credential that identifies the account. That is all
// of it, except for AWS: there each request has another signature, and the scope has
// the date, so it is the access key alone.
func accessKey(v string) string {
	if !strings.HasPrefix(v, "AWS4-") {
		if id, scope, ok := strings.Cut(v, "/"); ok && strings.HasSuffix(scope, "/aws4_request") {
			return id
		}
		return v
	}
	_, rest, ok := strings.Cut(v, "Credential=")
	if !ok {
		return v
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}
