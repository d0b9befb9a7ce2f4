package llmclient

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A broadcast wakes the calls that wait at one endpoint when another may have
// become fit.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next tell.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// errElsewhere ends a wait at one endpoint because another can take the call.
var errElsewhere = errors.New("another endpoint can take the call")

// orElsewhere returns a context for a wait at the present endpoint. It ends with
// errElsewhere as its cause when another endpoint is better for the call. stop must
// be called when the wait is over.
func (cl *call) orElsewhere(ctx context.Context) (_ context.Context, stop func()) {
	return cl.until(ctx, cl.better)
}

// until returns a context that ends with errElsewhere as its cause once so returns
// true. so is called at each broadcast and each time at which an endpoint may
// become fit.
func (cl *call) until(ctx context.Context, so func(now time.Time) bool) (_ context.Context, stop func()) {
	if len(cl.client.eps) == 1 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := cl.client.changes.next()
			now := time.Now()
			if so(now) {
				cancel(errElsewhere)
				return
			}
			t := time.NewTimer(cl.nextChange(now))
			select {
			case <-changed:
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended // the goroutine reads fields that the call is about to change
	}
}

// better reports whether the present endpoint cannot take the call and another
// can, or whether the call should leave a queue for an endpoint that is free.
func (cl *call) better(now time.Time) bool {
	is, _ := cl.standing(cl.at.ep, now)
	if is == available {
		return false
	}
	k := cl.client.choose(cl, now)
	if k.ep == cl.at.ep {
		return false
	}
	if is > busy {
		return k.is <= busy
	}
	// All calls in the queue see the same. One or two of them leave, not all.
	queued := cl.at.ep.pacer.Stats().Queued
	return k.is == available && queued > 0 && cl.client.random()*float64(queued/2+1) < 1
}

// nextChange returns how long it takes until another endpoint may become fit by
// time alone. It also probes endpoints whose recovery nothing else would show.
func (cl *call) nextChange(now time.Time) time.Duration {
	next := time.Hour
	for _, ep := range cl.client.eps {
		if _, until := cl.standing(ep, now); ep != cl.at.ep && until.After(now) {
			next = min(next, until.Sub(now))
		}
	}
	if is, _ := cl.standing(cl.at.ep, now); is == busy {
		next = min(next, lookAround)
	}
	if cl.client.glance(nil, now) {
		next = min(next, probeEvery)
	}
	return next
}

// lookAround is how often a call in a queue looks whether another endpoint is
// free.
const lookAround = 5 * time.Second

// moved is returned by a wait that ended because another endpoint is better.
var moved = new(Error)
