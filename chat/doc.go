// Package chat holds the words that a harness and a model exchange over
// OpenAI-compatible chat completions: [Request], [Message], [Tool],
// [ToolCall], [Response], [Chunk] and [Usage], and their decoding.
//
// It is a leaf: it opens no connection, starts no goroutine and imports
// nothing but the standard library, so agents, clients and tests can all
// speak it without depending on each other.
//
// # What it promises
//
//   - Decoding is liberal and exact. Servers disagree about null, absent and
//     empty, about strings and lists, about where reasoning goes and whether a
//     tool call has an index; all known forms give the same values here.
//     Fields that have no place in the types are kept in Extra, byte for byte.
//     What a server may not want back stays out of the conversation.
//   - Encoding is strict. What [Request.AppendJSON] writes is valid JSON that a
//     server with a closed schema accepts: no null content where a string is
//     due, no empty list of tool calls, arguments always a string that holds an
//     object, no name twice. Equal requests give equal bytes.
//   - What one server demands in a conversation another refuses: reasoning, and
//     fields of its own. A [Form] says what goes to whom.
//   - An [Assembler] turns the chunks of a stream into the [Response] that a
//     plain call would have returned, however the server cut it up, within a
//     character too. Who reads the chunks themselves has a [Joiner] for that.
//   - What says nothing changes nothing. A finish reason of "null", an error
//     without a word, an event about a place in a queue: a healthy answer with
//     them is a healthy answer.
//   - Nothing that a server sends makes it panic, and each answer costs time
//     and memory in proportion to its size, hostile ones too. How large it may
//     be is for the reader below to say.
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
