package pacer

// roll is the permits that are out, in the order in which they were given. The
// first of them tells how long somebody has kept one, be it by mistake.
//
// It is a list within the seats: no other way finds the oldest, takes out any and
// keeps nothing of those that are gone, however long one of them stays.
type roll struct{ oldest, newest *seat }

func (r *roll) add(s *seat) {
	s.older = r.newest
	if r.newest == nil {
		r.oldest = s
	} else {
		r.newest.newer = s
	}
	r.newest = s
}

func (r *roll) remove(s *seat) {
	if s.older == nil {
		r.oldest = s.newer
	} else {
		s.older.newer = s.newer
	}
	if s.newer == nil {
		r.newest = s.older
	} else {
		s.newer.older = s.older
	}
	s.older, s.newer = nil, nil
}
