package llmclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// A Client calls a model at one endpoint, or at the best of several. Make one
// with [New]. It is safe for concurrent use. One client should serve all callers
// of its endpoints, since they share breakers, pacers and evidence through it.
type Client struct {
	cfg      Config
	eps      []*endpoint // at least one
	prefixes *prefixes
	changes  broadcast

	lastID atomic.Uint64
	calls  callTable

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	closing atomic.Bool

	mu     sync.Mutex
	closed bool
	ended  sync.WaitGroup // calls, and goroutines of the client's own
}

// New returns a client, or an error that names the bad field of cfg. It makes
// no request.
func New(cfg Config) (*Client, error) {
	places, err := cfg.endpoints()
	if err == nil {
		err = cfg.fill()
	}
	if err != nil {
		return nil, fmt.Errorf("llmclient: %w", err)
	}
	c := newClient(cfg)
	for _, p := range places {
		ep, err := newEndpoint(c, p)
		if err != nil {
			return nil, fmt.Errorf("llmclient: %s%w", p.field, err)
		}
		c.eps = append(c.eps, ep)
	}
	for i, p := range places {
		c.eps[i].warn(c, p.url)
	}
	return c, nil
}

// newClient returns a client that has no endpoint yet. cfg has been filled.
func newClient(cfg Config) *Client {
	cfg.BaseURL, cfg.APIKey, cfg.Header, cfg.Endpoints = "", "", nil, nil // only endpoints keep secrets
	c := &Client{cfg: cfg, prefixes: newPrefixes()}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// random asks Config.Rand. The number is in [0, 1), whatever Rand does.
func (c *Client) random() float64 {
	x, err := contain(func() (float64, error) { return c.cfg.Rand(), nil })
	if err != nil || !(x >= 0 && x < 1) { // nor a NaN
		return rand.Float64()
	}
	return x
}

// Chat asks the model for the next message and returns it whole. It streams on
// the wire, so that a slow answer can be told from none. A nil error means that
// the answer was finished and parsed; every other error is an *[Error].
//
// The answer may still be useless: see [chat.Response.Empty] and its finish
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
	cl.succeed(a)
	return a.resp, nil
}

// Stream asks the model for the next message and returns it piece by piece.
// The call begins when the stream is first read. What fails before the first
// output is retried unseen; later failures are reported, with the part that had
// come.
//
// The stream must be read to its end, left through its iterator, or closed;
// or ctx must end. See [Stream].
func (c *Client) Stream(ctx context.Context, req *chat.Request) *Stream {
	return &Stream{client: c, ctx: ctx, req: req}
}

// closeWait bounds how long Close waits for the calls that it has ended.
const closeWait = 2 * time.Second

// Close ends the calls in flight with an error that matches [ErrClosed],
// waits for them, and closes idle connections of the client's own transport.
// Further calls fail. It waits for 2 s at most, and returns an error if that was
// not enough. That happens if OnEvent calls it: it then waits for its own call.
func (c *Client) Close() error {
	c.closing.Store(true)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, cl := range c.calls.close() {
		cl.stop()
	}
	c.stop()
	ended := make(chan struct{})
	go func() {
		c.ended.Wait()
		close(ended)
	}()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	defer func() {
		for _, ep := range c.eps {
			ep.wire.close()
		}
	}()
	select {
	case <-ended:
		return nil
	case <-t.C:
		names := make([]string, len(c.eps))
		for i, ep := range c.eps {
			names[i] = ep.name
		}
		return fmt.Errorf("llmclient: calls to %s were still ending %v after Close", strings.Join(names, ", "), closeWait)
	}
}

// Pacer returns the state of the endpoint's pacer; with several endpoints, of the
// first one's. [Client.Endpoints] returns all.
func (c *Client) Pacer() pacer.Stats { return c.eps[0].pacer.Stats() }

// Breaker returns the state of the endpoint's circuit breaker; with several
// endpoints, of the first one's. [Client.Endpoints] returns all.
func (c *Client) Breaker() breaker.Stats { return c.eps[0].breaker.Stats() }

// An EndpointStatus is the state of an endpoint.
type EndpointStatus struct {
	Name    string
	Calls   int  // at it, or waiting for it
	Dead    bool // it answers nothing, not even probes
	Breaker breaker.Stats
	Pacer   pacer.Stats
}

// Endpoints returns the state of the client's endpoints, in the order of the
// configuration.
func (c *Client) Endpoints() []EndpointStatus {
	list := make([]EndpointStatus, len(c.eps))
	for i, ep := range c.eps {
		list[i] = EndpointStatus{
			Name: ep.name, Calls: int(ep.calls.Load()), Dead: ep.evidence.isDead.Load(),
			Breaker: ep.breaker.Stats(), Pacer: ep.pacer.Stats(),
		}
	}
	return list
}

// begin registers a call, or refuses it.
func (c *Client) begin(ctx context.Context, req *chat.Request) (*call, error) {
	switch {
	case req == nil:
		return nil, c.refuse(errors.New("the request is nil"), nil)
	case ctx == nil:
		return nil, c.refuse(errors.New("the context is nil"), nil)
	}
	cl := newCall(c, ctx)
	cl.take(req)
	if err := cl.encode(); err != nil {
		cl.drop()
		return nil, c.refuse(err, cl.at)
	}
	if err := c.register(cl); err != nil {
		return nil, err
	}
	return cl, nil
}

// register adds a call to those in flight.
func (c *Client) register(cl *call) error {
	if !c.calls.put(cl, &c.ended) {
		cl.drop()
		return &Error{Kind: ErrClosed, Endpoint: cl.at.ep.name, Model: cl.at.model, text: "the client is closed"}
	}
	cl.renewIn(cl.at.ep.tel.startCall(cl))
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
	c.calls.take(cl)
	c.ended.Done()
}

// refuse returns the error of a request that cannot be sent.
func (c *Client) refuse(err error, at *route) *Error {
	e := &Error{Kind: ErrRequest, text: "the request cannot be sent: " + err.Error(), causes: []error{err}}
	switch {
	case at != nil:
		e.Endpoint, e.Model = at.ep.name, at.model
	case len(c.eps) == 1:
		e.Endpoint = c.eps[0].name
	}
	return e
}
