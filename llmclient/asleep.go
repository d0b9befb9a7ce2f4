package llmclient

import (
	"sync"
	"time"
)

// An asleep notices that the machine has slept: the time of day has gone on, but
// the monotonic clock has not. By that clock the pooled connections are young, but
// servers and firewalls have long forgotten them.
type asleep struct {
	mu   sync.Mutex
	mono time.Time
	wall time.Time // without a monotonic reading
}

// leastSleep is shorter than servers keep idle connections, and longer than usual
// corrections of the time of day. A clock that is set by hand costs one dial.
const leastSleep = 10 * time.Second

// woke reports whether the machine has slept since it was last asked. wall is the
// time of day at mono, without a monotonic reading.
func (a *asleep) woke(mono, wall time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	awake, passed := mono.Sub(a.mono), wall.Sub(a.wall)
	first := a.wall.IsZero()
	a.mono, a.wall = mono, wall
	return !first && passed-awake >= leastSleep
}
