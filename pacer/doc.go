// Package pacer says when the next request may start.
//
// A [Pacer] stands in front of one endpoint and one account. Each request asks
// it for a [Permit] and gives the permit back when the request has ended:
//
//	p, err := pacer.New(pacer.Config{RequestsPerMinute: 500, MaxInFlight: 32})
//	if err != nil {
//		return err
//	}
//
//	permit, err := p.Acquire(ctx)
//	if err != nil {
//		return err // the caller's context ended, or a wait that could not have worked
//	}
//	defer permit.Release()
//	resp, err := client.Do(req)
//
// # Promises
//
//   - The rate holds in every minute. No 60 seconds, wherever they begin, see
//     more than RequestsPerMinute admissions, and a busy caller gets exactly
//     that many: a token bucket smooths the starts, a sliding window holds the
//     promise.
//   - Admission is paced, never execution. A permit is given the moment the
//     limits allow it, and the pacer does not care how long it is kept except
//     for MaxInFlight. Without limits nothing waits and nothing is spaced.
//   - First in, first out. Nobody overtakes the queue, also not a caller who
//     happens to arrive when a place becomes free.
//   - One cool-down for all. [Pacer.CoolDown] holds back everybody who asks
//     this pacer, whoever was told to wait. It can be extended and not
//     shortened. What waited is then let in slowly at first and faster and
//     faster, so that the end of a pause is no herd.
//   - Waits end. The queue is bounded, the context ends a wait at once, and a
//     wait that is known not to fit the context's deadline is not begun: it
//     fails at once with a [WaitError] that says how long it would have been.
//   - Nothing is lost. A waiter who goes away gives back what was being given
//     to it, under any race. A permit counts once, however often it is
//     released. A permit that was not used can be handed back with
//     [Permit.Return], together with its place in the minute.
//
// There is no goroutine behind a Pacer and nothing to close. Permits and
// pacers may be used from any goroutine.
package pacer
