package llmclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// admission waits until the next attempt may be sent.
func (cl *call) admission() (*pacer.Permit, *breaker.Pass, *Error) {
	for {
		permit, pass, failed := cl.admit()
		if failed != moved {
			return permit, pass, failed
		}
		cl.anew = true
	}
}

// admit waits at one endpoint. It returns moved if the call should go on to
// another.
func (cl *call) admit() (*pacer.Permit, *breaker.Pass, *Error) {
	if failed := cl.settleOn(); failed != nil {
		return nil, nil, failed
	}
	if failed := cl.awaitBreaker(); failed != nil {
		return nil, nil, failed
	}
	permit, failed := cl.awaitPermit()
	if failed != nil {
		return nil, nil, failed
	}
	if cl.ending() {
		permit.Return()
		cl.cancel(errSettled) // not a wait for it: there are contexts that have an error and never say so
		return nil, nil, cl.ended()
	}
	pass, err := cl.at.ep.breaker.Acquire()
	if err == nil || cl.client.cfg.WhenOpen == LeastBad {
		return permit, pass, nil // a nil pass counts for nothing
	}
	permit.Return() // nothing was sent
	if cl.client.cfg.WhenOpen == FailFast && !cl.better(time.Now()) {
		return nil, nil, cl.open(err)
	}
	return nil, nil, moved
}

// ending reports whether the caller has left or the client is being closed, even
// if the call has not heard of it yet. Many calls end at such a moment, and the
// permits that they free must not start others that are about to end as well.
func (cl *call) ending() bool {
	if cl.parent.Err() != nil {
		return true
	}
	if cl.client.closing.Load() {
		cl.stop()
		return true
	}
	return false
}

// awaitBreaker waits until the breaker may let the call through.
func (cl *call) awaitBreaker() *Error {
	if cl.at.ep.breaker.Calm() && !cl.gone() {
		return nil // no call is waiting that this one would overtake
	}
	return cl.inLineForTrial()
}

func (cl *call) inLineForTrial() *Error {
	b := cl.at.ep.breaker
	switch cl.client.cfg.WhenOpen {
	case LeastBad:
		return nil
	case FailFast:
		if s := b.Stats(); s.State == breaker.Open && time.Now().Before(s.Retry) {
			return cl.open(&breaker.OpenError{
				Name: cl.at.ep.name, State: s.State, Since: s.Since, For: time.Since(s.Since),
				Retry: s.Retry, RetryIn: time.Until(s.Retry),
			})
		}
		return nil
	}
	cl.enter(PhaseBreaker)
	ctx, cancel := cl.withinCall()
	defer cancel()
	ctx, stop := cl.orElsewhere(ctx)
	defer stop()
	start := time.Now()
	err := b.Wait(ctx)
	cl.spent += time.Since(start)
	switch {
	case err == nil:
		return nil
	case cl.gone():
		return cl.ended()
	case context.Cause(ctx) == errElsewhere:
		return moved
	case ctx.Err() != nil:
		return cl.exhausted(err)
	}
	return cl.open(err) // the next trial comes too late
}

// awaitPermit waits until the pacer admits the call.
func (cl *call) awaitPermit() (*pacer.Permit, *Error) {
	if !cl.gone() {
		if permit := cl.at.ep.pacer.TryAcquireFor(cl.demand()); permit != nil {
			return permit, nil
		}
	}
	return cl.inQueue()
}

// demand is what the pacer should know of the call.
func (cl *call) demand() pacer.Demand {
	d := pacer.Demand{Agent: cl.caller, Tokens: cl.at.load.promptBytes/bytesPerToken + cl.at.load.maxTokens}
	if cl.req != nil {
		d.Priority, d.Finishing = cl.req.Priority, cl.req.Finishing
	}
	return d
}

