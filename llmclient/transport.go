package llmclient

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Transport is an [http.RoundTripper] to put under any SDK that takes an
// *http.Client. It is the engine of [Client.Chat] behind another face:
//
//   - The answer of a chat completion is held back until the model's first
//     output. Hangs, refusals, and answers that are empty or broken from the
//     start are retried before the SDK sees anything.
//   - From then on the body carries the clocks. An answer that breaks off, goes
//     silent, or ends without saying that it is finished is an error of Read, so
//     that SDKs which take a clean end for success no longer do.
//   - A plain JSON answer is read whole and checked first.
//   - Anthropic's Messages are followed as far as it takes to know whether an
//     answer is whole. Requests to other paths pass with clocks and retries,
//     unread. What an SDK compresses for itself is not read either.
//   - Pings are kept from the SDK: they have done their work.
//
// When the tries are used up, the last response comes with X-Should-Retry:
// false, and a Go error only where there was no response. An error inside a 200
// comes as a response with the status that it stands for. Turn off the SDK's own
// retries (MaxRetries 0 or the like): there should be one owner of them. A
// Transport that sees an SDK retry says so in an event.
//
// Each base URL and key has a breaker, a pacer, a budget and a memory of its
// own, as long as a base URL is not asked with more than 64 keys: those seen later
// share theirs, since tokens that change all the time would have none. A Transport is safe for concurrent use. Close it to end what is under
// way.
type Transport struct {
	cfg  Config
	seed maphash.Seed

	mu      sync.Mutex
	behind  map[target]*behind
	keys    map[string]int     // how many keys of a base URL have been seen
	givenUp map[uint64]givenUp // by the request's content, and who asks
	closed  bool
}

// givenUp is how a call ended without a response. An SDK that takes that for a
// passing fault, and says so in its header, is told the same again at once: it
// would wait as long as before, as many times as it retries.
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

// sameAgain returns what a request is known by when an SDK sends it again: what
// it says, and who asks whom.
func (t *Transport) sameAgain(c *Client, p *passed, body []byte) uint64 {
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

// A target is what shares guards: an endpoint, and a key by its hash.
type target struct {
	base string
	key  uint64
}

// behind is a client, and when it was last asked for.
type behind struct {
	client *Client
	used   time.Time
}

const (
	// maxTargets bounds how many endpoints and keys a Transport remembers.
	maxTargets = 1024

	// maxKeys is how many keys of one base URL have guards of their own. Those
	// seen later share theirs.
	maxKeys = 64
)

// NewTransport returns a Transport, or an error that names the bad field. Of
// cfg it takes everything but BaseURL, APIKey, Model, Header and Endpoints, which
// are the SDK's and must be empty.
func NewTransport(cfg Config) (*Transport, error) {
	if cfg.BaseURL != "" || cfg.APIKey != "" || cfg.Model != "" || len(cfg.Header) > 0 || len(cfg.Endpoints) > 0 {
		return nil, errors.New("llmclient: BaseURL, APIKey, Model, Header or Endpoints is set, but under an SDK they are the SDK's to set")
	}
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("llmclient: %w", err)
	}
	t := &Transport{cfg: cfg, seed: maphash.MakeSeed(), behind: make(map[target]*behind), keys: make(map[string]int), givenUp: make(map[uint64]givenUp)}
	// What else is wrong is found now and not at the first request.
	c, err := t.newClient(&url.URL{Scheme: "http", Host: "localhost"}, nil)
	if err != nil {
		return nil, err
	}
	return t, c.Close()
}

// newClient returns a client for what an SDK asks at base.
func (t *Transport) newClient(base *url.URL, header http.Header) (*Client, error) {
	c := newClient(t.cfg)
	name := redacted(base)
	ep, err := newEndpoint(c, place{Endpoint: Endpoint{Name: name, Header: header}, url: base, base: name})
	if err != nil {
		return nil, fmt.Errorf("llmclient: %w", err)
	}
	ep.wire.client.Jar, ep.wire.client.Timeout = nil, 0
	ep.wire.direct = ep.wire.trusted
	c.eps = []*endpoint{ep}
	return c, nil
}

// InFlight lists the requests under way, to all endpoints.
func (t *Transport) InFlight() []InFlight {
	var list []InFlight
	for _, c := range t.Clients() {
		list = append(list, c.InFlight()...)
	}
	return list
}

// Clients returns the clients behind the Transport, one for each base URL and
// key that it has seen, for [Dump] and their breakers' and pacers' state.
func (t *Transport) Clients() []*Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*Client, 0, len(t.behind))
	for _, b := range t.behind {
		list = append(list, b.client)
	}
	return list
}

// CloseIdleConnections closes connections that carry no request.
func (t *Transport) CloseIdleConnections() {
	for _, c := range t.Clients() {
		c.eps[0].wire.client.CloseIdleConnections()
	}
}

