// Package pacer says when the next request may start.
//
// A [Pacer] stands in front of one endpoint and one account. Each request asks
// it for a [Permit], and gives the permit back when the request has ended:
//
//	p, err := pacer.New(pacer.Config{})
//	if err != nil {
//		return err
//	}
//
//	permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: "agent 7", Tokens: 3000})
//	if err != nil {
//		return err // the caller's context ended, or a wait that could not have worked
//	}
//	defer permit.Release() // if we leave in any other way, also by a panic
//
//	stream, err := send(req)
//	...
//	permit.FirstOutput(time.Since(sent))
//	permit.Output(pieces) // now and then
//	...
//	permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: pieces, Tokens: usage})
//
// # How many at a time
//
// Nobody has to say. The pacer finds out how many requests in flight get most
// answers from this server, from what it is told of them: how long the first
// output took, how fast the rest follows, what was refused and what was
// abandoned. It starts with eight, grows by half or doubles while more requests
// take no longer, and then keeps going a little up and down to see which is
// better. Answers may differ in length by any factor, and a few slow ones change
// nothing. What is lost counts against the load only if less is lost with less of
// it: faults that come at any load do not sink the limit. Callers who tell nothing
// are not held back for long. docs/pacing.md has how it works and what it was
// measured against.
//
// # Promises
//
//   - Known limits are hard. No 60 seconds, wherever they begin, see more than
//     RequestsPerMinute admissions, nor more than TokensPerMinute tokens as far
//     as those are estimated, and a busy caller gets exactly that much: a bucket
//     smooths the starts, a sliding window holds the promise. MaxInFlight holds
//     beside what is learned. What a server says is left ([Pacer.Heed]) can only
//     tighten that.
//   - Admission is paced, never execution. A permit is given the moment the
//     limits allow it, and the pacer does not care how long it is kept.
//   - Agents take turns, an agent's own requests go in order, and a priority is
//     a larger share: who has been passed over eight times goes next. Nobody
//     else overtakes, also not a caller who happens to arrive when a place
//     becomes free.
//   - No harm. What was abandoned keeps its weight for as long as the server
//     seems to be at it, so that a wave of timeouts is answered with less load.
//   - One cool-down for all. [Pacer.CoolDown] holds back everybody who asks
//     this pacer, whoever was told to wait. It can be extended and not
//     shortened. What waited is then let in slowly at first and faster and
//     faster, so that the end of a pause is no herd.
//   - Waits end. The queue is bounded, the context ends a wait at once, and a
//     wait that is known not to fit the context's deadline is not begun: it
//     fails at once with a [WaitError] that says how long it would have been. A
//     request that can never be admitted is a [TooLargeError] at once and is in
//     nobody's way.
//   - Nothing is lost. A waiter who goes away gives back what was being given
//     to it, under any race. A permit counts once, however often it is
//     released. A permit that was not used can be handed back with
//     [Permit.Return], together with its place in the minute. One that nobody
//     gives back can be seen ([Stats], Oldest), costs no memory but its own, and
//     keeps its tokens for a minute.
//
// There is no goroutine behind a Pacer and nothing to close. Permits, tickets
// and pacers may be used from any goroutine. There is no state outside of them.
package pacer
