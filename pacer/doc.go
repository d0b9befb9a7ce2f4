// Package pacer decides when the next request may start.
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
//		return err // the context ended, or the wait would outlast it
//	}
//	defer permit.Release() // on any other way out, even a panic
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
// The pacer learns how many requests in flight get the most answers from this
// server. It measures the time to first output and the time between pieces of
// output, and counts refused and abandoned requests. The limit starts at eight, and
// grows by half or doubles while more requests take no longer. Then it keeps going
// a little up and down to see which is better. Answers may differ in length by any
// factor, and a few slow ones change nothing. Lost requests lower the limit only if
// fewer are lost with less load, so faults that come at any load do not. Callers
// that report nothing but the end of their requests are not held back for long.
// docs/pacing.md describes how it works and what it was measured against.
//
// # Promises
//
//   - Configured limits are hard. In any 60 seconds there are at most
//     RequestsPerMinute admissions, and at most TokensPerMinute tokens as far as
//     they are estimated. A busy caller gets exactly that much: a token bucket
//     spaces the starts, and a sliding window keeps the limit. MaxInFlight holds
//     besides the learned limit. What a server says is left ([Pacer.Heed]) can
//     only tighten all of that.
//   - Only starts are paced. A permit is given the moment the limits allow it, and
//     may be kept for any time.
//   - Agents take turns, and an agent's own requests go in order. A priority is a
//     larger share: a request that was passed over eight times goes next. Nobody
//     else overtakes, not even a caller that arrives when a place becomes free.
//   - An abandoned request keeps its weight for as long as the server seems to work
//     on it, so that a wave of timeouts leads to less load.
//   - There is one cool-down for all. [Pacer.CoolDown] holds back every caller of
//     this pacer. It can be extended, but not shortened. After it the waiting
//     callers are admitted slowly at first and then faster, not as a herd.
//   - Waits end. The queue is bounded, and the context ends a wait at once. A wait
//     that cannot fit the context's deadline fails at once with a [WaitError] that
//     says how long it would have taken. A request that can never be admitted
//     fails at once with a [TooLargeError].
//   - Nothing leaks. A waiter whose context ends gives back a permit that it was
//     just being given. A permit counts once, however often it is released. An
//     unused permit can be given back with [Permit.Return], together with its
//     places in the minute. A permit that is never given back shows in [Stats]
//     (Oldest), keeps its place in flight, and keeps its tokens for a minute.
//
// There is no goroutine behind a Pacer and nothing to close. Permits, tickets and
// pacers may be used from any goroutine.
package pacer