// Close ends the requests under way with errors that match [ErrClosed] and
// waits for them. Further requests fail.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	for _, c := range t.Clients() {
		_ = c.Close()
	}
	return nil
}

// client returns the client behind a request.
func (t *Transport) client(req *http.Request) (*Client, error) {
	base := *req.URL
	base.RawQuery, base.Fragment, base.User = "", "", nil
	base.Path, _ = strings.CutSuffix(base.Path, chatPath)
	if base.Path == req.URL.Path {
		base.Path = ""
	}
	header, key := t.credentials(req)
	c, fresh, err := t.behindOf(&base, key, header)
	if fresh {
		c.eps[0].warn(c, &base)
	}
	return c, err
}

// credentials returns the headers of a request that are secret, for probes, and
// a hash of all in it that is.
func (t *Transport) credentials(req *http.Request) (http.Header, uint64) {
	header := make(http.Header)
	for name, values := range req.Header {
		if holdsSecret(name) {
			header[name] = values
		}
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	write := func(lists map[string][]string) {
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			if !holdsSecret(name) {
				continue
			}
			_, _ = h.WriteString(name)
			for _, v := range lists[name] {
				_ = h.WriteByte(0)
				_, _ = h.WriteString(v)
			}
		}
	}
	write(header)
	write(req.URL.Query())
	return header, h.Sum64()
}

// behindOf returns the client for a base URL and key, and whether it is new.
func (t *Transport) behindOf(base *url.URL, key uint64, header http.Header) (c *Client, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, &Error{Kind: ErrClosed, Endpoint: redacted(base), text: "the transport is closed"}
	}
	name := base.String()
	if t.keys[name] >= maxKeys {
		// Tokens that change with every request, or every hour: guards that each
		// has for itself would guard nothing.
		key = 0
	}
	at := target{name, key}
	b := t.behind[at]
	if b == nil {
		t.evict()
		if c, err = t.newClient(base, header); err != nil {
			return nil, false, err
		}
		b, fresh = &behind{client: c}, true
		t.behind[at] = b
		t.keys[name]++
	}
	b.used = time.Now()
	return b.client, fresh, nil
}

// evict makes room for a further target, if need be: of those that carry no
// call the one that has been idle for longest goes.
func (t *Transport) evict() {
	if len(t.behind) < maxTargets {
		return
	}
	var oldest target
	for at, b := range t.behind {
		if b.client.eps[0].calls.Load() > 0 {
			continue
		}
		if o := t.behind[oldest]; o == nil || b.used.Before(o.used) {
			oldest = at
		}
	}
	if b := t.behind[oldest]; b != nil {
		delete(t.behind, oldest)
		b.client.eps[0].wire.close()
	}
}

const chatPath = "/chat/completions"

// RoundTrip makes the request as described at [Transport].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		closeBody(req)
		return nil, &Error{Kind: ErrRequest, text: "the request has no http or https URL"}
	}
	c, err := t.client(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if req.Header.Get("Upgrade") != "" {
		return c.eps[0].wire.base().RoundTrip(req) // what follows is no answer
	}
	p, body, err := newPassed(req)
	if err != nil {
		return nil, c.refuse(err, nil)
	}
	cl := newCall(c, req.Context())
	cl.pass(p, body)
	var key uint64
	if !p.once {
		key = t.sameAgain(c, p, body)
	}
	if n := req.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" {
		ev := cl.event(EventRetriedAbove)
		ev.Text = "the SDK above retries by itself; set its retries to 0, so that one owner decides"
		c.notify(ev)
		if err := t.recall(key); err != nil && !p.once {
			cl.drop()
			return nil, err
		}
	}
	if err := c.register(cl); err != nil {
		closeBody(req)
		return nil, err
	}
	var a *attempt
	defer func() {
		if a == nil {
			cl.abandon()
		}
	}()
	if a, err = cl.run(firstOutput); err == nil {
		t.forget(key)
		return a.response(req), nil
	}
	if p.once {
		closeBody(req) // it may not have come to sending it
	}
	if e := (*Error)(nil); !p.once && errors.As(err, &e) && e.Kind == ErrTimeout && cl.last == nil {
		t.remember(key, err)
	}
	if cl.last != nil && req.Context().Err() == nil && !errors.Is(err, ErrClosed) {
		return cl.last.response(req, err), nil
	}
	return nil, err
}

// pass makes the call one that passes a request on.
func (cl *call) pass(p *passed, body []byte) {
	cl.passed = p
	cl.head(cl.client.eps[0])
	cl.at.model = p.model
	cl.at.body.add(body)
	cl.at.size = len(body)
	cl.at.redact = redactor(secretsIn(p.header, p.url))
	cl.at.load = load{promptBytes: len(body), maxTokens: p.maxTokens, tools: p.tools, reasoning: p.reasoning}
	cl.at.speaks.plain = !p.stream
	if p.once {
		once := *cl.retry.cfg
		once.Attempts = 1
		cl.retry.cfg, cl.at.renewed = &once, true
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
