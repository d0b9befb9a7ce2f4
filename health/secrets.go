package health

import (
	"fmt"
	"io"
	"net/url"
	"strings"
)

// String says what the target is, without what may be secret.
func (t Target) String() string { return "health.Target(" + t.shown() + ")" }

// Format keeps secrets from every verb of package fmt.
func (t Target) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText keeps secrets from logs and encoders.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// String says which targets the configuration has, without what may be secret.
func (c Config) String() string {
	parts := make([]string, len(c.Targets))
	for i, t := range c.Targets {
		parts[i] = t.shown()
	}
	return "health.Config(" + strings.Join(parts, "; ") + ")"
}

// Format keeps secrets from every verb of package fmt.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText keeps secrets from logs and encoders.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String says how many servers the Monitor asks by now.
func (m *Monitor) String() string { return fmt.Sprintf("health.Monitor(%d servers)", len(m.Servers())) }

// Format keeps the Monitor's inside from every verb of package fmt: it holds
// secrets, and changes under the mutex.
func (m *Monitor) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.String()) }

func (t Target) shown() string {
	parts := []string{shownURL(t.URL)}
	if t.Name != "" {
		parts = append(parts, fmt.Sprintf("name %q", t.Name))
	}
	if t.MetricsURL != "" {
		parts = append(parts, "metrics "+shownURL(t.MetricsURL))
	}
	if t.Role != "" {
		parts = append(parts, fmt.Sprintf("role %q", string(t.Role)))
	}
	if t.APIKey != "" || len(t.Header) > 0 {
		parts = append(parts, "a key or header")
	}
	return strings.Join(parts, ", ")
}

// shownURL returns the scheme, host and path of an address. One that New would
// refuse may hold a password anywhere, so nothing of it is shown.
func shownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "?"
	}
	return tidy(mask((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()))
}
