// Package breaker says whether requests to one endpoint should start at all.
//
// A [Breaker] hears how requests end. After a run of failures, or when most of
// many have failed, it opens: requests are refused without being sent. When a
// cool-down is over it lets single requests through, the trials, and closes when
// they succeed:
//
//	pass, err := b.Acquire()
//	if err != nil {
//		return err // matches breaker.ErrOpen
//	}
//	defer pass.Done(breaker.Ignored) // if we leave in any other way, also by a panic
//
//	resp, err := send(req)
//	if err != nil {
//		pass.Done(breaker.Failure)
//		return err
//	}
//	pass.Done(breaker.Success)
//
// Who would rather outlive an outage than hear of it calls [Breaker.Wait] first.
//
// # Promises
//
//   - It never stays shut by mistake. A trial frees its place on every verdict,
//     also on [Ignored], and a trial that is never judged is written off after
//     TrialLimit. There is no order of events after which an endpoint that
//     answers is refused for ever.
//   - It does not take chance for an outage. Where some calls fail all the time it
//     takes a run of failures that chance alone would hardly bring, and while calls
//     make headway ([Pass.Progress]), or began before those that failed and may yet
//     succeed, failures do not count for all: they are often quicker than answers.
//     That holds for a Failures of zero; a number that is set is that number.
//   - It does not take a slow endpoint for a dead one. A trial that makes headway
//     ([Pass.Progress]) gets its limit anew, and each trial that is written off
//     doubles the limit of the next.
//   - It does no harm. No more trials than Trials are ever out, the cool-down
//     doubles with each one that fails, and callers who waited are let in one by
//     one when it closes. Who knows more of the endpoint can hasten a trial
//     ([Breaker.Hurry]) or put it off for a while ([Breaker.Postpone]).
//   - Verdicts of another time do not count: neither those of calls let through
//     before the last change of state nor those of trials written off.
//   - Changes are told in order, one at a time, with no lock held.
//   - [Breaker.Acquire] never waits. [Breaker.Wait] ends with its context, and
//     fails at once if the context would end before the cool-down does.
//
// Counting is [gobreaker]'s. There is no goroutine behind a Breaker and nothing
// to close. All of it may be used from any goroutine.
//
// [gobreaker]: https://github.com/sony/gobreaker
package breaker
