package health

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

// A server is a target as the monitor knows it. What is not guarded by the
// monitor's mutex is used by one round at a time.
type server struct {
	p       *place
	known   bool      // it was found out what it is
	looked  time.Time // when
	misses  int       // samples in a row that did not reach it
	next    time.Time // when it may be asked again
	asks    time.Time // when its scheduler may be
	deaf    int       // questions in a row that its scheduler did not answer
	samples int

	info   Server             // guarded
	window window             // guarded
	inside map[string]*window // guarded: of engines that are seen through the router only
}

const (
	// relook is how often it is asked again what a server is: another may have
	// come in its place.
	relook = 10 * time.Minute

	// most is the longest pause between two questions to a server that does not
	// answer. Longer ones would leave what is known of it stale.
	most = 25 * time.Second
)

func newServer(p *place, samples int) *server {
	return &server{p: p, samples: samples, info: Server{Name: p.Name, URL: p.public, Role: p.Role}, window: window{most: samples}}
}

// sample is one round: it asks every server that is due, all at the same time,
// judges, and tells.
func (m *Monitor) sample() {
	m.mu.Lock()
	servers, anew := m.servers, m.relook
	m.relook = false
	m.mu.Unlock()
	quiet := m.waits()
	var wg sync.WaitGroup
	for _, s := range servers {
		if anew {
			s.known, s.next = false, time.Time{}
		}
		if time.Now().Before(s.next) {
			continue
		}
		wg.Go(func() { m.visit(s, quiet) })
	}
	wg.Wait()
	m.found(servers)
	if m.ctx.Err() != nil {
		return
	}
	v := m.Verdict()
	m.alive(v)
	m.mu.Lock()
	news := v.State != m.told
	m.told = v.State
	m.mu.Unlock()
	if news && m.cfg.OnVerdict != nil {
		_ = contained(func() { m.cfg.OnVerdict(v) })
	}
}

// waits reports whether calls have got nowhere for long.
func (m *Monitor) waits() bool { return len(gather(m.view(), nil).quiet) > 0 }

// visit takes a sample of one server, within the timeout.
func (m *Monitor) visit(s *server, quiet bool) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	start := time.Now()
	if !s.known || start.Sub(s.looked) >= relook && !quiet {
		info := m.ask.detect(ctx, s.p, m.cfg.Timeout)
		if info.Kind != Unknown || info.reach == Reached {
			s.known = true
		}
		s.looked = start
		m.mu.Lock()
		if s.known {
			s.info = info
		}
		m.mu.Unlock()
		if s.p.Role == "" {
			s.p.Role = info.Role
		}
	}
	out := Sample{Target: s.p.Name, Kind: s.info.Kind, Role: s.info.Role, At: start}
	got := m.look(ctx, s, &out)
	out.Took = time.Since(start)
	out.Reach, out.Status = got.reach, got.status
	if got.err != nil {
		out.Err = tidy(got.err.Error())
	}
	if got.reach == Unasked || m.ctx.Err() != nil {
		return // the budget is used up, or we are being closed
	}
	if out.Reach == Reached {
		s.misses, s.next = 0, time.Time{}
		m.doubt(ctx, s, &out, quiet)
	} else {
		s.misses++
		pause := min(m.cfg.Interval<<min(s.misses-1, 5), most)
		s.next = start.Add(pause - m.cfg.Interval/4) // rounds do not come to the moment
	}
	if hosted(s.p.host) != Unknown || s.info.Kind == Compatible {
		s.next = start.Add(most) // it tells next to nothing, and may count every request
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(s.window.list); n > 0 && out.told() && s.window.list[n-1].told() && restarted(s.window.list[n-1].Readings, out.Readings) != "" {
		s.known = false // it may be another version
	}
	s.window.add(out)
}

// look asks the question that shows most.
func (m *Monitor) look(ctx context.Context, s *server, out *Sample) answer {
	if s.info.Metrics || !s.known {
		a := m.question(ctx, s, s.p.metrics)
		if a.ok() {
			m.read(s, a, out)
			return a
		}
		if a.reach != Reached {
			return a
		}
	}
	path, full := "/models", s.p.api+"/models"
	switch s.info.Kind {
	case SGLang:
		path = "/model_info"
	case VLLM:
		path = "/health"
	case LlamaCPP:
		path = "/slots"
	case Ollama:
		path = "/api/version"
	case TGI:
		path = "/info"
	case LiteLLM:
		path = "/health/liveliness"
	case Gateway:
		path = "/readiness"
	}
	if path != "/models" {
		full = s.p.root + path
	}
	a := m.question(ctx, s, full)
	switch {
	case s.info.Kind == VLLM && a.status == http.StatusServiceUnavailable:
		out.EngineDead = true
	case s.info.Kind == LlamaCPP && a.ok():
		out.Readings = readSlots(a.body)
	case s.info.Kind == Gateway && a.ok():
		m.through(ctx, s)
	}
	return a
}

