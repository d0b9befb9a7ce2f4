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
	// recentKept is how many ended attempts are remembered.
	recentKept = 2048

	// provenAfter is how long a service must count as recovered before its last
	// fault is forgotten.
	provenAfter = 5 * time.Minute
)

// A Monitor watches one service. It takes samples of the servers while calls are
// in flight, and makes verdicts. Make one with [New], wire it to each client with
// [Monitor.Attach] and [Monitor.Watch], and call [Monitor.Close] at the end. It is
// safe for concurrent use.
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
	clients []*watch
	waiting []llmclient.InFlight  // the calls of the last Advise
	asked   time.Time             // when that was
	open    map[attempt]time.Time // attempts under way, by events: when they began
	tried   map[string]time.Time  // when workers that routers named were asked, by address
	recent  []Ended
	relook  bool          // the next round detects anew what the servers are
	round   chan struct{} // closed when the round under way ends; nil if there is none
	rounded time.Time     // when the last round ended
	verdict Verdict
	told    State     // of the last OnVerdict
	fault   *Verdict  // the last one with a fault, until it is forgotten
	proven  time.Time // since when the service counts as recovered from it
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

// Close cancels all questions, and returns when nothing runs any more. It may be
// called several times, but not from OnVerdict, since it waits for that.
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

func (m *Monitor) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// run starts rounds while calls are in flight, and one after the last call.
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
	clients, open := m.clientsLocked(), len(m.open)
	asked := time.Since(m.asked) < staleAfter && len(m.waiting) > 0
	m.mu.Unlock()
	if open > 0 || asked {
		return true
	}
	return slices.ContainsFunc(clients, func(c Client) bool { return len(m.inFlight(c)) > 0 })
}

// refresh waits for a round of samples if the last one ended maxAge ago or earlier.
// It starts the round unless one is under way. It returns early when ctx ends.
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

// view is what the clients know now.
func (m *Monitor) view() View {
	m.mu.Lock()
	v := View{Now: time.Now(), Fault: m.fault, Recent: slices.Clone(m.recent)}
	clients := m.clientsLocked()
	if len(clients) == 0 && v.Now.Sub(m.asked) < staleAfter {
		v.Calls = slices.Clone(m.waiting)
	}
	m.mu.Unlock()
	for _, c := range clients {
		for _, f := range m.inFlight(c) {
			if m.concerns(f.Endpoint) {
				v.Calls = append(v.Calls, f)
			}
		}
	}
	m.eachEndpoint(func(_ endpoints, ep llmclient.EndpointStatus) { v.Endpoints = append(v.Endpoints, ep) })
	if m.cfg.Local != nil {
		m.contain("Local", func() { v.Local = m.cfg.Local() })
		if v.Local == nil {
			v.Local = []Activity{}
		}
	}
	return v
}

// samples returns all that are kept.
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

// Verdict makes a verdict of what is known now. It asks no server.
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

// Check samples every server, unless that was done in the last second, and makes a
// verdict. When ctx ends it makes the verdict of what is known by then.
func (m *Monitor) Check(ctx context.Context) Verdict {
	m.refresh(ctx, time.Second)
	return m.Verdict()
}

// keepLocked remembers a verdict, unless a later one is known.
func (m *Monitor) keepLocked(v Verdict) {
	if v.At.Before(m.verdict.At) {
		return
	}
	m.verdict = v
	switch {
	case v.State.Fault():
		m.fault, m.proven = &v, time.Time{}
	case v.State != StateRecovered || m.fault == nil:
	case m.proven.IsZero():
		m.proven = v.At
	case v.At.Sub(m.proven) >= provenAfter:
		m.fault = nil
	}
}

// Explain returns the last verdict in one line, or nothing if it is older than
// 30 s. It is made for [llmclient.Config.Explain]: it is quick, and asks no server.
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

// Servers returns what is known about the servers so far.
func (m *Monitor) Servers() []Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Server
	for _, s := range m.servers {
		out = append(out, s.info)
	}
	return out
}

// sleep reports false if ctx ended first. Package llmclient has a copy, which it
// does not export.
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
