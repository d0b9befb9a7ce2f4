package health

import (
	"time"
)

// A Sample is how one server was at one moment.
type Sample struct {
	Target string // its name
	Kind   Kind
	Role   Role
	At     time.Time
	Took   time.Duration

	// Reach is how far the question came, and Status what it was answered with.
	Reach  Reach
	Status int

	// Readings are its metrics, nil if it does not tell them.
	Readings Readings

	// Scheduler is how far a question came that only the scheduler can answer,
	// not the front end alone, and AskedAt when it was asked. It is asked only
	// when there is doubt, and rarely if it was not answered before.
	Scheduler Reach
	AskedAt   time.Time

	// EngineDead reports that the front end says so itself.
	EngineDead bool
}

func (s *Sample) told() bool { return s != nil && s.Reach == Reached && s.Readings != nil }

// stalled reports whether the scheduler was asked and did not answer.
func (s *Sample) stalled() bool {
	return s.EngineDead || s.Scheduler == Silent || s.Scheduler == NoConnect || s.Scheduler == Broken
}

// A window keeps samples of one target: all recent ones and, for the memory of
// restarts, ever fewer of the older ones. It is not safe for concurrent use.
type window struct {
	most int
	list []Sample
}

func (w *window) add(s Sample) {
	w.list = append(w.list, s)
	if len(w.list) <= w.most {
		return
	}
	// Every second one of the older half goes, but for the very first.
	half := w.most / 2
	kept := w.list[:1]
	for i := 2; i < half; i += 2 {
		kept = append(kept, w.list[i])
	}
	kept = append(kept, w.list[half:]...)
	clear(w.list[len(kept):])
	w.list = kept
}
