package health

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/llmclient"
)

// A server is a target, and what the Monitor knows of it. Fields that the Monitor's
// mutex does not guard are used by one round at a time.
type server struct {
	p       *place
	known   bool      // it was detected what it is
	looked  time.Time // when that was tried last
	misses  int       // samples in a row that were not answered
	next    time.Time // when it may be asked again
	asks    time.Time // when its scheduler may be asked again
	deaf    int       // questions in a row that its scheduler did not answer
	samples int       // how many are kept

	info   Server             // guarded
	window window             // guarded
	inside map[string]*window // guarded: of engines whose metrics come from this router
}

const (
	// relook is how often a server is detected anew, since another may have taken
	// its place.
	relook = 10 * time.Minute

	// anewAfter is the least time between two detections, if a restart was seen.
	anewAfter = time.Minute

	// longestPause is the longest time between two questions to a server that does
	// not answer. After a longer one what is known of it would be stale.
	longestPause = 25 * time.Second

	// refusalsAtPace is how often a server that refuses connections is asked at the
	// usual pace. Nothing is left behind there, and a restart shows at once.
	refusalsAtPace = 6
)

func newServer(p *place, samples int) *server {
	return &server{p: p, samples: samples, info: Server{Name: p.Name, URL: p.public, Role: p.Role},
		window: window{most: samples}}
}

// sample is one round. It asks every server that is due, all at the same time, and
// makes a verdict. Clients hear of it, and so does OnVerdict if the state is new.
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
		m.contain("OnVerdict", func() { m.cfg.OnVerdict(v) })
	}
}

// waits reports whether any call has been without progress for quietAfter.
func (m *Monitor) waits() bool { return len(gather(m.view(), nil).quiet) > 0 }

// visit takes a sample of one server, within the timeout.
func (m *Monitor) visit(s *server, quiet bool) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	start := time.Now()
	var said heard
	if !s.known || start.Sub(s.looked) >= relook && !quiet {
		said = m.identify(ctx, s, start)
	}
	out := Sample{Target: s.p.Name, Kind: s.info.Kind, Role: s.info.Role, At: start}
	got := m.look(ctx, s, &out, said)
	out.Took = time.Since(start)
	out.Reach, out.Status = got.reach, got.status
	if got.reach == ReachUnasked || m.ctx.Err() != nil {
		return // the budget is used up, or the Monitor is being closed
	}
	if out.Reach == ReachAnswered {
		s.misses = 0
		if s.info.Kind != KindLlamaCPP {
			m.doubt(ctx, s, &out, quiet, said)
		}
	} else {
		s.misses++
	}
	s.next = time.Time{}
	if pause := s.pause(out.Reach, m.cfg.Interval); pause > 0 {
		s.next = start.Add(pause)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.window.replacedBy(&out) && start.Sub(s.looked) >= anewAfter {
		s.known = false // it may be another version, or another server
	}
	s.window.add(out)
}

// identify detects what a server is, and returns its answers. What is known of a
// server is kept while it does not answer.
func (m *Monitor) identify(ctx context.Context, s *server, now time.Time) heard {
	info, said := m.ask.detect(ctx, s.p, m.cfg.Timeout)
	found := info.Kind != KindUnknown || info.reach == ReachAnswered
	if page, _ := info.asked("/metrics"); s.info.Metrics && page.Reach != ReachAnswered {
		found = false // it has metrics that it did not answer this time
	}
	s.looked = now
	switch {
	case found:
		s.known = true
		m.mu.Lock()
		s.info = info
		m.mu.Unlock()
		if s.p.Role == "" {
			s.p.Role = info.Role
		}
	case s.known:
		s.looked = now.Add(anewAfter - relook)
	}
	return said
}

// pause is how long the server is left alone after a sample. It is 0 if the next
// round may ask it.
func (s *server) pause(came Reach, interval time.Duration) time.Duration {
	early := interval / 4 // a round may come a little early
	switch {
	case hosted(s.p.host) != KindUnknown || s.info.Kind == KindCompatible:
		return longestPause // it says next to nothing, and may count each request
	case came == ReachAnswered:
		return 0
	case came == ReachRefused && s.misses <= refusalsAtPace:
		return interval - early
	}
	return min(interval<<min(s.misses-1, 5), longestPause) - early
}

// look asks for the metrics, or a plainer question if there are none. If the last
// one or two samples failed, it asks both at the same time, since the page of
// metrics may be all that hangs.
func (m *Monitor) look(ctx context.Context, s *server, out *Sample, said heard) answer {
	if s.info.Kind == KindLlamaCPP && s.known {
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
	case beside && other.reach == ReachAnswered:
		return other
	case beside || a.reach != ReachAnswered:
		return a
	}
	return m.plainly(ctx, s, out, said)
}

// inTurn asks llama.cpp, which answers for its metrics between two batches only: in
// a long prompt that may take minutes. If it was silent the last time, its front
// end is asked for the models at the same time, which it answers at once.
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
	if !s.info.Metrics || a.reach == ReachAnswered && !a.ok() {
		a = m.plainly(ctx, s, out, said)
	}
	wg.Wait()
	if a.reach != ReachSilent || front.reach != ReachAnswered {
		s.deaf, s.asks = 0, time.Time{}
		return a
	}
	s.deaf++
	s.asks = s.asksAgain(now, m.cfg.Interval)
	out.Scheduler, out.AskedAt = ReachSilent, now
	return front
}

