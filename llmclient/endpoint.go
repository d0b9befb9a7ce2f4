package llmclient

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/pacer"
)

// An endpoint is one server, as its callers share it: its pacer, breaker and retry
// budget, and what has been learned about its dialect.
type endpoint struct {
	name    string // for people: no credentials, no query
	base    string // its URL, likewise
	host    string
	model   string // of requests that name none
	order   int
	weight  float64
	passes  []string // codes of refusals that pass when asked again
	secrets secrets
	pacer   *pacer.Pacer
	breaker *breaker.Breaker
	wire    wire
	tel     telemetry

	encoded  *encoded
	evidence *evidence
	budget   budget
	excluded exclusions

	flows      atomic.Bool  // some stream has given output
	refutes    atomic.Bool  // it has sent a finish reason and then more output
	lastOutput atomic.Int64 // nanoseconds; of any call

	calls atomic.Int64 // that are at it or wait for it

	// It speaks HTTP/2: a request that failed on an old connection proves nothing
	// about the connection.
	multiplexed atomic.Bool

	// A clock ran out on an old connection that brought nothing.
	doubt  atomic.Bool
	asleep asleep // likewise, all of them

	mu      sync.Mutex
	worked  bool                 // some call has succeeded
	dialect dialect              // known to help
	told    dialect              // announced, known to help or not
	streams streams              // what has come of them
	reasons map[string]bool      // models that were seen to reason
	forms   map[string]chat.Form // in which models take their messages, where that is not the usual one
}

// newEndpoint returns the endpoint that e describes.
func newEndpoint(c *Client, e place) (ep *endpoint, err error) {
	cfg, u := &c.cfg, e.url
	ep = &endpoint{
		name: e.Name, base: e.base, host: u.Host, model: e.Model, order: e.Order, weight: max(1, float64(e.Weight)),
		secrets: seal(e.Endpoint, u), encoded: newEncoded(),
	}
	pc, bc := cfg.Pacer, cfg.Breaker
	if e.Pacer != nil {
		pc = *e.Pacer
	}
	if e.Breaker != nil {
		bc = *e.Breaker
	}
	if pc.Rand == nil {
		pc.Rand = c.random
	}
	if ep.pacer, err = pacer.New(pc); err != nil {
		return nil, fmt.Errorf("Pacer: %w", err)
	}
	if bc.Name == "" {
		bc.Name = ep.name
	}
	told := bc.OnChange
	bc.OnChange = func(ch breaker.Change) {
		c.changes.tell()
		c.notify(Event{Kind: EventBreaker, Endpoint: ep.name, Breaker: ch, Text: ch.Why})
		if told != nil {
			_, _ = contain(func() (any, error) { told(ch); return nil, nil })
		}
	}
	if ep.breaker, err = breaker.New(bc); err != nil {
		return nil, fmt.Errorf("Breaker: %w", err)
	}
	if ep.passes = e.RetryCodes; ep.passes == nil {
		ep.passes = cfg.Retry.Codes
	}
	ep.wire = newWire(cfg.HTTPClient, u, cfg.Clocks.bound(iConnect, load{}).limit, cfg.Clocks.bound(iSend, load{}).limit)
	ep.evidence = newEvidence(c, ep)
	if ep.tel, err = newTelemetry(cfg, u); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return ep, nil
}

// warn sends an event if the key of the endpoint is sent in the clear. The caller
// holds no lock, since OnEvent may call the client.
func (ep *endpoint) warn(c *Client, u *url.URL) {
	if ep.secrets.keyed && u.Scheme == "http" && !loopback(u.Hostname()) {
		c.notify(Event{
			Kind: EventInsecure, Endpoint: ep.name,
			Text: "the key goes over plain http to " + u.Host + ", where anybody on the way can read it; use https",
		})
	}
}

// A dialect says which parts of the API an endpoint does not have.
type dialect struct {
	plain   bool // it does not stream
	noUsage bool // it does not know stream_options
	ends    bool // it has been seen to send a finish reason
}

// finishes notes that the endpoint has sent a finish reason.
func (e *endpoint) finishes() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dialect.ends = true
}

// ends reports whether the endpoint has been seen to send a finish reason.
func (e *endpoint) ends() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dialect.ends
}

// succeeded notes that a call in dialect d has its answer: later calls leave out
// the same parts of the API. took is how long the answer took if a plain one was
// asked for because of a doubt, and otherwise 0.
func (e *endpoint) succeeded(d dialect, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.worked = true
	if took > 0 {
		e.streams.replaced(time.Now(), took)
	} else {
		e.dialect.plain = e.dialect.plain || d.plain
	}
	e.dialect.noUsage = e.dialect.noUsage || d.noUsage
}

// firstHeard reports whether dialect d has not been announced yet, and notes that it has been.
func (e *endpoint) firstHeard(d dialect) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := (e.told.plain || !d.plain) && (e.told.noUsage || !d.noUsage)
	e.told.plain = e.told.plain || d.plain
	e.told.noUsage = e.told.noUsage || d.noUsage
	return !known
}

func (e *endpoint) works() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.worked
}

// serves reports whether the endpoint has given output of late, to any call.
func (e *endpoint) serves(now time.Time) bool {
	return now.Sub(time.Unix(0, e.lastOutput.Load())) < servesOthers
}

func (e *endpoint) reasoning(model string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reasons[model]
}

func (e *endpoint) sawReasoning(model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reasons == nil {
		e.reasons = make(map[string]bool)
	}
	if len(e.reasons) < 1000 { // names come from callers
		e.reasons[model] = true
	}
}

// streamWord is a word for streaming that stands alone: neither "upstream" nor a
// part of a tool's name.
var streamWord = regexp.MustCompile(`\bstream(ed|ing)?\b`)

// adapted looks at a refusal of a request that was sent in dialect d. If the
// endpoint refused streaming or its options, adapted returns the dialect in which
// to ask again, and a text that explains it.
func adapted(d dialect, status int, said *chat.ServerError) (dialect, string) {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return d, ""
	}
	if d.plain || said == nil {
		return d, ""
	}
	words := strings.ToLower(said.Param + " " + said.Message)
	switch {
	case !d.noUsage && (strings.Contains(words, "stream_options") || strings.Contains(words, "include_usage")):
		d.noUsage = true
		return d, "it refuses stream_options: no usage is asked for in streams"
	case said.Param == "stream", streamWord.MatchString(words) && refuses(words):
		d.plain = true
		return d, "it refuses to stream: answers are asked for whole"
	}
	return d, ""
}

// refuses reports whether a message says that something is not supported.
func refuses(words string) bool {
	for _, s := range []string{"not support", "unsupported", "not allowed", "not available", "not implemented",
		"disabled", "not permitted", "must be false", "does not stream", "unrecognized", "extra inputs", "unknown"} {
		if strings.Contains(words, s) {
			return true
		}
	}
	return false
}
