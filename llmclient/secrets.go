package llmclient

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/neverhang/neverhang/internal/version"
)

// String names the endpoints and models of the configuration, without secrets.
func (c Config) String() string {
	if len(c.Endpoints) == 0 {
		return "llmclient.Config(" + shown(c.BaseURL, c.Model, c.APIKey) + ")"
	}
	parts := make([]string, len(c.Endpoints))
	for i, e := range c.Endpoints {
		parts[i] = shown(e.BaseURL, e.Model, e.APIKey)
	}
	return "llmclient.Config(" + strings.Join(parts, "; ") + ")"
}

// shown describes an endpoint as it is configured.
func shown(base, model, key string) string {
	name := "?"
	if u, err := url.Parse(base); err == nil {
		name = redacted(u)
	}
	has := "no key"
	if key != "" {
		has = "a key"
	}
	return fmt.Sprintf("%s, model %q, %s", name, model, has)
}

// String describes the endpoint, without secrets.
func (e Endpoint) String() string {
	return "llmclient.Endpoint(" + shown(e.BaseURL, e.Model, e.APIKey) + ")"
}

// Format keeps secrets from every verb of package fmt.
func (e Endpoint) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.String()) }

// MarshalText keeps secrets from logs and encoders.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Format keeps secrets from every verb of package fmt.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText keeps secrets from logs and encoders.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String names the endpoints and their models.
func (c *Client) String() string {
	parts := make([]string, len(c.eps))
	for i, ep := range c.eps {
		parts[i] = fmt.Sprintf("%s, model %q", ep.name, ep.model)
	}
	return "llmclient.Client(" + strings.Join(parts, "; ") + ")"
}

// Format keeps secrets from every verb of package fmt.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText keeps secrets from logs and encoders.
func (c *Client) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String says how many endpoints the transport has.
func (t *Transport) String() string {
	return fmt.Sprintf("llmclient.Transport(%d endpoints)", len(t.Clients()))
}

// Format keeps secrets from every verb of package fmt.
func (t *Transport) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// redacted returns the URL without user, query and fragment. Without a scheme a user and
// password are not parsed as such; they end at the last @.
func redacted(u *url.URL) string {
	if rest := u.Opaque + u.Path; u.Host == "" && strings.Contains(rest, "@") {
		return rest[strings.LastIndexByte(rest, '@')+1:]
	}
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// secrets holds what a client must not show. It is kept in functions, because
// package fmt can print every field that it reaches, at any depth and past all
// methods.
type secrets struct {
	keyed  bool                // a key is sent
	header func() http.Header  // of requests, with the key: one for all, not to be changed
	probe  func(*http.Request) // turns a request into a probe
	target func() *url.URL     // of the chat completions, with its query; not to be changed
	redact func(string) string // takes secrets out of a text: providers repeat them
}

// holdsSecret reports whether a header or parameter of that name is likely to hold a
// secret. It is for redaction: see account for what tells accounts apart.
func holdsSecret(name string) bool {
	name = strings.ToLower(name)
	for _, s := range []string{"auth", "key", "token", "secret", "cookie", "sig", "password", "credential"} {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// seal puts the secrets of a checked endpoint away.
func seal(e Endpoint, u *url.URL) secrets {
	key, header, target := e.APIKey, e.Header, *u
	hidden := append(secretsIn(header, u), key)
	all := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream, application/json"},
		"User-Agent":   {userAgent()},
	}
	if key != "" {
		all.Set("Authorization", "Bearer "+key)
	}
	for name, values := range header {
		all[http.CanonicalHeaderKey(name)] = values
	}
	return secrets{
		keyed:  slices.ContainsFunc(hidden, func(h string) bool { return h != "" }),
		header: func() http.Header { return all },
		probe: func(r *http.Request) {
			u := target
			if path, ok := strings.CutSuffix(u.EscapedPath(), chatPath); ok {
				u.Path, u.RawPath = "/", ""
				u = *u.JoinPath(path, "models")
			} else {
				u.Path, u.RawPath = "/models", ""
			}
			r.URL = &u
			r.Header.Set("User-Agent", userAgent())
			if key != "" {
				r.Header.Set("Authorization", "Bearer "+key)
			}
			for name, values := range header {
				r.Header[http.CanonicalHeaderKey(name)] = values
			}
		},
		target: func() *url.URL { return &target },
		redact: redactor(hidden),
	}
}

// secretsIn lists the secrets in a header and a URL.
func secretsIn(header http.Header, u *url.URL) (list []string) {
	for name, values := range u.Query() {
		if holdsSecret(name) {
			for _, v := range values { // as it is, and as a URL has it
				list = append(list, v, url.QueryEscape(v), url.PathEscape(v))
			}
		}
	}
	for name, values := range header {
		if !holdsSecret(name) {
			continue
		}
		for _, v := range values {
			_, token, _ := strings.Cut(v, " ")
			list = append(list, v, token)
			if strings.EqualFold(name, "Cookie") {
				for _, c := range strings.Split(v, ";") {
					_, value, _ := strings.Cut(c, "=")
					list = append(list, value)
				}
			}
		}
	}
	return list
}

// redactor returns a function that takes secrets out of a text.
func redactor(hidden []string) func(string) string {
	// Short ones would spoil ordinary words. The longest comes first, since one may
	// be a part of another.
	hidden = slices.DeleteFunc(slices.Clone(hidden), func(h string) bool { return len(h) < 6 })
	slices.SortFunc(hidden, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return func(s string) string {
		for _, h := range hidden {
			s = strings.ReplaceAll(s, h, "[redacted]")
		}
		return s
	}
}

// userAgent names this module and its version in the program that runs.
var userAgent = sync.OnceValue(func() string { return "neverhang/" + version.Of(debug.ReadBuildInfo()) })
