package health

import (
	"context"
	"net/http"
	"slices"
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

	// anewAfter is how soon it may be asked again, if one seems to have come.
	anewAfter = time.Minute

	// most is the longest pause between two questions to a server that does not
	// answer. Longer ones would leave what is known of it stale.
	most = 25 * time.Second

	// patient is how often one that refuses connections is asked at the usual
	// pace: nothing is left behind there, and a restart shows at once.
	patient = 6
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
	v, f := m.judge()
	m.pass(v, f)
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
	var said heard
	if !s.known || start.Sub(s.looked) >= relook && !quiet {
		info, answers := m.ask.detect(ctx, s.p, m.cfg.Timeout)
		said = answers
		found := info.Kind != Unknown || info.reach == Reached
		if page, _ := info.asked("/metrics"); s.info.Metrics && page.Reach != Reached {
			found = false // it had one, and was not answered: that may pass
		}
		s.looked = start
		switch {
		case found:
			s.known = true
			m.mu.Lock()
			s.info = info
			m.mu.Unlock()
		case s.known:
			s.looked = start.Add(anewAfter - relook)
		}
		if s.p.Role == "" && found {
			s.p.Role = info.Role
		}
	}
	out := Sample{Target: s.p.Name, Kind: s.info.Kind, Role: s.info.Role, At: start}
	got := m.look(ctx, s, &out, said)
	out.Took = time.Since(start)
	out.Reach, out.Status = got.reach, got.status
	if got.reach == Unasked || m.ctx.Err() != nil {
		return // the budget is used up, or we are being closed
	}
	if out.Reach == Reached {
		s.misses, s.next = 0, time.Time{}
		if s.info.Kind != LlamaCPP {
			m.doubt(ctx, s, &out, quiet, said)
		}
	} else {
		s.misses++
		pause := min(m.cfg.Interval<<min(s.misses-1, 5), most)
		if out.Reach == Refused && s.misses <= patient {
			pause = m.cfg.Interval
		}
		s.next = start.Add(pause - m.cfg.Interval/4) // rounds do not come to the moment
	}
	if hosted(s.p.host) != Unknown || s.info.Kind == Compatible {
		s.next = start.Add(most) // it tells next to nothing, and may count every request
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(s.window.list); n > 0 && out.told() && s.window.list[n-1].told() && replaced(&s.window.list[n-1], &out) != "" && start.Sub(s.looked) >= anewAfter {
		s.known = false // it may be another version, or another server
	}
	s.window.add(out)
}

// look asks the question that shows most. If that was not answered the last time
// or two, it asks another one beside it: a page of metrics may be all that hangs.
func (m *Monitor) look(ctx context.Context, s *server, out *Sample, said heard) answer {
	if s.info.Kind == LlamaCPP && s.known {
		return m.inTurn(ctx, s, out, said)
	}
	if !s.info.Metrics && s.known {
		return m.plainly(ctx, s, out, said)
	}
	var other answer
	var wg sync.WaitGroup
	beside := s.misses > 0 && s.misses <= 2 && s.known
	if beside {
		wg.Go(func() { other = m.plainly(ctx, s, &Sample{}, said) })
	}
	a := m.question(ctx, s, s.p.metrics, said)
	wg.Wait()
	switch {
	case a.ok():
		m.read(s, a, out)
		return a
	case beside && other.reach == Reached:
		return other
	case beside || a.reach != Reached:
		return a
	}
	return m.plainly(ctx, s, out, said)
}

// inTurn asks a server that tells its metrics between two steps of its work, as
// llama.cpp does: in a long prompt that may be minutes. If it was silent the last
// time, its front end is asked beside, which knows its models at any moment.
func (m *Monitor) inTurn(ctx context.Context, s *server, out *Sample, said heard) answer {
	now := time.Now()
	var front answer
	var wg sync.WaitGroup
	if s.misses > 0 || s.deaf > 0 {
		wg.Go(func() { front = m.question(ctx, s, s.p.api+"/models", said) })
	}
	if now.Before(s.asks) {
		wg.Wait()
		m.mu.Lock()
		before := s.window.list[len(s.window.list)-1]
		m.mu.Unlock()
		out.Scheduler, out.AskedAt = before.Scheduler, before.AskedAt
		return front
	}
	var a answer
	if s.info.Metrics {
		if a = m.question(ctx, s, s.p.metrics, said); a.ok() {
			m.read(s, a, out)
		}
	}
	if !s.info.Metrics || a.reach == Reached && !a.ok() {
		a = m.plainly(ctx, s, out, said)
	}
	wg.Wait()
	if a.reach != Silent || front.reach != Reached {
		s.deaf, s.asks = 0, time.Time{}
		return a
	}
	s.deaf++
	s.asks = s.asksAgain(now, m.cfg.Interval)
	out.Scheduler, out.AskedAt = Silent, now
	return front
}

// asksAgain is when a scheduler may be asked again that did not answer.
func (s *server) asksAgain(asked time.Time, interval time.Duration) time.Time {
	return asked.Add(min(interval<<min(s.deaf-1, 5), most) - interval/4)
}

// plainly asks the question that a server without metrics knows.
func (m *Monitor) plainly(ctx context.Context, s *server, out *Sample, said heard) answer {
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
	a := m.question(ctx, s, full, said)
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
			out.Kind = p.Kind
			if at, ok := p.Readings[StartTime]; ok {
				out.Readings[StartTime] = max(0, at-a.ahead.Seconds())
			}
		}
	}
}

// doubt asks a server's scheduler, if there is reason to: calls wait, and
// nothing moves or nothing is told.
func (m *Monitor) doubt(ctx context.Context, s *server, out *Sample, quiet bool, said heard) {
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
	a := m.question(ctx, s, s.p.root+path, said)
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
	s.asks = s.asksAgain(out.AskedAt, m.cfg.Interval)
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

// question asks one, if the budgets allow and it was not answered just now.
func (m *Monitor) question(ctx context.Context, s *server, url string, said heard) answer {
	if a, there := said[url]; there {
		return a
	}
	if !m.affords() {
		return answer{}
	}
	return m.ask.get(ctx, s.p, url)
}

// pass passes on to clients whose breaker is open what is known: that the
// servers answer and nothing is seen to be wrong with them, which brings the
// next trial forward, or that it would be in vain, which puts it off.
func (m *Monitor) pass(v Verdict, f *facts) {
	well := (!v.State.Fault() || v.State == OwnBreaker) && f.answer()
	ill := (v.State.stopped() || v.State == Unreachable) && v.Confidence == High && f.fresh()
	if !well && !ill {
		return
	}
	m.mu.Lock()
	clients := slices.Clone(m.clients)
	m.mu.Unlock()
	for _, c := range clients {
		for _, one := range clientsOf(c) {
			patient, waits := one.(ailer)
			for _, ep := range one.Endpoints() {
				open := ep.Dead || ep.Breaker.State != breaker.Closed
				switch {
				case !open || !m.concerns(ep.Name):
				case well:
					one.Alive(ep.Name)
				case waits:
					patient.Ailing(ep.Name)
				}
			}
		}
	}
}

// answer reports whether all servers answered when they were last asked, and
// not that they cannot.
func (f *facts) answer() bool {
	for _, t := range f.trails {
		if n := len(t.all); n == 0 || t.all[n-1].Reach != Reached || t.all[n-1].Status >= 500 {
			return false
		}
	}
	return len(f.trails) > 0
}