// read reads a page of metrics. A router's may be about engines as well.
func (m *Monitor) read(s *server, a answer, out *Sample) {
	pages, _ := ReadMetrics(a.body)
	for _, p := range pages {
		if len(pages) == 1 || p.Kind == s.info.Kind && (p.Role == "" || p.Role == s.info.Role) {
			out.Readings = p.Readings
			if out.Kind == Unknown {
				out.Kind = p.Kind
			}
		}
	}
}

// doubt asks a server's scheduler, if there is reason to: calls wait, and
// nothing moves or nothing is told.
func (m *Monitor) doubt(ctx context.Context, s *server, out *Sample, quiet bool) {
	m.mu.Lock()
	var before *Sample
	if n := len(s.window.list); n > 0 {
		before = &s.window.list[n-1]
	}
	still := before.told() && out.told() && !worked(before.Readings, out.Readings) && !stirred(before.Readings, out.Readings)
	m.mu.Unlock()
	if !quiet || out.EngineDead || out.told() && !still {
		s.deaf, s.asks = 0, time.Time{}
		return
	}
	var path string
	switch s.info.Kind {
	case SGLang:
		path = "/server_info"
		if _, asked := s.info.asked("/get_server_info"); asked {
			path = "/get_server_info"
		}
	case VLLM:
		path = "/health"
	default:
		return
	}
	if now := time.Now(); now.Before(s.asks) {
		// What was not answered is not asked again so soon, since the questions
		// pile up in the server. It still holds.
		out.Scheduler, out.AskedAt = before.Scheduler, before.AskedAt
		return
	}
	out.AskedAt = time.Now()
	a := m.question(ctx, s, s.p.root+path)
	if m.ctx.Err() != nil || a.reach == Unasked {
		return
	}
	if s.info.Kind == VLLM {
		// It only knows whether the engine's process lives.
		out.EngineDead = a.status == http.StatusServiceUnavailable
		return
	}
	if out.Scheduler = a.reach; a.reach == Reached {
		s.deaf, s.asks = 0, time.Time{}
		return
	}
	s.deaf++
	s.asks = out.AskedAt.Add(min(m.cfg.Interval<<min(s.deaf-1, 5), most) - m.cfg.Interval/4)
}

// asked returns a question that was asked when it was found out what the server
// is.
func (s *Server) asked(path string) (Question, bool) {
	for _, q := range s.Asked {
		if q.Path == path {
			return q, true
		}
	}
	return Question{}, false
}

// question asks one, if the budget allows.
func (m *Monitor) question(ctx context.Context, s *server, url string) answer {
	m.mu.Lock()
	ok := m.budget.take(time.Now())
	m.mu.Unlock()
	if ok && m.cfg.Allow != nil {
		_ = contained(func() { ok = m.cfg.Allow() })
	}
	if !ok {
		return answer{}
	}
	return m.ask.get(ctx, s.p, url)
}

// alive passes on signs of life to clients whose breaker is open: the servers
// answer, and nothing is seen to be wrong with them.
func (m *Monitor) alive(v Verdict) {
	if v.State.Fault() && v.State != OwnBreaker {
		return
	}
	m.mu.Lock()
	clients := append([]Client(nil), m.clients...)
	answers := len(m.servers) > 0
	for _, s := range m.servers {
		n := len(s.window.list)
		answers = answers && n > 0 && s.window.list[n-1].Reach == Reached && s.window.list[n-1].Status < 500
	}
	m.mu.Unlock()
	if !answers {
		return
	}
	for _, c := range clients {
		for _, one := range clientsOf(c) {
			for _, ep := range one.Endpoints() {
				open := ep.Dead || ep.Breaker.State != breaker.Closed
				if open && (m.cfg.Endpoint == "" || ep.Name == m.cfg.Endpoint) {
					one.Alive(ep.Name)
				}
			}
		}
	}
}
