package pacer

// roll is the permits that are out, in the order in which they were given, so that
// the oldest is known.
//
// It is a list linked through the seats. That finds the oldest and removes any one
// in constant time, and keeps nothing of permits that came back.
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
