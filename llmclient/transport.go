package llmclient

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"sync"
)

// A Transport is an [http.RoundTripper] to put under any SDK that takes an
// *http.Client. It is the engine of [Client.Chat] with another API:
//
//   - The answer of a chat completion is held back until the model's first
//     output. Hangs, refusals, and answers that are empty or broken from the
//     start are retried before the SDK sees anything.
//   - From then on the clocks run while the SDK reads the body. If the answer
//     breaks off, goes silent, or ends without a finish reason, Read returns an
//     error, so that the SDK cannot take it for a clean end.
//   - A plain JSON answer is read whole and checked first.
//   - Anthropic's Messages are decoded only as far as needed to know whether an
//     answer is whole. Requests to other paths pass with clocks and retries, and
//     their answers are not looked into. Neither is what an SDK compresses for
//     itself.
//   - Pings are not handed on to the SDK.
//
// When all attempts have failed, RoundTrip returns the last response with the header
// X-Should-Retry: false, and an error only if there was no response. An error inside
// a 200 becomes a response with the status that it stands for. Turn off the SDK's
// own retries (MaxRetries 0 or the like), since retries should have one owner. If
// the SDK retries nevertheless, an event says so.
//
// A request with an Upgrade header goes straight to the http.RoundTripper below,
// past every clock, retry, breaker and pacer.
//
// Each base URL and account has a breaker, a pacer, a retry budget and a memory of
// its own. The account is told by the headers and parameters that providers
// document for it (Authorization, X-Api-Key, OpenAI-Organization and the like).
// Beyond 64 accounts of one base URL all further ones share one set, since tokens
// that change all the time would otherwise have none that lasts.
//
// A Transport is safe for concurrent use. Close it to end what is under way.
type Transport struct {
	cfg  Config
	seed maphash.Seed

	mu       sync.Mutex
	behind   map[target]*behind
	accounts map[string]int     // how many of a base URL are among them
	givenUp  map[uint64]givenUp // by sameAgain's hash
	closed   bool
	evicted  sync.WaitGroup // clients that are being closed
}

// NewTransport returns a Transport, or an error that names the bad field. BaseURL,
// APIKey, Model, Header and Endpoints of cfg must be empty, since the SDK sets them.
func NewTransport(cfg Config) (*Transport, error) {
	if cfg.BaseURL != "" || cfg.APIKey != "" || cfg.Model != "" || len(cfg.Header) > 0 || len(cfg.Endpoints) > 0 {
		return nil, errors.New("llmclient: BaseURL, APIKey, Model, Header or Endpoints is set, but under an SDK they are the SDK's to set")
	}
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("llmclient: %w", err)
	}
	t := &Transport{
		cfg: cfg, seed: maphash.MakeSeed(),
		behind: make(map[target]*behind), accounts: make(map[string]int), givenUp: make(map[uint64]givenUp),
	}
	// This finds other errors now and not at the first request.
	c, err := t.newClient(&url.URL{Scheme: "http", Host: "localhost"}, nil)
	if err != nil {
		return nil, err
	}
	return t, c.Close()
}

// newClient returns a client for an SDK's requests to base.
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
// account that it has seen, for [Dump] and their breakers' and pacers' state.
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
// waits for them, for 2 s at most, however many clients there are. Its error
// names the endpoints whose requests had not ended by then. Further requests
// fail.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	clients := t.Clients()
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { errs[i] = c.Close() })
	}
	wg.Wait()
	t.evicted.Wait() // each is bounded likewise, and began before
	return errors.Join(errs...)
}

const chatPath = "/chat/completions"

// RoundTrip makes the request as described at [Transport].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		closeBody(req)
		return nil, &Error{Kind: ErrRequest, text: "the request has no http or https URL"}
	}
	b, err := t.client(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	defer t.release(b)
	c := b.client
	if req.Header.Get("Upgrade") != "" {
		return c.eps[0].wire.base().RoundTrip(req) // the connection leaves HTTP
	}
	p, body, err := newPassthrough(req)
	if err != nil {
		return nil, c.refuse(err, nil)
	}
	cl := newCall(c, req.Context())
	cl.pass(p, body)
	var key uint64
	if !p.unread() {
		key = t.sameAgain(c, p, body)
	}
	if n := req.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" {
		ev := cl.event(EventRetriedAbove)
		ev.Text = "the SDK above retries by itself; set its retries to 0, so that one owner decides"
		c.notify(ev)
		if err := t.recall(key); err != nil && !p.unread() {
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
	if e := (*Error)(nil); !p.unread() && errors.As(err, &e) && e.Kind == ErrTimeout && cl.last == nil {
		t.remember(key, err)
	}
	if cl.last != nil && req.Context().Err() == nil && !errors.Is(err, ErrClosed) {
		return cl.last.response(req, err), nil
	}
	return nil, err
}

// pass makes the call one that passes a request on.
func (cl *call) pass(p *passthrough, body []byte) {
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
