package health

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/neverhang/neverhang/llmclient"
)

// A Client is what a Monitor watches: an [llmclient.Client], an
// [llmclient.Transport], or another type that lists its calls in flight. From the
// first two the Monitor also reads the state of breakers and pacers, tells them
// whether their servers answer, and pays for its questions out of their retry
// budgets.
type Client interface {
	InFlight() []llmclient.InFlight
}

// An endpoints is a client that lists its endpoints.
type endpoints interface {
	Endpoints() []llmclient.EndpointStatus
	MarkAlive(endpoint string)
}

// A lender is a client whose retry budget pays for probes as well.
type lender interface {
	AllowProbe(endpoint string) bool
}

// An ailer is a client whose breaker can be told to stay open for longer.
type ailer interface {
	MarkAiling(endpoint string)
}

// clientsOf returns c, or the clients inside it, if they list their endpoints.
func clientsOf(c Client) []endpoints {
	if e, ok := c.(endpoints); ok {
		return []endpoints{e}
	}
	var list []endpoints
	if many, ok := c.(interface{ Clients() []*llmclient.Client }); ok {
		for _, one := range many.Clients() {
			list = append(list, one)
		}
	}
	return list
}

// A watch is a watched client, and how many calls of Watch have not been undone.
type watch struct {
	client Client
	times  int
}

// Attach wires the Monitor into the configuration of a client. Call it once for
// each Config, before the client is made of it, and pass the client to
// [Monitor.Watch]. Attach sets Adviser and Explain where they are nil. Each event
// goes to the Monitor first and then to the OnEvent that was there.
func (m *Monitor) Attach(cfg *llmclient.Config) {
	if cfg == nil {
		return
	}
	if cfg.Adviser == nil {
		cfg.Adviser = m
	}
	if cfg.Explain == nil {
		cfg.Explain = m.Explain
	}
	next := cfg.OnEvent
	if next == nil {
		cfg.OnEvent = m.Note
		return
	}
	cfg.OnEvent = func(e llmclient.Event) {
		m.Note(e)
		next(e)
	}
}

// Watch adds a client whose calls go to the service. The Monitor keeps the client
// until unwatch is called. A client that is watched twice counts once, and stays
// until both are undone. Calling the same unwatch again does nothing.
func (m *Monitor) Watch(c Client) (unwatch func()) {
	if c == nil {
		return func() {}
	}
	m.mu.Lock()
	w := m.watchLocked(c)
	w.times++
	m.mu.Unlock()
	m.wake()
	done := false
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if done {
			return
		}
		done = true
		if w.times--; w.times == 0 {
			m.clients = slices.DeleteFunc(m.clients, func(o *watch) bool { return o == w })
		}
	}
}

// watchLocked finds the client among those that are watched, or adds it.
func (m *Monitor) watchLocked(c Client) *watch {
	if reflect.ValueOf(c).Comparable() { // otherwise == would panic
		for _, w := range m.clients {
			if reflect.ValueOf(w.client).Comparable() && w.client == c {
				return w
			}
		}
	}
	w := &watch{client: c}
	m.clients = append(m.clients, w)
	return w
}

func (m *Monitor) clientsLocked() []Client {
	list := make([]Client, len(m.clients))
	for i, w := range m.clients {
		list[i] = w.client
	}
	return list
}

// inFlight returns the calls of a client.
func (m *Monitor) inFlight(c Client) (calls []llmclient.InFlight) {
	m.contain("Client", func() { calls = c.InFlight() })
	return calls
}

// eachEndpoint calls f with each endpoint of the watched clients that leads to the
// service. No lock is held.
func (m *Monitor) eachEndpoint(f func(c endpoints, ep llmclient.EndpointStatus)) {
	m.mu.Lock()
	clients := m.clientsLocked()
	m.mu.Unlock()
	for _, c := range clients {
		m.contain("Client", func() {
			for _, one := range clientsOf(c) {
				for _, ep := range one.Endpoints() {
					if m.concerns(ep.Name) {
						f(one, ep)
					}
				}
			}
		})
	}
}

// concerns reports whether an endpoint of a client leads to the service.
func (m *Monitor) concerns(endpoint string) bool {
	return m.cfg.Endpoint == "" || m.cfg.Endpoint == endpoint
}

// contain runs a function of the user. If it panics, the Logger gets the panic and
// its stack.
func (m *Monitor) contain(name string, f func()) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		defer func() { _ = recover() }() // the log's handler may panic as well
		m.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "health: "+name+" panicked",
			slog.String("err", fmt.Sprint(r)), slog.String("stack", string(debug.Stack())))
	}()
	f()
}
