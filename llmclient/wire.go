package llmclient

import (
	"net"
	"net/http"
	"net/url"
	"time"
)

// A wire makes HTTP exchanges. Each ends when its context does, even if the
// transport ignores contexts.
type wire struct {
	client *http.Client
	own    *rotating // made and closed here; nil if the user gave a client
	copies *rotating // the user's *http.Transport and copies of it; nil if it is of another type

	// direct is set if requests go past http.Client straight to its transport, since
	// it has nothing to do but copy headers.
	direct bool

	// trusted is set if the transport is known to honour contexts. Exchanges over
	// another one run in a goroutine that can be left behind.
	trusted bool

	// dials is set if the transport dials at once when it needs a connection, so
	// that the wait for one is the wait for the network. One with MaxConnsPerHost
	// has a queue.
	dials bool

	// send is the TCP_USER_TIMEOUT that connections of the user's transport get. Our
	// own transport sets it when it dials.
	send time.Duration
}

// Idle connections are closed before the server closes them, so that no request is
// written into a connection that is being closed. Servers behind plain HTTP are
// mostly uvicorn, which closes after 5 s. Those behind TLS are mostly gateways,
// which wait a minute or more and whose handshakes are expensive.
const (
	idlePlain = 4 * time.Second
	idleTLS   = 55 * time.Second
)

// http2Ping is after how much silence an HTTP/2 connection is pinged, and how long it
// has to answer.
const http2Ping = 15 * time.Second

func newWire(given *http.Client, u *url.URL, connect, send time.Duration) wire {
	w := wire{client: &http.Client{}}
	if given == nil {
		w.own = &rotating{make: func() *http.Transport { return newOwnTransport(u, connect, send) }}
		w.client.Transport, w.trusted, w.dials = w.own, true, true
	} else {
		*w.client = *given
		w.send = send
		w.trusted = given.Transport == nil
		if t, ok := w.base().(*http.Transport); ok {
			w.copies = &rotating{given: t, make: func() *http.Transport { return alike(t) }}
			w.client.Transport, w.trusted, w.dials = w.copies, true, given.Transport != nil && t.MaxConnsPerHost == 0
		}
	}
	w.client.CheckRedirect = noRedirect
	w.direct = w.trusted && w.client.Jar == nil && w.client.Timeout == 0
	return w
}

// newOwnTransport returns a transport for long streams and many agents. It does not
// limit the number of connections: the pacer does that, and shows which calls wait.
//
// On Linux it gives up a connection on which the peer has acknowledged nothing for
// the time that a write may take. Nothing else shows that a firewall has forgotten
// a connection: the firewall is silent, and probes use other connections.
func newOwnTransport(u *url.URL, connect, send time.Duration) *http.Transport {
	idle := idleTLS
	if u.Scheme == "http" {
		idle = idlePlain
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// The clocks bound the dial as long as its call lives. These bound what is
		// left of it after that.
		DialContext: (&net.Dialer{
			Timeout:         connect,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4},
			Control:         unacknowledged(send),
		}).DialContext,
		TLSHandshakeTimeout:   connect,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   1024,
		IdleConnTimeout:       idle,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: http2Ping, PingTimeout: http2Ping},
	}
}

// alike returns a transport like the one that the user gave, with connections of
// its own.
func alike(given *http.Transport) *http.Transport {
	t := given.Clone()
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: http2Ping, PingTimeout: http2Ping}
	}
	return t
}

// noRedirect leaves redirects to the call, which knows where key and prompt may go
// and counts its requests.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// probing returns a client for probes, each on a connection of its own: an old
// one may be dead where the endpoint is not. It is nil where the transport is
// not known to allow that.
func (w *wire) probing() *http.Client {
	base, ok := w.client.Transport.(*rotating)
	if !ok {
		return nil
	}
	t := base.make()
	t.DisableKeepAlives = true
	return &http.Client{Transport: t, CheckRedirect: noRedirect}
}

// renew makes the next request dial, as far as the transport allows. An HTTP/2
// connection that other requests use is never idle, so the whole transport is
// replaced.
func (w *wire) renew(multiplexed bool) {
	switch {
	case w.own != nil:
		w.own.retire()
	case w.copies != nil && multiplexed:
		w.copies.retire()
	default:
		w.client.CloseIdleConnections()
	}
}

// base returns the transport itself.
func (w *wire) base() http.RoundTripper {
	if t := w.client.Transport; t != nil {
		return t
	}
	return http.DefaultTransport
}

// close gives up what the client's own transport holds.
func (w *wire) close() {
	switch {
	case w.own != nil:
		w.own.CloseIdleConnections()
	case w.copies != nil:
		w.copies.closeCopies()
	}
}

// do makes the exchange. The response's body must be closed.
func (w *wire) do(req *http.Request) (*http.Response, error) {
	switch {
	case w.direct:
		return w.base().RoundTrip(req)
	case w.trusted:
		return w.client.Do(req)
	}
	return doDetached(w.client, req)
}
