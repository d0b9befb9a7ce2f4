package health

import (
	"time"
)

// A Sample is the state of one server at one moment.
type Sample struct {
	Target string // the server's name
	Kind   Kind
	Role   Role
	At     time.Time
	Took   time.Duration

	// Reach is how far the question came, and Status the HTTP status of the answer.
	Reach  Reach
	Status int

	// Readings are the server's metrics, nil if it has none.
	Readings Readings

	// Scheduler is how far a question came that the front end cannot answer
	// without the scheduler, and AskedAt when it was asked. It is asked only if
	// calls wait while the metrics stand still or are missing.
	Scheduler Reach
	AskedAt   time.Time

	// EngineDead reports that the front end itself calls its engine dead.
	EngineDead bool
}

func (s *Sample) told() bool { return s != nil && s.Reach == ReachAnswered && s.Readings != nil }

// stalled reports whether the scheduler was asked and did not answer, or the
// engine is dead.
func (s *Sample) stalled() bool {
	return s.EngineDead || s.Scheduler == ReachSilent || s.Scheduler == ReachNoConnect || s.Scheduler == ReachBroken
}

// A window keeps samples of one target: all recent ones, and ever fewer of the
// older ones, so that restarts are remembered. It is not safe for concurrent use.
type window struct {
	most int
	list []Sample
}

func (w *window) add(s Sample) {
	w.list = append(w.list, s)
	if len(w.list) <= w.most {
		return
	}
	// Every second one of the older half is dropped. The very first one stays.
	half := w.most / 2
	kept := w.list[:1]
	for i := 2; i < half; i += 2 {
		kept = append(kept, w.list[i])
	}
	kept = append(kept, w.list[half:]...)
	clear(w.list[len(kept):])
	w.list = kept
}

// replacedBy reports whether s comes from another process than the newest sample.
func (w *window) replacedBy(s *Sample) bool {
	n := len(w.list)
	return n > 0 && s.told() && w.list[n-1].told() && replaced(&w.list[n-1], s) != ""
}
