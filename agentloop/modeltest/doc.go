// Package modeltest checks that something is an [agentloop.Model]: that it keeps
// the promises that the loop relies on, whatever the server does.
//
// A test of your own Model tells [Check] how to put it into each [Situation]:
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
//   - An answer comes whole: its text, its calls, in order. Without an answer there
//     is an error.
//   - The end of its context ends a call within [Patience], even while the server is
//     silent; the error matches that of the context.
//   - The request is only read, even by many calls at the same time.
//   - A passing fault is Retryable, a lasting one is not. A conversation that is too
//     long is not tried again. Calls that a token limit cut are told from whole ones.
//   - While an answer streams there are signs of life for the watchdog.
//   - Nothing is left running when the model is closed.
//
// The package imports no test library, so none gets into a program that uses it.
package modeltest
