// Package breaker says whether requests to one endpoint should start at all.
//
// A [Breaker] is told how requests end. After a run of failures, or when most of
// many requests have failed, it opens: requests are refused without being sent.
// After a cool-down it is half-open: it lets single requests through, the trials,
// and closes when they succeed.
//
//	pass, err := b.Acquire()
//	if err != nil {
//		return err // matches breaker.ErrOpen
//	}
//	defer pass.Done(breaker.Ignored) // on any other way out, even a panic
//
//	resp, err := send(req)
//	if err != nil {
//		pass.Done(breaker.Failure)
//		return err
//	}
//	pass.Done(breaker.Success)
//
// To wait for the end of an outage instead of an error, call [Breaker.Wait] first.
//
// # Promises
//
//   - It never refuses an endpoint for ever that answers, whatever the order of
//     events. A trial frees its place on every verdict, even on [Ignored], and a
//     trial without a verdict is written off after TrialLimit.
//   - It does not take chance for an outage. With Failures at its default, 5 to 20
//     failures in a row open it: more if calls fail now and then anyway, if a
//     running call makes progress ([Pass.Progress]), or if calls are running that
//     began before the failed ones.
//   - It does not take a slow endpoint for a dead one. The limit of a trial starts
//     anew with its progress, and doubles with each trial that is written off.
//   - It does not overload an endpoint that comes back. No more than Trials trials
//     run at once, the cool-down doubles with each failed one, and when it closes,
//     callers in Wait go one by one. A health check can bring a trial forward
//     ([Breaker.Hurry]) or put it off for a while ([Breaker.Postpone]).
//   - A late verdict does not count: neither one of a call from before the last
//     change of state, nor one of a trial that was written off.
//   - OnChange gets changes in order, one at a time, with no lock held.
//   - [Breaker.Acquire] never waits. [Breaker.Wait] ends with its context, and
//     fails at once if the context's deadline comes before the end of the cool-down.
//
// The counting is done by [gobreaker]. There is no goroutine behind a Breaker and
// nothing to close. All methods may be called from any goroutine.
//
// [gobreaker]: https://github.com/sony/gobreaker
package breaker
