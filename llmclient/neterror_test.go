package llmclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a connection that failed is told to be, and whether another try may
// bring more.
func TestConnectionsThatFailed(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	through := func(err error) error { return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err} }
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, tc := range map[string]struct {
		err       error
		permanent bool
		text      string
	}{
		"refused":                         {refused, false, "cannot connect to h: connection refused"},
		"no such host":                    {dial(&net.DNSError{Err: "no such host", IsNotFound: true}), false, "there is no such host; check BaseURL"},
		"a certificate":                   {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, true, "cannot trust h"},
		"a proxy that refuses":            {through(refused), false, "cannot connect to h: its proxy did not take the connection: connection refused"},
		"a proxy that is not found":       {through(dial(&net.DNSError{Err: "no such host", Name: "p", IsNotFound: true})), false, "its proxy did not take the connection"},
		"a proxy that wants a name":       {errors.New("Proxy Authentication Required"), true, "a proxy on the way to h wants a name and a password"},
		"the same in more words":          {errors.New("Proxy Authentication Required ( The server requires authorization )"), true, "a proxy on the way to h wants a name and a password"},
		"a proxy that forbids":            {errors.New("Forbidden"), true, "a proxy on the way to h did not connect: Forbidden"},
		"a server that is no proxy":       {errors.New("Method Not Allowed"), true, "a proxy on the way to h did not connect"},
		"a proxy that is slowed down":     {errors.New("Too Many Requests"), false, "a proxy on the way to h did not connect"},
		"a proxy that reaches nobody":     {errors.New("Bad Gateway"), false, "a proxy on the way to h did not connect: Bad Gateway"},
		"a proxy that waited in vain":     {errors.New("Gateway Timeout"), false, "a proxy on the way to h did not connect"},
		"SOCKS, a wrong password":         {&net.OpError{Op: "socks connect", Net: "tcp", Err: errors.New("username/password authentication failed")}, true, "its proxy did not take the connection: username/password"},
		"SOCKS, the host is unreachable":  {&net.OpError{Op: "socks connect", Net: "tcp", Err: errors.New("unknown error host unreachable")}, false, "its proxy did not take the connection"},
		"words that end in such a status": {errors.New("tunnel: Forbidden"), false, "the exchange with h failed"},
		"HTTP/2, too much at once":        {errors.New("stream error: stream ID 7; ENHANCE_YOUR_CALM; received from peer"), false, "h takes no more requests now"},
		"http where https is spoken":      {errors.New("http: server gave HTTP response to HTTPS client"), true, "h speaks http, not https"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.permanent, permanent(tc.err))
			assert.Contains(t, netText(tc.err, "h"), tc.text)
		})
	}
}
