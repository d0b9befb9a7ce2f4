package llmclient

import (
	"net/http"
	"sync"
	"time"
)

const (
	// recycleAfter is how long connections take new requests. Firewalls and
	// NATs forget busy ones without a word, too.
	recycleAfter = 10 * time.Minute

	// keptRetired is how many retired transports are kept for Close. Connections of
	// others close by their idle timeout.
	keptRetired = 8
)

// A rotating transport replaces the one that it uses, now and then and when it
// is told that its connections are in doubt. Requests under way stay where
// they are: over HTTP/2 a connection that one request has given up may still
// serve others, but it takes no new ones.
type rotating struct {
	make  func() *http.Transport
	given *http.Transport // the first, if the user gave it; then only what is in doubt is replaced

	mu      sync.Mutex
	current *http.Transport
	since   time.Time
	retired []*http.Transport
}

func (r *rotating) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.now().RoundTrip(req)
}

// now returns the transport for the next request.
func (r *rotating) now() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.current == nil && r.given != nil:
		r.current = r.given
	case r.current == nil:
		r.current, r.since = r.make(), time.Now()
	case r.given == nil && time.Since(r.since) >= recycleAfter:
		r.retireLocked()
	}
	return r.current
}

// retire lets no further request use the present connections.
func (r *rotating) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.retireLocked()
	}
}

func (r *rotating) retireLocked() {
	r.retired = append(r.retired, r.current)
	for _, t := range r.retired {
		t.CloseIdleConnections()
	}
	if n := len(r.retired); n > keptRetired {
		r.retired = append(r.retired[:0], r.retired[n-keptRetired:]...)
	}
	r.current, r.since = r.make(), time.Now()
}

// closeCopies closes idle connections of the copies. The user's transport is left alone.
func (r *rotating) closeCopies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range append(r.retired, r.current) {
		if t != nil && t != r.given {
			t.CloseIdleConnections()
		}
	}
}

// CloseIdleConnections closes connections that carry no request.
func (r *rotating) CloseIdleConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range append(r.retired, r.current) {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
}
