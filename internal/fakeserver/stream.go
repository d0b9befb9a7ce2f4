package fakeserver

import (
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// Role sends the chunk that only tells the role, with which most streams
// begin.
func Role() Step {
	return Step{"role", func(t *turn) error {
		return t.chunk(&chat.Chunk{Role: chat.RoleAssistant})
	}}
}

// Text sends a piece of text.
func Text(text string) Step {
	return Step{"text(" + short(text) + ")", func(t *turn) error {
		return t.chunk(&chat.Chunk{Content: text})
	}}
}

// Reasoning sends a piece of reasoning as reasoning_content.
func Reasoning(text string) Step { return ReasoningAs("reasoning_content", text) }

// ReasoningAs sends a piece of reasoning under another key, such as
// reasoning.
func ReasoningAs(key, text string) Step {
	return Step{key + "(" + short(text) + ")", func(t *turn) error {
		return t.chunk(&chat.Chunk{Reasoning: text, ReasoningKey: key})
	}}
}

// CallTool sends a whole tool call in one chunk.
func CallTool(id, name, args string) Step { return CallToolIn(1, id, name, args) }

// CallToolIn sends a tool call with its arguments in n chunks of about equal
// size: id and name come with the first. With n of 0 or less, they come in a
// chunk of their own and the arguments in another.
func CallToolIn(n int, id, name, args string) Step {
	return Step{"call(" + name + " " + short(args) + ")", func(t *turn) error {
		index := t.calls
		t.calls++
		first := chat.ToolCallDelta{Index: index, ID: id, Name: name}
		pieces := cutText(args, n)
		if n <= 0 {
			if err := t.chunk(&chat.Chunk{ToolCalls: []chat.ToolCallDelta{first}}); err != nil {
				return err
			}
			first = chat.ToolCallDelta{Index: index}
		}
		for i, piece := range pieces {
			d := first
			if i > 0 {
				d = chat.ToolCallDelta{Index: index}
			}
			d.Arguments = piece
			if err := t.chunk(&chat.Chunk{ToolCalls: []chat.ToolCallDelta{d}}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// ToolDelta sends a piece of a tool call just as given. An index of -1 and
// empty texts are left out.
func ToolDelta(index int, id, name, args string) Step {
	return Step{"tool-delta(" + strconv.Itoa(index) + " " + id + " " + name + " " + short(args) + ")", func(t *turn) error {
		t.calls = max(t.calls, index+1)
		return t.chunk(&chat.Chunk{ToolCalls: []chat.ToolCallDelta{{Index: index, ID: id, Name: name, Arguments: args}}})
	}}
}

// Finish sends the finish reason.
func Finish(reason string) Step {
	return Step{"finish(" + reason + ")", func(t *turn) error {
		return t.chunk(&chat.Chunk{FinishReason: chat.FinishReason(reason)})
	}}
}

// Usage sends the chunk that counts tokens, whether it was asked for or not.
func Usage(prompt, completion int) Step {
	return Step{"usage(" + strconv.Itoa(prompt) + " " + strconv.Itoa(completion) + ")", func(t *turn) error {
		return t.usage(int64(prompt), int64(completion))
	}}
}

// Counted sends an estimate of the tokens used, if the client asked for it or
// did not ask for a stream.
func Counted() Step {
	return Step{"counted", func(t *turn) error {
		if !t.plain && !t.req.IncludeUsage {
			return nil
		}
		return t.usage(int64(len(t.req.Body)/4), t.tokens)
	}}
}

func (t *turn) usage(prompt, completion int64) error {
	return t.chunk(&chat.Chunk{Usage: &chat.Usage{
		PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion,
	}})
}

// Done sends [DONE].
func Done() Step {
	return Step{"done", func(t *turn) error {
		if t.plain {
			return nil
		}
		return t.event("data: [DONE]\n\n")
	}}
}

// End sends all that ends a healthy answer: the finish reason, the tokens
// used if asked for, and [DONE].
func End(reason string) Step { return Reply(Finish(reason), Counted(), Done()) }

// Answer is a whole healthy answer, a word to a chunk.
func Answer(text string) Step {
	steps := []Step{Role()}
	for _, w := range words(text) {
		steps = append(steps, Text(w))
	}
	steps = append(steps, End("stop"))
	return Step{"answer(" + short(text) + ")", Reply(steps...).run}
}

// AnswerCall is a whole healthy answer that calls one tool.
func AnswerCall(id, name, args string) Step {
	return Reply(Role(), CallToolIn(3, id, name, args), End("tool_calls"))
}

// Drip sends text a word to a chunk, with a pause before each.
func Drip(pause time.Duration, text string) Step {
	var steps []Step
	for _, w := range words(text) {
		steps = append(steps, Pause(pause), Text(w))
	}
	return Step{"drip(" + pause.String() + " " + short(text) + ")", Reply(steps...).run}
}

// Endless sends tokens for ever: the numbers from 1.
func Endless(every time.Duration) Step {
	every = max(every, shortest)
	return Step{"endless(" + every.String() + ")", func(t *turn) error {
		for i := 1; ; i++ {
			if err := t.chunk(&chat.Chunk{Content: strconv.Itoa(i) + " "}); err != nil {
				return err
			}
			if err := t.sleep(every); err != nil {
				return err
			}
		}
	}}
}

// Stuck sends the same piece of text for ever, as models do that have lost
// their way.
func Stuck(every time.Duration, text string) Step {
	return Step{"stuck(" + every.String() + " " + short(text) + ")", Repeat(-1, every, Text(text)).run}
}

// Huge sends one event whose text has size bytes.
func Huge(size int) Step {
	return Step{"huge(" + strconv.Itoa(size) + ")", func(t *turn) error {
		return t.chunk(&chat.Chunk{Content: strings.Repeat("x", max(size, 0))})
	}}
}

// words cuts a text before each word, so that the pieces joined are the text.
func words(text string) []string {
	var out []string
	start := 0
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' && text[i-1] != ' ' {
			out = append(out, text[start:i])
			start = i
		}
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// cutText cuts a text into at most n pieces, between characters.
func cutText(text string, n int) []string {
	r := []rune(text)
	size := max((len(r)+n-1)/max(n, 1), 1)
	if n <= 1 {
		return []string{text}
	}
	var out []string
	for len(r) > 0 {
		k := min(size, len(r))
		out = append(out, string(r[:k]))
		r = r[k:]
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out
}
