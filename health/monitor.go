package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

const (
	// recentKept is how many endings of calls are remembered.
	recentKept = 2048

	// provenAfter is for how long a service must have recovered for its fault to
	// be forgotten.
	provenAfter = 5 * time.Minute
)

// A Monitor watches one service: it takes samples of its servers while calls are
// in flight, and judges. It is an [llmclient.Adviser]. Make one with [New], tell
// it of a client by [Monitor.Watch] and [Monitor.Note], and close it. It is safe
// for concurrent use.
type Monitor struct {
	cfg  Config
	ask  *asker
	kick chan struct{}

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	servers []*server
	clients []Client
	waiting []llmclient.InFlight // that an Adviser's question was about, and when
	asked   time.Time
	open    map[attempt]time.Time // attempts under way, by events
	tried   map[string]time.Time  // workers that routers have named, by address, and when they were asked
	recent  []Ended
	relook  bool          // the next round finds out anew what the servers are
	round   chan struct{} // closed when the round under way has ended; nil if there is none
	rounded time.Time     // when the last one ended
	verdict Verdict
	told    State
	fault   *Verdict
	proven  time.Time // since when it has recovered from that
	budget  budget
}

// New returns a Monitor, or an error that names the bad field of cfg. It asks
// nothing until a call is in flight.
func New(cfg Config) (*Monitor, error) {
	if bad := cfg.fill(); bad != "" {
		return nil, errors.New("health: " + bad)
	}
	list, err := places(cfg.Targets)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	cfg.Targets = nil
	m := &Monitor{
		cfg: cfg, ask: newAsker(cfg.HTTPClient), kick: make(chan struct{}, 1),
		open: make(map[attempt]time.Time), tried: make(map[string]time.Time), budget: budget{perMinute: cfg.PerMinute},
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	for _, p := range list {
		m.servers = append(m.servers, newServer(p, cfg.Samples))
	}
	m.wg.Go(m.run)
	return m, nil
}

// Close ends all questions, and returns when nothing runs any more. It may be
// called several times, but not from OnVerdict.
func (m *Monitor) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.wg.Wait()
	if m.cfg.HTTPClient == nil {
		m.ask.http.CloseIdleConnections()
	}
	return nil
}

// Watch adds a client whose calls go to the service.
func (m *Monitor) Watch(c Client) {
	if c == nil {
		return
	}
	m.mu.Lock()
	m.clients = append(m.clients, c)
	m.mu.Unlock()
	m.wake()
}

func (m *Monitor) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// run takes samples while calls are in flight, and one after the last.
func (m *Monitor) run() {
	for {
		select {
		case <-m.kick:
		case <-m.ctx.Done():
			return
		}
		for active := m.active(); active; {
			m.refresh(m.ctx, m.cfg.Interval/2)
			if !sleep(m.ctx, m.cfg.Interval) {
				return
			}
			if active = m.active(); !active {
				m.refresh(m.ctx, m.cfg.Interval/2)
			}
		}
	}
}

// active reports whether calls are in flight.
func (m *Monitor) active() bool {
	m.mu.Lock()
	clients, open := slices.Clone(m.clients), len(m.open)
	asked := time.Since(m.asked) < staleAfter && len(m.waiting) > 0
	m.mu.Unlock()
	if open > 0 || asked {
		return true
	}
	for _, c := range clients {
		if len(c.InFlight()) > 0 {
			return true
		}
	}
	return false
}

// refresh makes sure that there is a round of samples that is not older than
// maxAge, or returns when ctx ends. There is one round at a time.
func (m *Monitor) refresh(ctx context.Context, maxAge time.Duration) {
	m.mu.Lock()
	if m.closed || m.round == nil && !m.rounded.IsZero() && time.Since(m.rounded) < maxAge {
		m.mu.Unlock()
		return
	}
	if m.round == nil {
		done := make(chan struct{})
		m.round = done
		m.wg.Go(func() {
			defer func() {
				m.mu.Lock()
				m.round, m.rounded = nil, time.Now()
				m.mu.Unlock()
				close(done)
			}()
			m.sample()
		})
	}
	done := m.round
	m.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// view is what the client's side knows now.
func (m *Monitor) view() View {
	m.mu.Lock()
	v := View{Now: time.Now(), Fault: m.fault, Recent: slices.Clone(m.recent)}
	clients := slices.Clone(m.clients)
	if len(clients) == 0 && v.Now.Sub(m.asked) < staleAfter {
		v.Calls = slices.Clone(m.waiting)
	}
	m.mu.Unlock()
	for _, c := range clients {
		for _, f := range c.InFlight() {
			if m.concerns(f.Endpoint) {
				v.Calls = append(v.Calls, f)
			}
		}
		for _, one := range clientsOf(c) {
			for _, ep := range one.Endpoints() {
				if m.concerns(ep.Name) {
					v.Endpoints = append(v.Endpoints, ep)
				}
			}
		}
	}
	if m.cfg.Local != nil {
		_ = contained(func() { v.Local = m.cfg.Local() })
		if v.Local == nil {
			v.Local = []Activity{}
		}
	}
	return v
}

// samples are all that are kept.
func (m *Monitor) samples() []Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Sample
	for _, s := range m.servers {
		out = append(out, s.window.list...)
		for _, w := range s.inside {
			out = append(out, w.list...)
		}
	}
	return out
}

// Verdict judges by what is known now. It asks no server.
func (m *Monitor) Verdict() Verdict {
	v, _ := m.judge()
	return v
}

func (m *Monitor) judge() (Verdict, *facts) {
	f := gather(m.view(), m.samples())
	v := f.diagnose()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked(v)
	return v, f
}

// Check takes a sample of every server, unless there is a fresh one, and judges.
// It returns when ctx ends at the latest.
func (m *Monitor) Check(ctx context.Context) Verdict {
	m.refresh(ctx, time.Second)
	return m.Verdict()
}

// keepLocked remembers a verdict.
func (m *Monitor) keepLocked(v Verdict) {
	if v.At.Before(m.verdict.At) {
		return
	}
	m.verdict = v
	switch {
	case v.State.Fault():
		m.fault, m.proven = &v, time.Time{}
	case v.State != Recovered || m.fault == nil:
	case m.proven.IsZero():
		m.proven = v.At
	case v.At.Sub(m.proven) >= provenAfter:
		m.fault = nil
	}
}

// Explain returns the last verdict in one line, or nothing if it is old. It is made to be the client's Explain: it is quick and
// asks nobody.
func (m *Monitor) Explain(endpoint string) string {
	if m.cfg.Endpoint != "" && endpoint != "" && endpoint != m.cfg.Endpoint {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.verdict.State == "" || time.Since(m.verdict.At) > staleAfter {
		return ""
	}
	return m.verdict.Line()
}

// Servers returns what was found out about the servers so far.
func (m *Monitor) Servers() []Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Server
	for _, s := range m.servers {
		out = append(out, s.info)
	}
	return out
}

// contained runs a user's function. Its panic is an error.
func contained(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("health: a function of the caller panicked: %v", r)
		}
	}()
	f()
	return nil
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
