package agentloop

import (
	"container/list"
	"context"
	"sync"
)

// slots lets a number of holders in, first come, first served. A nil *slots has
// no bound.
type slots struct {
	mu    sync.Mutex
	free  int
	queue list.List // of chan struct{}, closed when its turn has come
}

// newSlots returns n slots, or nil if n is not positive.
func newSlots(n int) *slots {
	if n <= 0 {
		return nil
	}
	return &slots{free: n}
}

// try takes a slot if one is free and nobody waits for it.
func (s *slots) try() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// take waits for a slot, and reports false if ctx ended or enough was closed first.
// Waiters that had a slot before go first.
func (s *slots) take(ctx context.Context, again bool, enough <-chan struct{}) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	push := s.queue.PushBack
	if again {
		push = s.queue.PushFront
	}
	place := push(turn)
	s.mu.Unlock()
	select {
	case <-turn:
		if ctx.Err() == nil {
			return true
		}
	case <-enough:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn: // its turn came just as it left
		s.giveLocked()
	default:
		s.queue.Remove(place)
	}
	return false
}

// give gives a slot back.
func (s *slots) give() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveLocked()
}

func (s *slots) giveLocked() {
	if first := s.queue.Front(); first != nil {
		close(s.queue.Remove(first).(chan struct{}))
		return
	}
	s.free++
}
