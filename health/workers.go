package health

import (
	"context"
	"sync"
	"time"
)

// through reads the metrics of engines that cannot be reached from here, from
// their router.
func (m *Monitor) through(ctx context.Context, s *server) {
	m.mu.Lock()
	direct := false
	for _, o := range m.servers {
		direct = direct || o.p.found
	}
	m.mu.Unlock()
	if direct || len(s.info.Workers) == 0 {
		return
	}
	start := time.Now()
	a := m.question(ctx, s, s.p.root+"/engine_metrics")
	if !a.ok() {
		return
	}
	pages, _ := ReadMetrics(a.body)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range pages {
		role := p.Role
		if role == "" {
			role = RoleUnified
		}
		if s.inside == nil {
			s.inside = make(map[string]*window)
		}
		name := string(role) + " (through " + s.p.Name + ")"
		if s.inside[name] == nil {
			s.inside[name] = &window{most: s.samples}
		}
		s.inside[name].add(Sample{
			Target: name, Kind: p.Kind, Role: role, At: start, Took: a.took, Reach: Reached, Status: a.status, Readings: p.Readings,
		})
	}
}

// found adds the workers that routers have named, as far as they answer.
func (m *Monitor) found(servers []*server) {
	var wg sync.WaitGroup
	for _, s := range servers {
		if s.p.found || s.info.Kind != Gateway {
			continue
		}
		for _, w := range s.info.Workers {
			if m.knows(w.URL) {
				continue
			}
			// The key is the router's, and is not for them.
			p, err := Target{URL: w.URL, Role: w.Role}.place()
			if err != nil {
				continue
			}
			wg.Go(func() { m.add(p) })
		}
	}
	wg.Wait()
}

// knows reports whether a server is watched already, and notes it as looked at.
func (m *Monitor) knows(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := Target{URL: url}.place()
	if err != nil {
		return true
	}
	for _, s := range m.servers {
		if s.p.root == p.root {
			return true
		}
	}
	return len(m.servers) >= maxWorkers
}

func (m *Monitor) add(p *place) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	p.found = true
	s := newServer(p, m.cfg.Samples)
	info := m.ask.detect(ctx, p, m.cfg.Timeout)
	if info.reach != Reached {
		return // its address may mean nothing here
	}
	m.mu.Lock()
	var all []*place
	for _, o := range m.servers {
		all = append(all, o.p)
	}
	p.name(append(all, p))
	info.Name = p.Name
	s.info, s.known, s.looked = info, true, time.Now()
	m.servers = append(m.servers[:len(m.servers):len(m.servers)], s)
	m.mu.Unlock()
	m.visit(s, false)
}
