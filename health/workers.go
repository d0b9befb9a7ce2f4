package health

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// through reads the metrics of engines from their router, if they cannot be reached
// from here.
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
	a := m.question(ctx, s, s.p.root+"/engine_metrics", nil)
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
			Target: name, Kind: p.Kind, Role: role, At: start, Took: a.took, Reach: ReachAnswered, Status: a.status,
			Readings: p.Readings,
		})
	}
}

// found adds the workers that routers have named, if they answer.
func (m *Monitor) found(servers []*server) {
	var wg sync.WaitGroup
	for _, s := range servers {
		if s.p.found || s.info.Kind != KindGateway {
			continue
		}
		for _, w := range s.info.Workers {
			// The workers do not get the router's key.
			p, err := Target{URL: w.URL, Role: w.Role}.place()
			if err != nil || !follows(p.host) || !m.tries(p.root) {
				continue
			}
			wg.Go(func() { m.add(p) })
		}
	}
	wg.Wait()
}

// follows reports whether a worker may be at a host. It may not at a link-local
// address, where clouds keep a machine's metadata, nor at a multicast or
// unspecified one.
func follows(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return true
	}
	ip = ip.Unmap()
	return !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified()
}

// tries reports whether a worker should be asked: it is not watched yet, and was
// not asked in the last 10 minutes. Addresses inside a cluster often cannot be
// reached from here.
func (m *Monitor) tries(root string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.servers {
		if s.p.root == root {
			return false
		}
	}
	now := time.Now()
	at, tried := m.tried[root]
	if len(m.servers) >= maxWorkers || tried && now.Sub(at) < relook || !tried && len(m.tried) >= 4*maxWorkers {
		return false
	}
	m.tried[root] = now
	return true
}

func (m *Monitor) add(p *place) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	p.found = true
	s := newServer(p, m.cfg.Samples)
	info, _ := m.ask.detect(ctx, p, m.cfg.Timeout)
	m.mu.Lock()
	if info.reach != ReachAnswered || info.Kind == KindGateway {
		if info.reach == ReachRefused {
			m.tried[p.root] = time.Now().Add(anewAfter - relook) // it may be about to start
		}
		m.mu.Unlock()
		return // it cannot be reached from here, or is the router itself
	}
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
