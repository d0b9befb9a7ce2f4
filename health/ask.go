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

// What is read of an answer. Pages of metrics with many labels reach megabytes;
// what lies beyond is as if it were not there.
const (
	maxPage   = 8 << 20
	maxAnswer = 1 << 20 // of all others
)

// defaultTimeout bounds a question.
const defaultTimeout = 3 * time.Second

// An asker asks free questions.
type asker struct {
	http *http.Client
}

// newAsker returns an asker on a client of the user's, or on its own, whose
// every question comes on a fresh connection: one that is pooled may be dead,
// and says nothing about whether new ones come about.
func newAsker(c *http.Client) *asker {
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: defaultTimeout}).DialContext, // it goes on behind a question that has ended
			DisableKeepAlives:      true,
			TLSHandshakeTimeout:    defaultTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		}}
	}
	own := *c
	// A redirect may lead to where the key does not belong, or to what is not
	// free. Being sent away is an answer.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &asker{http: &own}
}

// An answer is what came of a question.
type answer struct {
	reach  Reach
	status int
	body   []byte
	ahead  time.Duration // the server's clock of ours, if it tells
	took   time.Duration
}

// ahead is by how much a server's clock is ahead of ours. Dates are told in
// whole seconds.
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

// get asks one question. It returns when ctx ends at the latest.
func (a *asker) get(ctx context.Context, p *place, url string) (out answer) {
	start := time.Now()
	defer func() { out.took = time.Since(start) }()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, url, nil)
	if err != nil {
		return answer{reach: Broken}
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
	return answer{reach: Reached, status: resp.StatusCode, body: body, ahead: ahead(resp.Header.Get("Date"), start)}
}

// reachOf says how far a question came that failed.
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
		return BadTLS
	case errors.As(err, &dns) && !dns.IsTimeout:
		return NoName
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case late || errors.As(err, &netErr) && netErr.Timeout():
		if connected {
			return Silent
		}
		return NoConnect
	case connected:
		return Broken
	}
	return NoConnect
}
