package llmclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// A Client calls a model at one endpoint. Make one with [New]. It is safe for
// concurrent use, and one client should serve all callers of its endpoint: the
// breaker, the pacer and what is known about the endpoint are shared through it.
type Client struct {
	cfg  Config
	ep   *endpoint
	wire wire
	tel  telemetry

	lastID atomic.Uint64

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu     sync.Mutex
	calls  map[*call]struct{} // in flight
	closed bool
	ended  sync.WaitGroup // calls, and goroutines of the client's own
}

// New returns a client, or an error that names the bad field of cfg. It makes
// no request.
func New(cfg Config) (*Client, error) {
	url, name, err := parseBaseURL(cfg.BaseURL)
	if err == nil {
		err = cfg.fill()
	}
	if err != nil {
		return nil, fmt.Errorf("llmclient: %w", err)
	}
	return newClient(cfg, url, name)
}

// newClient returns a client of the endpoint at u. cfg has been filled.
func newClient(cfg Config, url *url.URL, name string) (c *Client, err error) {
	c = &Client{calls: make(map[*call]struct{})}
	c.ep = &endpoint{host: url.Host, name: name, secrets: seal(&cfg, url, name), encoded: newEncoded()}
	c.cfg = cfg
	c.ctx, c.stop = context.WithCancel(context.Background())
	if c.ep.pacer, err = pacer.New(cfg.Pacer); err != nil {
		return nil, fmt.Errorf("llmclient: Pacer: %w", err)
	}
	bc := cfg.Breaker
	if bc.Name == "" {
		bc.Name = name
	}
	told := bc.OnChange
	bc.OnChange = func(ch breaker.Change) {
		c.notify(Event{Kind: EventBreaker, Breaker: ch, Text: ch.Why})
		if told != nil {
			told(ch)
		}
	}
	if c.ep.breaker, err = breaker.New(bc); err != nil {
		return nil, fmt.Errorf("llmclient: Breaker: %w", err)
	}
	c.wire = newWire(cfg.HTTPClient, url, cfg.Clocks.bounds(load{})[iConnect].limit)
	c.ep.evidence = newEvidence(c)
	if c.tel, err = newTelemetry(&c.cfg, url); err != nil {
		return nil, fmt.Errorf("llmclient: metrics: %w", err)
	}
	if c.ep.secrets.keyed && url.Scheme == "http" && !loopback(url.Hostname()) {
		c.notify(Event{Kind: EventInsecure, Text: "the key goes over plain http to " + url.Host + ", where anybody on the way can read it; use https"})
	}
	return c, nil
}

// Chat asks the model for the next message and returns it whole. It streams on
// the wire, so that a slow answer can be told from none. A nil error means
// that the answer was finished and parsed; any other is an *[Error].
//
// The answer may still be of no use: see [chat.Response.Empty] and its finish
// reason. Messages and tools of req must not be changed until Chat returns.
func (c *Client) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	cl, err := c.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	defer cl.abandon() // does nothing unless something panics
	a, err := cl.run(wholeAnswer)
	if err != nil {
		return nil, err
	}
	resp := a.asm.Response()
	cl.succeed(a)
	return resp, nil
}

// Stream asks the model for the next message and returns it piece by piece.
// The call begins when the stream is first read. What fails before the first
// output is retried unseen; later failures are reported, with what had come.
//
// The stream must be read to its end, left through its iterator, or closed;
// or ctx must end. See [Stream].
func (c *Client) Stream(ctx context.Context, req *chat.Request) *Stream {
	return &Stream{client: c, ctx: ctx, req: req}
}

// closeWait bounds how long Close waits for what it has ended.
const closeWait = 2 * time.Second

// Close ends the calls in flight with an error that matches [ErrClosed],
// waits for them, and closes idle connections of the client's own transport.
// Further calls fail. It waits for 2 s at most, and says so if that was not
// enough: an OnEvent that calls it waits for its own call.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	for cl := range c.calls {
		cl.cancel(errClosed)
	}
	c.mu.Unlock()
	c.stop()
	ended := make(chan struct{})
	go func() {
		c.ended.Wait()
		close(ended)
	}()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	defer c.wire.close()
	select {
	case <-ended:
		return nil
	case <-t.C:
		return fmt.Errorf("llmclient: calls were still ending %v after Close", closeWait)
	}
}

// Pacer returns what the pacer in front of the endpoint is doing.
func (c *Client) Pacer() pacer.Stats { return c.ep.pacer.Stats() }

// Breaker returns what the endpoint's circuit breaker is doing.
func (c *Client) Breaker() breaker.Stats { return c.ep.breaker.Stats() }

// begin registers a call, or refuses it.
func (c *Client) begin(ctx context.Context, req *chat.Request) (*call, error) {
	switch {
	case req == nil:
		return nil, c.refuse(errors.New("the request is nil"), "")
	case ctx == nil:
		return nil, c.refuse(errors.New("the context is nil"), req.Model)
	}
	cl := newCall(c, ctx)
	cl.take(req)
	if err := cl.encode(); err != nil {
		cl.cancel(nil)
		return nil, c.refuse(err, cl.model)
	}
	if err := c.register(cl); err != nil {
		return nil, err
	}
	return cl, nil
}

// register takes a call among those in flight.
func (c *Client) register(cl *call) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		cl.cancel(nil)
		return &Error{Kind: ErrClosed, Endpoint: c.ep.name, Model: cl.model, text: "the client is closed"}
	}
	c.calls[cl] = struct{}{}
	c.ended.Add(1)
	c.mu.Unlock()
	cl.ctx = c.tel.startCall(cl)
	return nil
}

// goes runs f in a goroutine that Close ends and waits for. It reports false
// if the client is closed.
func (c *Client) goes(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.ended.Go(func() { f(c.ctx) })
	return true
}

func (c *Client) forget(cl *call) {
	c.mu.Lock()
	delete(c.calls, cl)
	c.mu.Unlock()
	c.ended.Done()
}

// refuse is about requests that cannot be sent.
func (c *Client) refuse(err error, model string) *Error {
	return &Error{
		Kind: ErrRequest, Endpoint: c.ep.name, Model: model,
		text: "the request cannot be sent: " + err.Error(), causes: []error{err},
	}
}
