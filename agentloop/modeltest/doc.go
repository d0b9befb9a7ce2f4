// Package modeltest checks that something is a [agentloop.Model]: that it keeps
// what the loop relies on, whatever its other side does.
//
// Whoever implements a Model puts it into some situations, and asks [Check] in a
// test:
//
//	func TestModel(t *testing.T) {
//		err := modeltest.Check(t.Context(), func(s modeltest.Situation) (agentloop.Model, func(), error) {
//			srv := newServer(s) // answers, is silent, is busy …
//			return mymodel.New(srv.URL), srv.Close, nil
//		})
//		if err != nil {
//			t.Error(err)
//		}
//	}
//
// # What is checked
//
//   - An answer comes whole: its text, its calls, in order. There is never
//     neither an answer nor an error.
//   - The end of its context ends a call within [Patience], with that as the
//     error, also while nothing comes.
//   - The request is only read: also by many calls at the same time, with one
//     request.
//   - Faults are what they are: one that passes is Retryable, one that does not
//     is not; a conversation that is too long is not tried again; calls that a
//     token limit cut are told from whole ones.
//   - While an answer comes there is a sign of life for the watchdog.
//   - Nothing is left running when the model is closed.
//
// It imports no test library, so it costs nobody's program anything.
package modeltest
