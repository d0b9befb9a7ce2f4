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
//     even if the transport ignores it.
//   - Slow is not dead. The long waits have two bounds, and the first one only
//     announces: nothing is cut. Time without output and time without a byte
//     are measured apart. The clocks stop while the consumer does not read, and
//     no clock bounds an answer that is coming.
//   - Every answer is whole. Success means that the end was seen and the
//     content parsed. An answer that is cut, broken or empty is an error, and so
//     is an error inside a 200. The error holds the part that had come, which is
//     never mixed into the next attempt.
//   - No harm. Retries have one owner, wait at least as long as the endpoint
//     asks, and fit into the time that is left. A refusal makes all callers of
//     the endpoint wait. The breaker keeps calls from an endpoint that fails, and
//     they wait for it. An attempt keeps its permit until its body has ended,
//     and gives it back exactly once, however it ends.
//   - The cause is visible. Every failure is an [*Error] with its kind, phase,
//     clock, attempts and the provider's words, and says what to do.
//     [Client.InFlight] lists all calls, what each waits for, and since when.
//   - Keys are in no error, event, log or trace, and neither are prompts and
//     answers, except what an Error has as its Partial.
//
// # How a call goes
//
// [Client.Chat] and [Client.Stream] are one engine and differ in one thing: how
// much of an answer must have come until an attempt commits. Before that, failures
// are retried unseen. A call passes these layers, the innermost last:
//
//	call → retry → wait for the breaker → pacer permit → breaker pass → attempt → classify → settle
//
// [Transport] is the same engine under any other SDK that takes an
// *http.Client. It commits on the first output, like Stream.
//
// Besides the clocks there is evidence: while a call waits for long, its endpoint
// is sent a free probe. An endpoint that answers nothing is found dead long before
// a limit runs out. A request that similar, later ones have overtaken is sent
// again.
//
// If an endpoint refuses to stream, or to count tokens in a stream, the client
// remembers that and asks it in another way.
package llmclient