func (cl *call) inQueue() (*pacer.Permit, *Error) {
	p := cl.at.ep.pacer
	cl.enter(PhaseQueue)
	if left, bounded := cl.left(); bounded {
		// The endpoint asked for a pause that is longer than the call may last:
		// the call fails now, so that its caller can do something else.
		if until := p.Stats().CoolDownUntil; !until.IsZero() && time.Until(until) > left {
			e := cl.error(ErrThrottled, fmt.Sprintf("%s asked for a pause that lasts %v more, and the call may take %v (clock Call)",
				cl.at.ep.name, round(time.Until(until)), round(left)))
			e.retryable, e.retryAfter = true, time.Until(until)
			return nil, e
		}
	}
	limit := cl.client.cfg.Clocks.bound(iQueue, load{}).limit
	ctx, cancel := within(cl.ctx, limit)
	defer cancel()
	ctx, stop := cl.orElsewhere(ctx)
	defer stop()
	permit, err := p.AcquireFor(ctx, cl.demand())
	switch {
	case err == nil:
		return permit, nil
	case cl.gone():
		return nil, cl.ended()
	case context.Cause(ctx) == errElsewhere:
		return nil, moved
	}
	if ctx.Err() != nil {
		e := cl.error(ErrTimeout, fmt.Sprintf("the call waited %v for our own pacer (clock Queue)", limit))
		e.Clock, e.Bound, e.retryable = ClockQueue, limit, true
		return nil, e
	}
	stop() // it reads what changes now
	if cl.turnedAway(err) {
		return nil, moved
	}
	e := cl.error(ErrQueue, "the pacer did not admit the call: "+err.Error())
	e.retryable = !errors.Is(err, pacer.ErrTooLarge)
	var late *pacer.WaitError
	if errors.As(err, &late) {
		e.retryAfter = late.Wait
		if late.For == pacer.ReasonCoolDown {
			e.Kind = ErrThrottled
		}
		if at, ok := cl.parent.Deadline(); !ok || limit > 0 && time.Now().Add(limit).Before(at) {
			return nil, e // the wait does not fit into our clock; the caller's deadline has room for it
		}
	}
	e.causes = append(e.causes, err)
	return nil, e
}

// turnedAway notes that the endpoint's pacer refused the call a place in its
// queue, and reports whether another endpoint can take it.
func (cl *call) turnedAway(err error) bool {
	if len(cl.client.eps) == 1 {
		return false
	}
	now := time.Now()
	if errors.Is(err, pacer.ErrTooLarge) {
		cl.at.out = true
	}
	cl.at.full = now.Add(lookAround)
	return cl.client.choose(cl, now).is <= busy
}

// left returns what the Call clock leaves, if it is bounded.
func (cl *call) left() (time.Duration, bool) {
	limit := cl.client.cfg.Clocks.bound(iCall, cl.at.load).limit
	return max(0, limit-cl.spent), limit > 0
}

// withinCall returns a context that ends with the Call clock at the latest.
func (cl *call) withinCall() (context.Context, context.CancelFunc) {
	left, bounded := cl.left()
	if bounded && left == 0 {
		left = 1 // not zero, which would be no bound
	}
	return within(cl.ctx, left)
}

// within is context.WithTimeout where zero is no limit.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// exhausted returns the error of a call whose own clock ran out between
// attempts.
func (cl *call) exhausted(err error) *Error {
	limit := cl.client.cfg.Clocks.bound(iCall, cl.at.load).limit
	e := cl.error(ErrTimeout, fmt.Sprintf("no answer from %s within %v (clock Call), the last of it in phase %s",
		cl.at.ep.name, limit, cl.where()))
	e.Clock, e.Bound, e.retryable = ClockCall, limit, true
	if errors.Is(err, breaker.ErrOpen) || cl.where() == PhaseBreaker {
		e.causes = append(e.causes, breaker.ErrOpen)
	}
	return e
}

// open returns the error of a call that the breaker keeps from being sent. It
// says why the breaker is open, since the call may have made no attempt itself.
func (cl *call) open(err error) *Error {
	why := "the circuit breaker of " + cl.at.ep.name + " is open"
	if last := cl.at.ep.breaker.Stats().Last.Why; last != "" {
		why += " (" + last + ")"
	}
	var refused *breaker.OpenError
	if errors.As(err, &refused) {
		e := cl.error(ErrOpen, why+"; the next call may be let through in "+round(refused.RetryIn).String())
		e.retryable, e.retryAfter = true, refused.RetryIn
		e.causes = append(e.causes, err)
		return e
	}
	// The wait does not fit into what is left of the Call clock or of the caller's deadline.
	var late *breaker.WaitError
	if !errors.As(err, &late) {
		e := cl.error(ErrOpen, why+": "+err.Error())
		e.retryable = true
		e.causes = append(e.causes, breaker.ErrOpen)
		return e
	}
	why += fmt.Sprintf("; the next call may be let through in %v, ", round(late.Wait))
	var e *Error
	if at, ok := cl.parent.Deadline(); ok && time.Until(at) <= late.Left {
		e = cl.error(ErrOpen, why+fmt.Sprintf("and the caller's deadline leaves %v", round(late.Left)))
		e.causes = append(e.causes, context.DeadlineExceeded)
	} else {
		e = cl.error(ErrTimeout, why+fmt.Sprintf("and the call has %v left (clock Call)", round(late.Left)))
		e.Clock, e.Bound = ClockCall, cl.client.cfg.Clocks.bound(iCall, cl.at.load).limit
	}
	e.retryable, e.retryAfter = true, late.Wait
	e.causes = append(e.causes, breaker.ErrOpen)
	return e
}
