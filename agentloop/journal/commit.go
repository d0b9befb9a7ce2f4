package journal

import (
	"sync"
	"time"
)

// syncers is how many logs are synced at the same time. File systems write one
// transaction for all that wait, so a few are as quick as one.
const syncers = 16

// A committer syncs logs for all that wait at the same time: while one batch is
// under way the next one gathers.
type committer struct {
	every time.Duration

	mu      sync.Mutex
	waiting map[*Log][]chan error // for the next batch
	running bool
	idle    []*Log // written to, and nobody waits
	timer   *time.Timer
	stopped bool
}

// now has the log synced, and waits for it.
func (c *committer) now(l *Log) error {
	done := make(chan error, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.waiting = make(map[*Log][]chan error)
	}
	c.waiting[l] = append(c.waiting[l], done)
	if !c.running {
		c.running = true
		go c.run()
	}
	c.mu.Unlock()
	return <-done
}

func (c *committer) run() {
	for {
		c.mu.Lock()
		batch := c.waiting
		c.waiting = nil
		if len(batch) == 0 {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		work := make(chan *Log, len(batch))
		for l := range batch {
			work <- l
		}
		close(work)
		var wg sync.WaitGroup
		for range min(syncers, len(batch)) {
			wg.Go(func() {
				for l := range work {
					err := l.sync()
					for _, done := range batch[l] {
						done <- err
					}
				}
			})
		}
		wg.Wait()
	}
}

// later has the log synced after a while.
func (c *committer) later(l *Log) {
	if c.every < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, l)
	if c.timer == nil && !c.stopped {
		c.timer = time.AfterFunc(c.every, c.sweep)
	}
}

// sweep syncs what nobody has waited for.
func (c *committer) sweep() {
	c.mu.Lock()
	logs := c.idle
	c.idle, c.timer = nil, nil
	c.mu.Unlock()
	for _, l := range logs {
		_ = l.sync() // whoever waits for the log next hears of it
	}
}

func (c *committer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
