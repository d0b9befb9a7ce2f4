// Package chat holds the types that a harness and a model exchange over
// OpenAI-compatible chat completions: [Request], [Message], [Tool],
// [ToolCall], [Response], [Chunk] and [Usage], and their decoding.
//
// It opens no connection, starts no goroutine and imports nothing but the
// standard library, so agents, clients and tests can all use it without
// depending on each other.
//
// # What it promises
//
//   - Decoding is liberal and exact. Servers disagree about null, absent and
//     empty, about strings and lists, about where reasoning goes and whether a
//     tool call has an index; all known forms give the same values here.
//     Fields that have no place in the types are kept in Extra, byte for byte.
//     Fields that a server may refuse later stay out of the conversation.
//   - Encoding is strict. [Request.AppendJSON] writes valid JSON that a server
//     with a closed schema accepts: no null content where a string is expected,
//     no empty list of tool calls, arguments always a string that holds an
//     object, no name twice. Equal requests give equal bytes.
//   - One server refuses fields of a conversation that another one demands, such
//     as reasoning. A [Form] describes what a server accepts.
//   - An [Assembler] turns the chunks of a stream into the [Response] that a
//     plain call would have returned, however the server cut it up, even within
//     a character. A [Joiner] does the same for callers that read the chunks.
//   - Empty values change nothing. An answer is healthy even if it has a finish
//     reason of "null", an error without a message, or an event about a place in
//     a queue.
//   - Nothing that a server sends makes it panic, and each answer costs time
//     and memory in proportion to its size, even a hostile one. The reader of
//     the connection has to bound that size.
//   - Values are plain. They can be built as literals, copied and edited at any
//     time; nothing is cached inside them. They are safe for concurrent use as
//     long as nobody writes to them.
//
// A conversation is a slice of messages:
//
//	req := &chat.Request{
//		Model:    "my-model",
//		Messages: []chat.Message{chat.System("Be brief."), chat.User("Why is the sky blue?")},
//	}
package chat
