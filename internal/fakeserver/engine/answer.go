package engine

import (
	"strconv"
	"unicode/utf8"

	"github.com/neverhang/neverhang/chat"
)

// An answer is what a model says, token by token.
type answer interface {
	delta(b []byte, token int) []byte // the delta object of a token
	message(b []byte, tokens int) []byte
	finish(end Result) string
}

// words is text that follows from a number: cheap to make, and never the same
// fragment over and over.
type words struct{ seed uint64 }

var vocabulary = [64]string{
	" the", " a", " system", " waits", " for", " each", " answer", " and", " then", " it", " goes", " on",
	" with", " work", " that", " was", " left", " before", " one", " of", " many", " small", " steps",
	" is", " done", " when", " all", " parts", " are", " in", " place", " so", " we", " look", " at",
	" what", " came", " first", " to", " see", " how", " long", " this", " took", " under", " load",
	" again", " until", " nothing", " more", " can", " be", " found", " there", " by", " anyone", " who",
	" reads", " from", " top", " down", " line", " after", " page",
}

func (a *words) word(i int) string { return vocabulary[mix(a.seed^uint64(i))%uint64(len(vocabulary))] }

func (a *words) delta(b []byte, token int) []byte {
	b = append(b, `{"content":"`...)
	b = append(b, a.word(token)...)
	return append(b, `"}`...)
}

func (a *words) message(b []byte, tokens int) []byte {
	b = append(b, `{"role":"assistant","content":"`...)
	for i := range tokens {
		b = append(b, a.word(i)...)
	}
	return append(b, `"}`...)
}

func (a *words) finish(end Result) string { return string(end) }

// given is an answer that somebody else has made.
type given struct {
	chat.Message
	reason chat.FinishReason
	pieces []piece
}

// A piece is a token of an answer.
type piece struct {
	key   string // of the text in the delta; empty for a tool call
	call  int
	first bool // of its call
	text  string
}

// pieceSize is how many bytes of a given answer make a token.
const pieceSize = 4

func newGiven(resp *chat.Response) *given {
	if resp == nil {
		resp = new(chat.Response)
	}
	a := &given{Message: resp.Message, reason: resp.FinishReason}
	a.cut(a.reasoningKey(), 0, a.Reasoning)
	a.cut("content", 0, a.Content)
	for i, c := range a.ToolCalls {
		a.cut("", i, c.Arguments)
	}
	return a
}

func (a *given) reasoningKey() string {
	if a.ReasoningKey == "" || a.ReasoningKey == "content" {
		return "reasoning_content"
	}
	return a.ReasoningKey
}

// cut adds the pieces of a text. A call has one even without arguments.
func (a *given) cut(key string, call int, s string) {
	for first := key == ""; s != "" || first; first = false {
		n := min(pieceSize, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++
		}
		a.pieces = append(a.pieces, piece{key, call, first, s[:n]})
		s = s[n:]
	}
}

func (a *given) delta(b []byte, token int) []byte {
	if token >= len(a.pieces) {
		return append(b, "{}"...)
	}
	p := a.pieces[token]
	if p.key != "" {
		b = append(appendString(append(b, '{'), p.key), ':')
		return append(appendString(b, p.text), '}')
	}
	b = append(b, `{"tool_calls":[{"index":`...)
	b = strconv.AppendInt(b, int64(p.call), 10)
	b = append(b, ',')
	if p.first {
		b = appendCall(b, a.ToolCalls[p.call], p.text)
	} else {
		b = append(b, `"function":{"arguments":`...)
		b = append(appendString(b, p.text), '}')
	}
	return append(b, "}]}"...)
}

// appendCall writes the fields of a tool call.
func appendCall(b []byte, c chat.ToolCall, args string) []byte {
	b = append(b, `"id":`...)
	b = appendString(b, c.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = appendString(b, c.Name)
	b = append(b, `,"arguments":`...)
	return append(appendString(b, args), '}')
}

func (a *given) message(b []byte, _ int) []byte {
	b = append(b, `{"role":"assistant","content":`...)
	if a.Content == "" && len(a.ToolCalls) > 0 {
		b = append(b, "null"...)
	} else {
		b = appendString(b, a.Content)
	}
	if a.Reasoning != "" {
		b = append(appendString(append(b, ','), a.reasoningKey()), ':')
		b = appendString(b, a.Reasoning)
	}
	for i, c := range a.ToolCalls {
		open := `,{`
		if i == 0 {
			open = `,"tool_calls":[{`
		}
		b = append(appendCall(append(b, open...), c, c.Arguments), '}')
	}
	if len(a.ToolCalls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (a *given) finish(end Result) string {
	switch {
	case end != Stopped:
		return string(end)
	case a.reason != "":
		return string(a.reason)
	case len(a.ToolCalls) > 0:
		return "tool_calls"
	}
	return string(end)
}
