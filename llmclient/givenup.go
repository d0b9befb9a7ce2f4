package llmclient

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"
)

// givenUp is how a call ended without a response. If the SDK sends it again, and
// marks it as a retry in its header, it gets the same error at once: otherwise it
// would wait as long as before with each of its retries.
type givenUp struct {
	err error
	at  time.Time
}

const (
	rememberFor   = 5 * time.Minute
	maxRemembered = 1024
)

// remember notes how a call ended.
func (t *Transport) remember(key uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for k, g := range t.givenUp {
		if now.Sub(g.at) > rememberFor || len(t.givenUp) >= maxRemembered {
			delete(t.givenUp, k)
		}
	}
	t.givenUp[key] = givenUp{err, now}
}

// sameAgain returns a hash by which a request is recognised when an SDK sends it
// again: of its body, its endpoint and its credentials.
func (t *Transport) sameAgain(c *Client, p *passthrough, body []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	fmt.Fprintf(&h, "%p %s %s\n", c, p.method, p.url)
	for _, name := range slices.Sorted(maps.Keys(p.header)) {
		if holdsSecret(name) {
			fmt.Fprintf(&h, "%s %q\n", name, p.header[name])
		}
	}
	_, _ = h.Write(body)
	return h.Sum64()
}

// forget notes that a call has succeeded.
func (t *Transport) forget(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.givenUp, key)
}

// recall returns how the same call ended a short while ago, or nil.
func (t *Transport) recall(key uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g, there := t.givenUp[key]; there && time.Since(g.at) <= rememberFor {
		return g.err
	}
	return nil
}
