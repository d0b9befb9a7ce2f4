package llmclient

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A target has a client of its own. It is a base URL with an account, given by its
// hash, or with all accounts that share one client.
type target struct {
	base    string
	account uint64
	shared  bool
}

// behind is a client behind the Transport.
type behind struct {
	client *Client
	used   time.Time // last
	held   int       // by requests that may not have become calls yet
}

const (
	// maxTargets bounds how many base URLs and accounts a Transport remembers.
	maxTargets = 1024

	// maxAccounts is how many accounts of one base URL have a client of their own.
	// Those seen later share one.
	maxAccounts = 64
)

// client returns the client behind a request, to be released.
func (t *Transport) client(req *http.Request) (*behind, error) {
	base := *req.URL
	base.RawQuery, base.Fragment, base.User = "", "", nil
	base.Path, _ = strings.CutSuffix(base.Path, chatPath)
	if base.Path == req.URL.Path {
		base.Path = ""
	}
	b, fresh, err := t.clientOf(&base, account(t.seed, req.Header, req.URL.Query()), credentials(req))
	if fresh {
		b.client.eps[0].warn(b.client, &base)
	}
	return b, err
}

// credentials returns the headers of a request that are secret, for probes. One
// that belongs to this request alone is not among them.
func credentials(req *http.Request) http.Header {
	header := make(http.Header)
	for name, values := range req.Header {
		if holdsSecret(name) && !strings.Contains(strings.ToLower(name), "idempotency") {
			header[name] = values
		}
	}
	return header
}

// clientOf returns the client for a base URL and an account, and whether it is new.
// It is not evicted before release.
func (t *Transport) clientOf(base *url.URL, account uint64, header http.Header) (b *behind, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, &Error{Kind: ErrClosed, Endpoint: redacted(base), text: "the transport is closed"}
	}
	at := target{base: base.String(), account: account}
	if t.behind[at] == nil && t.accounts[at.base] >= maxAccounts {
		at.account, at.shared = 0, true
	}
	if b = t.behind[at]; b == nil {
		t.evictLocked()
		c, err := t.newClient(base, header)
		if err != nil {
			return nil, false, err
		}
		b, fresh = &behind{client: c}, true
		t.behind[at] = b
		if !at.shared {
			t.accounts[at.base]++
		}
	}
	b.used = time.Now()
	b.held++
	return b, fresh, nil
}

// release undoes the hold of clientOf. A call in flight holds the client as well.
func (t *Transport) release(b *behind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.held--
}

// evictLocked makes room for a further target, if need be. It closes the client that
// has been idle for longest.
func (t *Transport) evictLocked() {
	if len(t.behind) < maxTargets {
		return
	}
	var oldest target
	for at, b := range t.behind {
		if b.held > 0 || b.client.eps[0].calls.Load() > 0 {
			continue
		}
		if o := t.behind[oldest]; o == nil || b.used.Before(o.used) {
			oldest = at
		}
	}
	b := t.behind[oldest]
	if b == nil {
		return
	}
	delete(t.behind, oldest)
	if !oldest.shared {
		if t.accounts[oldest.base]--; t.accounts[oldest.base] == 0 {
			delete(t.accounts, oldest.base)
		}
	}
	t.evicted.Go(func() { _ = b.client.Close() }) // which may wait for a probe
}