// asksAgain is when a scheduler that did not answer may be asked again.
func (s *server) asksAgain(asked time.Time, interval time.Duration) time.Time {
	return asked.Add(min(interval<<min(s.deaf-1, 5), longestPause) - interval/4)
}

// plainly asks the free question that this kind of server answers without metrics.
func (m *Monitor) plainly(ctx context.Context, s *server, out *Sample, said heard) answer {
	path, full := "/models", s.p.api+"/models"
	switch s.info.Kind {
	case KindSGLang:
		path = "/model_info"
	case KindVLLM:
		path = "/health"
	case KindLlamaCPP:
		path = "/slots"
	case KindOllama:
		path = "/api/version"
	case KindTGI:
		path = "/info"
	case KindLiteLLM:
		path = "/health/liveliness"
	case KindGateway:
		path = "/readiness"
	}
	if path != "/models" {
		full = s.p.root + path
	}
	a := m.question(ctx, s, full, said)
	switch {
	case s.info.Kind == KindVLLM && a.status == http.StatusServiceUnavailable:
		out.EngineDead = true
	case s.info.Kind == KindLlamaCPP && a.ok():
		out.Readings = readSlots(a.body)
	case s.info.Kind == KindGateway && a.ok():
		m.through(ctx, s)
	}
	return a
}

// read reads the part of a page of metrics that is about the server itself. A
// router's page may be about engines as well.
func (m *Monitor) read(s *server, a answer, out *Sample) {
	pages, _ := ReadMetrics(a.body)
	for _, p := range pages {
		if len(pages) == 1 || p.Kind == s.info.Kind && (p.Role == "" || p.Role == s.info.Role) {
			out.Readings = p.Readings
			out.Kind = p.Kind
			if at, ok := p.Readings[MetricStartTime]; ok {
				out.Readings[MetricStartTime] = max(0, at-a.ahead.Seconds())
			}
		}
	}
}

// doubt asks a server's scheduler if calls wait while the metrics stand still or
// are missing.
func (m *Monitor) doubt(ctx context.Context, s *server, out *Sample, quiet bool, said heard) {
	m.mu.Lock()
	var before *Sample
	if n := len(s.window.list); n > 0 {
		before = &s.window.list[n-1]
	}
	still := before.told() && out.told() && !worked(before.Readings, out.Readings) && !stirred(before.Readings,
		out.Readings)
	m.mu.Unlock()
	if !quiet || out.EngineDead || out.told() && !still {
		s.deaf, s.asks = 0, time.Time{}
		return
	}
	var path string
	switch s.info.Kind {
	case KindSGLang:
		path = "/server_info"
		if _, asked := s.info.asked("/get_server_info"); asked {
			path = "/get_server_info"
		}
	case KindVLLM:
		path = "/health"
	default:
		return
	}
	if now := time.Now(); now.Before(s.asks) {
		// Questions that are not answered pile up in the server, so this one waits.
		// The last result still holds.
		out.Scheduler, out.AskedAt = before.Scheduler, before.AskedAt
		return
	}
	out.AskedAt = time.Now()
	a := m.question(ctx, s, s.p.root+path, said)
	if m.ctx.Err() != nil || a.reach == ReachUnasked {
		return
	}
	if s.info.Kind == KindVLLM {
		// vLLM's front end only knows whether the engine's process lives.
		out.EngineDead = a.status == http.StatusServiceUnavailable
		return
	}
	if out.Scheduler = a.reach; a.reach == ReachAnswered {
		s.deaf, s.asks = 0, time.Time{}
		return
	}
	s.deaf++
	s.asks = s.asksAgain(out.AskedAt, m.cfg.Interval)
}

// asked returns a question of the detection, by its path.
func (s *Server) asked(path string) (Question, bool) {
	for _, q := range s.Asked {
		if q.Path == path {
			return q, true
		}
	}
	return Question{}, false
}

// question asks one question, unless this visit has the answer or a budget is used
// up.
func (m *Monitor) question(ctx context.Context, s *server, url string, said heard) answer {
	if a, there := said[url]; there {
		return a
	}
	if !m.affords() {
		return answer{}
	}
	return m.ask.get(ctx, s.p, url)
}

// pass tells clients whose breaker is open what is known. If all servers answer and
// no fault of theirs is seen, the next trial comes sooner. If a trial would surely
// fail, it comes later.
func (m *Monitor) pass(v Verdict, f *facts) {
	well := (!v.State.Fault() || v.State == StateOwnBreaker) && f.answer()
	ill := (v.State.stopped() || v.State == StateUnreachable) && v.Confidence == ConfidenceHigh && f.fresh()
	if !well && !ill {
		return
	}
	m.eachEndpoint(func(c endpoints, ep llmclient.EndpointStatus) {
		if !ep.Dead && ep.Breaker.State == breaker.Closed {
			return
		}
		if well {
			c.MarkAlive(ep.Name)
		} else if a, ok := c.(ailer); ok {
			a.MarkAiling(ep.Name)
		}
	})
}

// answer reports whether all servers answered when they were last asked, with a
// status below 500.
func (f *facts) answer() bool {
	for _, t := range f.trails {
		if n := len(t.all); n == 0 || t.all[n-1].Reach != ReachAnswered || t.all[n-1].Status >= 500 {
			return false
		}
	}
	return len(f.trails) > 0
}
