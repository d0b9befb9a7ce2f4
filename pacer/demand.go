package pacer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A Demand is what the pacer should know about a request before it starts. The zero
// value is an ordinary request.
type Demand struct {
	// Agent is the name of the agent that asks. Agents of one priority take turns,
	// however many requests each has in the queue. All requests without a name
	// count as one agent's.
	Agent string

	// Priority puts requests with a higher number first. A request that was passed
	// over eight times goes next, so a priority is a larger share, not all.
	Priority int

	// Tokens is an estimate of the tokens that the request will use, prompt and
	// answer together. They are reserved from TokensPerMinute until
	// [Permit.Done] tells how many were used. Zero or less reserves nothing.
	Tokens int

	// Finishing says that this request belongs to work that is nearly done. It
	// counts only with [Config.FinishFirst].
	Finishing bool
}

// need is the tokens to reserve.
func (d Demand) need() int64 { return int64(max(d.Tokens, 0)) }

// A Ticket is a place in line. The first call of Wait or Cancel ends it.
type Ticket struct {
	permit *Permit // that is waited for
	w      *waiter // nil: the permit was given at once
	ended  atomic.Bool
}

// Enqueue takes a place in line without waiting. It returns the errors with which
// [Pacer.AcquireFor] refuses a caller at once. A caller that holds a ticket must
// call [Ticket.Wait] or [Ticket.Cancel], or both in this order: otherwise the
// permit for its place is lost.
func (p *Pacer) Enqueue(ctx context.Context, d Demand) (*Ticket, error) {
	permit, w, err := p.enter(ctx, d)
	if err != nil {
		return nil, err
	}
	return &Ticket{permit: permit, w: w}, nil
}

// Wait waits for the permit. Its context may differ from that of Enqueue. When it
// ends, the ticket ends as well.
func (t *Ticket) Wait(ctx context.Context) (*Permit, error) {
	switch {
	case t == nil || t.permit == nil:
		return nil, errors.New("pacer: no ticket")
	case ctx == nil:
		return nil, errors.New("pacer: nil context")
	case t.ended.Swap(true):
		return nil, errors.New("pacer: the ticket was used before")
	case t.w == nil:
		return t.permit, nil
	}
	return t.permit.await(ctx, t.w)
}

// Cancel leaves the line. After Wait it does nothing, so it can be deferred.
func (t *Ticket) Cancel() {
	switch {
	case t == nil || t.permit == nil || t.ended.Swap(true):
	case t.w == nil:
		t.permit.Return()
	default:
		t.permit.pacer.leave(t.w)
	}
}

// A Place is where a ticket stands in line.
type Place struct {
	Ahead  int           // callers that are likely to go first; others may overtake by priority
	Waited time.Duration // since Enqueue
	For    Reason        // what the first in line waits for; empty if the ticket has its permit

	// Expected is about how much longer it will take, by how fast the line has
	// been moving. Zero means that this is not known.
	Expected time.Duration
}

// Place returns where the ticket stands in line.
func (t *Ticket) Place() Place {
	if t == nil || t.w == nil {
		return Place{}
	}
	p := t.permit.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	place := p.core.place(now, t.w)
	p.armLocked(now) // place may have admitted callers
	return place
}
