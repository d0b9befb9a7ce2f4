package llmclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// bare removes the *url.Error from a transport's error: its text has the URL, which
// may hold a key.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = foreignError{err}
	}
	return err
}

// refused reports whether there was nobody to connect to.
func refused(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	return errors.As(err, &dns) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}

// calmed reports whether the peer of an HTTP/2 connection refused the request because
// it has too many. It says so with an error code (RFC 9113, section 7), of which
// net/http passes on the name only. If it complains of pings, there were not too many
// requests.
func calmed(err error) bool {
	text := err.Error()
	return (strings.Contains(text, "ENHANCE_YOUR_CALM") || strings.Contains(text, "REFUSED_STREAM")) && !strings.Contains(text, "too_many_pings")
}

// A foreignError is the error of a transport that ran into its own deadline or
// cancelled by itself. It matches all that the error matched, except the context
// errors, which stand for the caller's.
type foreignError struct{ err error }

func (e foreignError) Error() string { return e.err.Error() }

func (e foreignError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

func (e foreignError) As(target any) bool { return errors.As(e.err, target) }

// proxySaid returns the status with which a proxy refused to connect, or 0. net/http
// passes on only the text of that status.
func proxySaid(err error) int {
	text := err.Error()
	if strings.Contains(strings.ToLower(text), "proxy authentication required") {
		return http.StatusProxyAuthRequired // some proxies add to the text
	}
	for status := 400; status < 600; status++ {
		if text == http.StatusText(status) && text != "" {
			return status
		}
	}
	return 0
}

// toProxy reports whether it was a proxy that could not be reached.
func toProxy(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "proxyconnect" || strings.HasPrefix(op.Op, "socks"))
}

// permanent reports whether a failed connection will fail again: certificates
// do not become valid by waiting, and a proxy does not change its mind.
func permanent(err error) bool {
	var (
		cert  *tls.CertificateVerificationError
		host  x509.HostnameError
		auth  x509.UnknownAuthorityError
		dns   *net.DNSError
		plain tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &cert), errors.As(err, &host), errors.As(err, &auth), errors.As(err, &plain):
		return true
	case errors.As(err, &dns):
		return false // even if a name is not found: it may be registered soon
	}
	switch status := proxySaid(err); status {
	case 0:
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < 500
	}
	text := err.Error()
	return strings.Contains(text, "server gave HTTP response to HTTPS client") ||
		toProxy(err) && strings.Contains(text, "username/password authentication failed")
}

// netText says what a failed connection means and what to look at.
func netText(err error, host string) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	if status := proxySaid(err); status == http.StatusProxyAuthRequired {
		return "a proxy on the way to " + host + " wants a name and a password: put them into its URL"
	} else if status != 0 {
		return "a proxy on the way to " + host + " did not connect: " + bounded(err.Error(), 200)
	}
	switch {
	case toProxy(err):
		return "cannot connect to " + host + ": its proxy did not take the connection: " + bounded(root(err).Error(), 200)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "cannot connect to " + host + ": connection refused; is the server running, and is BaseURL right?"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "cannot connect to " + host + ": there is no such host; check BaseURL"
	case errors.As(err, &dns):
		return "cannot connect to " + host + ": its name could not be looked up: " + dns.Err
	case errors.As(err, &cert):
		return "cannot trust " + host + ": " + bounded(cert.Err.Error(), 200) + "; give HTTPClient a transport that knows its authority"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return host + " speaks http, not https; check BaseURL"
	case calmed(err):
		return host + " takes no more requests now: " + bounded(err.Error(), 200)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), cut(err):
		return "the connection to " + host + " broke before an answer came"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return "the connection to " + host + " timed out below the client"
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot connect to " + host + ": " + bounded(op.Err.Error(), 200)
	}
	return "the exchange with " + host + " failed: " + bounded(err.Error(), 200)
}

// root returns the innermost error: those around it repeat its text with addresses.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
