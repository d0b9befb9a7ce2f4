package pacer

import (
	"sync/atomic"
	"time"
)

// A Permit lets one request start. It counts as in flight until the first call
// of Release or Return, by whichever goroutine; further calls do nothing.
type Permit struct {
	pacer *Pacer
	at    time.Duration // when it was given, as the meter counts
	ended atomic.Bool
}

// Release gives back the permit of a request that was sent, whatever became of
// it. Its place in flight is free at once, its place in the minute is spent.
func (p *Permit) Release() { p.end(true) }

// Return gives back a permit that was not used: nothing was sent. Its place in
// the minute is free again too.
func (p *Permit) Return() { p.end(false) }

func (p *Permit) end(used bool) {
	if p == nil || p.pacer == nil || p.ended.Swap(true) {
		return
	}
	p.pacer.giveBack(p.at, used)
}
