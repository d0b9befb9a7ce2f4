package health

import (
	"fmt"
	"maps"
	"time"
)

// together makes one trail of several servers of one role. Their readings are added
// up, of samples that were taken within 5 s.
func together(ts []*trail, now time.Time) *trail {
	if len(ts) == 0 {
		return nil
	}
	if len(ts) == 1 {
		return ts[0]
	}
	const moment = 5 * time.Second
	var all []Sample
	for _, s := range ts[0].all {
		if !s.told() {
			continue
		}
		sum := s
		sum.Target = fmt.Sprintf("%d servers for %s", len(ts), s.Role)
		sum.Readings = maps.Clone(s.Readings)
		whole := true
		for _, t := range ts[1:] {
			other := t.near(s.At, moment)
			if whole = other.told(); !whole {
				break
			}
			sum.add(other)
		}
		if whole {
			all = append(all, sum)
		}
	}
	t := follow(all, now)
	t.name, t.kind, t.role = fmt.Sprintf("%d servers for %s", len(ts), ts[0].role), ts[0].kind, ts[0].role
	// A restart shows in a server's own trail only.
	t.restart, t.evidence = time.Time{}, ""
	for _, o := range ts {
		if o.restart.After(t.restart) {
			t.restart, t.evidence = o.restart, o.name+": "+o.evidence
		}
	}
	return t
}

// near returns the sample that was taken nearest to a moment, nil if none was
// within a bound.
func (t *trail) near(at time.Time, bound time.Duration) *Sample {
	var best *Sample
	for i := range t.all {
		if d := t.all[i].At.Sub(at).Abs(); d <= bound {
			best, bound = &t.all[i], d
		}
	}
	return best
}

// add adds the readings of another server.
func (s *Sample) add(o *Sample) {
	for m, v := range o.Readings {
		switch m {
		case MetricKVUsage, MetricStartTime:
			s.Readings[m] = max(s.Readings[m], v)
		default:
			s.Readings[m] += v
		}
	}
	if o.stalled() {
		s.Scheduler, s.AskedAt, s.EngineDead = o.Scheduler, o.AskedAt, o.EngineDead
	}
}
