package llmclient

import (
	"sync"
	"time"
)

// An asleep notices that the machine has slept: then the time of day has gone on,
// and the clock that timers run by has not. Connections in a pool are as young as
// before by that clock, while servers and firewalls have long forgotten them.
type asleep struct {
	mu   sync.Mutex
	mono time.Time
	wall time.Time // without a monotonic reading
}

// leastSleep is shorter than any idle connection is kept, and longer than what a
// time of day is corrected by. One that is set by hand costs a dial.
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
