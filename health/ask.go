package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// How many bytes of an answer are read. Pages of metrics with many labels reach
// megabytes. The rest is ignored.
const (
	maxPage   = 8 << 20
	maxAnswer = 1 << 20 // of all others
)

// defaultTimeout bounds a question of Detect.
const defaultTimeout = 3 * time.Second

// An asker asks free questions.
type asker struct {
	http *http.Client
}

// newAsker returns an asker that uses the user's client, or one of its own. Its
// own opens a new connection for each question: a pooled one may be dead, and does
// not show whether new connections can be made.
func newAsker(c *http.Client) *asker {
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: defaultTimeout}).DialContext, // a dial outlives its question
			DisableKeepAlives:      true,
			TLSHandshakeTimeout:    defaultTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		}}
	}
	own := *c
	// A redirect may lead to a host that must not get the key, or to a question
	// that costs money. So the redirect itself is the answer.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &asker{http: &own}
}

// An answer is what came of a question.
type answer struct {
	reach  Reach
	status int
	body   []byte
	ahead  time.Duration // of the server's clock, 0 if it is not known
	took   time.Duration
}

// ahead is by how much a server's clock is ahead of ours. It is 0 if they are less
// than 5 s apart, since dates come in whole seconds and after a delay.
func ahead(date string, now time.Time) time.Duration {
	at, err := http.ParseTime(date)
	if err != nil {
		return 0
	}
	if d := at.Sub(now); d.Abs() > 5*time.Second {
		return d
	}
	return 0
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// get asks one question, until ctx ends.
func (a *asker) get(ctx context.Context, p *place, url string) (out answer) {
	start := time.Now()
	defer func() { out.took = time.Since(start) }()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, url, nil)
	if err != nil {
		return answer{reach: ReachBroken}
	}
	for name, values := range p.Header {
		req.Header[name] = values
	}
	if p.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+p.APIKey)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return answer{reach: reachOf(err, ctx.Err() != nil, connected.Load())}
	}
	defer resp.Body.Close()
	most := int64(maxAnswer)
	if url == p.metrics || strings.HasSuffix(req.URL.Path, "/engine_metrics") {
		most = maxPage
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return answer{reach: reachOf(err, ctx.Err() != nil, true)}
	}
	return answer{reach: ReachAnswered, status: resp.StatusCode, body: body, ahead: ahead(resp.Header.Get("Date"), start)}
}

// reachOf returns how far a failed question came.
func reachOf(err error, late, connected bool) Reach {
	var (
		dns    *net.DNSError
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
		alert  tls.AlertError
		ca     x509.UnknownAuthorityError
		host   x509.HostnameError
		bad    x509.CertificateInvalidError
		netErr net.Error
	)
	switch {
	case errors.As(err, &record), errors.As(err, &cert), errors.As(err, &alert),
		errors.As(err, &ca), errors.As(err, &host), errors.As(err, &bad):
		return ReachBadTLS
	case errors.As(err, &dns) && !dns.IsTimeout:
		return ReachNoName
	case errors.Is(err, syscall.ECONNREFUSED):
		return ReachRefused
	case late || errors.As(err, &netErr) && netErr.Timeout():
		if connected {
			return ReachSilent
		}
		return ReachNoConnect
	case connected:
		return ReachBroken
	}
	return ReachNoConnect
}
