package journal

import (
	"sync"
	"time"
)

// maxSyncing is how many logs are synced at the same time: each needs a thread.
const maxSyncing = 64

// A sweeper syncs lines that nobody waits for, after a while.
type sweeper struct {
	every time.Duration

	mu      sync.Mutex
	idle    []*Log // with lines that nobody waits for
	timer   *time.Timer
	stopped bool
}

// later makes the log be synced after a while.
func (s *sweeper) later(l *Log) {
	if s.every < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, l)
	if s.timer == nil && !s.stopped {
		s.timer = time.AfterFunc(s.every, s.sweep)
	}
}

func (s *sweeper) sweep() {
	s.mu.Lock()
	logs := s.idle
	s.idle, s.timer = nil, nil
	s.mu.Unlock()
	for _, l := range logs {
		_ = l.sync() // the next Sync or Append returns the error
	}
}

func (s *sweeper) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
