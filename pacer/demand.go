package pacer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A Demand is what the pacer should know of a request before it starts. The
// zero value asks for a place like any other.
type Demand struct {
	// Agent names who asks. Agents of one priority take turns, however many
	// requests each of them has waiting; those without a name are one agent.
	Agent string

	// Priority puts those of a higher number first. Who is passed over is let
	// in after eight others at the latest, so that a priority is a larger
	// share, not all of it.
	Priority int

	// Tokens is an estimate of what the request will use, prompt and answer
	// together. It is reserved from TokensPerMinute until the permit's end
	// tells what was used. Zero or less reserves nothing.
	Tokens int

	// Finishing says that the work this request belongs to is nearly done.
	// It counts only with [Config.FinishFirst].
	Finishing bool
}

// need is the tokens to reserve.
func (d Demand) need() int64 { return int64(max(d.Tokens, 0)) }

// A Ticket is a place in line. The first call of Wait or Cancel ends it.
type Ticket struct {
	permit *Permit // to be
	w      *waiter // nil: it was to be had at once
	ended  atomic.Bool
}

// Enqueue takes a place in line without waiting. The errors are those of
// [Pacer.AcquireFor] for a caller who need not wait to be refused. Who has a
// ticket must call [Ticket.Wait] or [Ticket.Cancel], or both in this order: a
// place that is granted to nobody is one less for the others.
func (p *Pacer) Enqueue(ctx context.Context, d Demand) (*Ticket, error) {
	if ctx == nil {
		return nil, errors.New("pacer: nil context")
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, 0, "")
	}
	permit := &Permit{pacer: p}
	w, err := p.enter(ctx, d, permit)
	if err != nil {
		return nil, err
	}
	return &Ticket{permit: permit, w: w}, nil
}

// Wait waits for the permit. The context may be another one than that of
// Enqueue; when it ends, so does the ticket.
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

// Cancel leaves the line. After Wait it does nothing, so that it can be
// deferred.
func (t *Ticket) Cancel() {
	switch {
	case t == nil || t.permit == nil || t.ended.Swap(true):
	case t.w == nil:
		t.permit.Return()
	default:
		t.permit.pacer.leave(t.w)
	}
}

// A Place tells how it stands with a ticket.
type Place struct {
	Ahead  int           // callers who are likely to go first; others may still overtake by priority
	Waited time.Duration // since the line was joined
	For    Reason        // what the first in line waits for; empty: nothing, the ticket is through

	// Expected is about how long it will take from now, going by how fast the
	// line has been moving. Zero means that nothing is known of that.
	Expected time.Duration
}

// Place tells how it stands with the ticket.
func (t *Ticket) Place() Place {
	if t == nil || t.w == nil {
		return Place{}
	}
	p := t.permit.pacer
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	place := p.core.place(now, t.w)
	p.armLocked(now) // looking may have let somebody in
	return place
}
