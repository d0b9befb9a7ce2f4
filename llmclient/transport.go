package llmclient

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
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
// own. A Transport is safe for concurrent use. Close it to end what is under
// way.
type Transport struct {
	cfg  Config
	seed maphash.Seed

	mu      sync.Mutex
	behind  map[target]*Client
	givenUp map[uint64]givenUp // by the request's content
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

// maxTargets bounds how many endpoints a Transport remembers.
const maxTargets = 1024

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
	t := &Transport{cfg: cfg, seed: maphash.MakeSeed(), behind: make(map[target]*Client), givenUp: make(map[uint64]givenUp)}
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
	for _, c := range t.behind {
		list = append(list, c)
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
	var h maphash.Hash
	h.SetSeed(t.seed)
	header := make(http.Header) // for probes, and for what must not be shown
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
		_, _ = h.WriteString(req.Header.Get(name))
		_ = h.WriteByte(0)
		if v := req.Header.Values(name); len(v) > 0 {
			header[name] = v
		}
	}
	key := target{base.String(), h.Sum64()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, &Error{Kind: ErrClosed, Endpoint: redacted(&base), text: "the transport is closed"}
	}
	if c := t.behind[key]; c != nil {
		return c, nil
	}
	if len(t.behind) >= maxTargets {
		return nil, &Error{Kind: ErrRequest, Endpoint: redacted(&base), text: fmt.Sprintf("the transport has seen %d endpoints and keys, which is too many for one", maxTargets)}
	}
	c, err := t.newClient(&base, header)
	if err != nil {
		return nil, err
	}
	t.behind[key] = c
	return c, nil
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
		key = maphash.Bytes(t.seed, append([]byte(p.method+" "+p.url.String()+"\n"), body...))
	}
	if n := req.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" {
		ev := cl.event(EventRetriedAbove)
		ev.Text = "the SDK above retries by itself; set its retries to 0, so that one owner decides"
		c.notify(ev)
		if err := t.recall(key); err != nil {
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
		return a.response(req), nil
	}
	if p.once {
		closeBody(req) // it may not have come to sending it
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Kind == ErrTimeout && cl.last == nil {
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
	cl.at.load = load{promptBytes: len(body), maxTokens: p.maxTokens, tools: p.tools, reasoning: p.reasoning}
	cl.at.speaks.plain = !p.stream
	if p.once {
		cl.retry.cfg.Attempts, cl.at.renewed = 1, true
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
