package health

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Target is a server to ask.
type Target struct {
	// Name is the server's name in verdicts. Empty means its Role, if that is set
	// and no other target has the name, otherwise its host and port.
	Name string

	// URL is the server's root, or the base URL of its API, with or without /v1.
	URL string

	// MetricsURL is the address of its metrics. Empty means /metrics below URL.
	// SGLang's gateway has its metrics at another port.
	MetricsURL string

	// APIKey is sent as a bearer token with every question, and Header is added
	// to every question. They go to URL and MetricsURL only.
	APIKey string
	Header http.Header

	// Role is the server's part in the service. Empty means to detect it.
	Role Role
}

// A place is a checked target with its addresses taken apart.
type place struct {
	Target
	root    string // without a slash at the end
	api     string // likewise
	metrics string
	public  string // the root without query and credentials, as it is shown
	host    string // without port
	found   bool   // a router named it
}

// place checks the target and takes its addresses apart.
func (t Target) place() (*place, error) {
	u, err := parse("URL", t.URL)
	if err != nil {
		return nil, err
	}
	switch t.Role {
	case "", RoleUnified, RolePrefill, RoleDecode, RoleRouter:
	default:
		return nil, fmt.Errorf("Role is %q, want %q, %q, %q, %q or nothing", t.Role, RoleUnified, RolePrefill, RoleDecode,
			RoleRouter)
	}
	if strings.ContainsFunc(t.APIKey, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("APIKey has white space in it")
	}
	p := &place{Target: t, host: u.Hostname()}
	p.Header = t.Header.Clone()
	u.RawQuery = ""
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimSuffix(path, "/chat/completions")
	bare := strings.TrimSuffix(path, "/v1")
	if path == "" || path == bare {
		path = bare + "/v1"
	}
	u.RawPath = ""
	u.Path = path
	p.api = u.String()
	u.Path = bare
	p.root = strings.TrimRight(u.String(), "/")
	p.public = p.root
	p.metrics = p.root + "/metrics"
	if t.MetricsURL != "" {
		m, err := parse("MetricsURL", t.MetricsURL)
		if err != nil {
			return nil, err
		}
		p.metrics = m.String()
	}
	return p, nil
}

func parse(field, s string) (*url.URL, error) {
	if s == "" {
		return nil, fmt.Errorf("%s is empty, want an address as http://localhost:30000", field)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be parsed, want an address as http://localhost:30000", field)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s has the scheme %q, want http or https", field, u.Scheme)
	case u.Host == "":
		return nil, fmt.Errorf("%s names no host", field)
	case u.User != nil:
		return nil, fmt.Errorf("%s has a user and password in it; use APIKey or Header", field)
	}
	u.Fragment = ""
	return u, nil
}

// places checks targets, and gives each a name that no other has.
func places(targets []Target) ([]*place, error) {
	var list []*place
	for i, t := range targets {
		p, err := t.place()
		if err != nil {
			return nil, fmt.Errorf("Targets[%d].%w", i, err)
		}
		list = append(list, p)
	}
	for _, p := range list {
		p.name(list)
	}
	return list, nil
}

// name gives the place a name that no other has.
func (p *place) name(others []*place) {
	taken := func(name string) bool {
		return slices.ContainsFunc(others, func(o *place) bool { return o != p && o.Name == name })
	}
	base := p.Name
	if base == "" && p.Role != "" && !taken(string(p.Role)) {
		base = string(p.Role)
	}
	if base == "" {
		if u, err := url.Parse(p.root); err == nil {
			base = u.Host
		}
	}
	p.Name = base
	for n := 2; taken(p.Name); n++ {
		p.Name = fmt.Sprintf("%s (%d)", base, n)
	}
}
