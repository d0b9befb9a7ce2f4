// Package llmclient calls language models over OpenAI-compatible chat
// completions, in a way that cannot hang.
//
//	client, err := llmclient.New(llmclient.Config{
//		BaseURL: "http://localhost:30000/v1",
//		Model:   "my-model",
//	})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	resp, err := client.Chat(ctx, &chat.Request{
//		Messages: []chat.Message{chat.User("Why is the sky blue?")},
//	})
//
// # What it promises
//
//   - Every call returns. With no configuration at all, each wait of a call is
//     bounded by a clock of its own: [Clocks]. A bound that runs out is an
//     [Error] that says which clock it was, in which phase, after how long, on
//     which attempt. The caller's context ends a call at once, in every phase,
//     also over transports that ignore it.
//   - Slow is not dead. The long waits have two bounds: at the first nothing
//     is cut, only announced. Time without output and time without a byte are
//     measured apart, a consumer that takes its time stops the clocks, and
//     nothing bounds an answer that is coming.
//   - Every answer is whole. Success means that the end was seen and the
//     content parsed. What is cut, broken, empty, or an error dressed as a 200
//     is an error, with what had come attached and never mixed into the next
//     attempt.
//   - No harm. Retries have one owner, wait at least as long as the endpoint
//     asks, and end where the time does. A refusal makes all callers of the
//     endpoint wait. An endpoint that fails is left alone by its breaker, and
//     callers wait for it. What an attempt holds, it holds to the end of its
//     body, and gives back once, on every way out.
//   - The cause is visible. Every failure is an [*Error] with its kind, phase,
//     clock, attempts and the provider's words, and says what to do.
//     [Client.InFlight] lists who waits for what since when.
//   - Keys are in no error, event, log or trace, and neither are prompts and
//     answers, except what an Error has as its Partial.
//
// # How a call goes
//
// [Client.Chat] and [Client.Stream] are one engine and differ in one thing:
// how much of an answer must have come before an attempt is the one that
// counts. Until then failures are retried unseen. The way of a call, innermost
// last, is
//
//	call → retry → wait for the breaker → pacer permit → breaker pass → attempt → classify → settle
//
// [Transport] is the same engine under any other SDK that takes an
// *http.Client. It commits on the first output, like Stream.
//
// Beside the clocks there is evidence: while a call waits for long, the endpoint
// is asked a free question. One that answers nothing is known to be dead long
// before a limit, and a request that like ones have overtaken is sent again.
//
// An endpoint that refuses to stream, or to count tokens in a stream, is
// remembered and spoken to in its way.
package llmclient
