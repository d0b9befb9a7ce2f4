package llmclient

import (
	"net"
	"net/http"
	"net/url"
	"time"
)

// A wire makes one HTTP exchange. Whatever the transport below it does, an
// exchange ends when its context does.
type wire struct {
	client *http.Client
	own    *rotating // made here, closed here; nil if the user gave one
	copies *rotating // of the one that the user gave, and that first; nil if there is none of that kind

	// direct is set if there is nothing for http.Client to do above its
	// transport: it would copy the header, at the least.
	direct bool

	// trusted is set if the transport is known to honour contexts. Another
	// one gets a goroutine per exchange that can be left behind.
	trusted bool

	// dials is set if asking the transport for a connection means dialing
	// at once, so that the wait for one is the wait for the network. A
	// transport with MaxConnsPerHost has a queue of its own.
	dials bool

	// send is after how long without a word from the other side's system
	// connections of the user's transport are given up. Those of our own are told
	// so when they are dialled.
	send time.Duration
}

// Idle connections are given up before the server does, so that no request is
// written into a connection that is being closed. Servers behind plain HTTP
// are mostly uvicorn, which closes after 5 s; those behind TLS are mostly
// gateways, which wait a minute or more, and their handshakes are dear.
const (
	idlePlain = 4 * time.Second
	idleTLS   = 55 * time.Second
)

// http2Ping is after what silence a connection over HTTP/2 is asked whether it
// lives, and how long it has to say so.
const http2Ping = 15 * time.Second

func newWire(given *http.Client, u *url.URL, connect, send time.Duration) wire {
	w := wire{client: &http.Client{}}
	if given == nil {
		w.own = &rotating{make: func() *http.Transport { return newOwnTransport(u, connect, send) }}
		w.client.Transport, w.trusted, w.dials = w.own, true, true
	} else {
		*w.client = *given
		w.send = send
		w.trusted = given.Transport == nil // whoever replaces the default thinks of contexts
		if t, ok := w.base().(*http.Transport); ok {
			w.copies = &rotating{given: t, make: func() *http.Transport { return alike(t) }}
			w.client.Transport, w.trusted, w.dials = w.copies, true, given.Transport != nil && t.MaxConnsPerHost == 0
		}
	}
	w.client.CheckRedirect = noRedirect
	w.direct = w.trusted && w.client.Jar == nil && w.client.Timeout == 0
	return w
}

// newOwnTransport returns a transport for long streams and many agents. It
// limits no number of connections: that is the pacer's office, which can see
// who waits.
//
// Where the system can do that, it gives up a connection of which the other side
// acknowledges nothing for as long as a write may take: a firewall that has
// forgotten it says nothing, and neither do probes, which go another way.
func newOwnTransport(u *url.URL, connect, send time.Duration) *http.Transport {
	idle := idleTLS
	if u.Scheme == "http" {
		idle = idlePlain
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// The clocks of the call bound the dial; these bound what is left of
		// it when the call has gone.
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

// noRedirect leaves redirects to the call, which knows where key and prompt may
// go, and counts what it sends.
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

// renew lets the next request dial, as far as the transport allows. A connection
// over HTTP/2 that others use as well is never idle: it is left for another
// transport.
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
	return guarded(w.client, req)
}
