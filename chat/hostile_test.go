package chat_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each answer here is a megabyte or two, made to be read again and again by a
// decoder that does anything per piece in proportion to what it has already.
// Read once, each takes a moment; squared, it takes minutes or gigabytes.
func TestHostileAnswersCostTheirSize(t *testing.T) {
	n, size := 20_000, 1<<20
	if underRace {
		n, size = n/8, size/8 // one goroutine decodes: there is little to be seen
	}
	stream := func(piece string) func() []string {
		return func() []string {
			list := make([]string, n)
			for i := range list {
				list[i] = strings.ReplaceAll(piece, "%", fmt.Sprint(i))
			}
			return list
		}
	}
	whole := func(before, piece, after string) func() []string {
		return func() []string { return []string{before + strings.Repeat(piece, size/len(piece)) + after} }
	}
	chunk := func(piece string) func() []string {
		return whole(`{"choices":[{"delta":{"tool_calls":[`, piece+",", `{}]}}]}`)
	}
	for name, make := range map[string]func() []string{
		"calls without anything": chunk(`{}`),
		"calls with a name":      chunk(entry("-", "-", "f", "{}")),
		"one call in pieces that look whole": func() []string {
			return append([]string{piece("0", "a", "f", `{"k":[0`)}, slices.Repeat([]string{piece("0", "a", "f", `,{}`)}, 3*n)...)
		},
		"one call, whole at every piece":      stream(piece("0", "a", "f", `{}`)),
		"one call, whole and then space":      stream(piece("0", "a", "f", ` `)),
		"one call, named once, in pieces":     stream(piece("0", "-", "-", `{"a":{}`)),
		"a name in pieces":                    stream(piece("0", "-", "name%", "-")),
		"a call per id, no index":             stream(piece("-", "id%", "f", "-")),
		"a call per id, one index":            stream(piece("0", "id%", "f", "-")),
		"a call per index":                    stream(piece("%", "-", "f", "-")),
		"pieces by unknown ids":               stream(piece("-", "id%", "-", "{}")),
		"a field per call":                    stream(delta(`"tool_calls":[{"index":0,"x%":1}]`)),
		"a field per chunk":                   stream(`{"choices":[{"y%":1,"delta":{"z%":1}}],"x%":1}`),
		"text in pieces":                      stream(delta(`"content":"text","reasoning":"text","refusal":"text"`)),
		"details of a text in pieces":         stream(delta(`"reasoning_details":[{"type":"reasoning.text","text":"text","index":0}]`)),
		"details that do not join":            stream(delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]`)),
		"small details in one list":           whole(`{"choices":[{"delta":{"reasoning_details":[`, `{"a":1},`, `1]}}]}`),
		"small details in many lists":         stream(delta(`"reasoning_details":[{"a":1},{"a":1},1]`)),
		"halves of characters":                stream(delta(`"content":"\ud83d"`)),
		"halves of characters in arguments":   stream(delta(`"tool_calls":[{"index":%,"function":{"arguments":"{\ud83d"}}]`)),
		"halves of characters in one call":    stream(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}\ud83d"}}]`)),
		"log probabilities":                   stream(`{"choices":[{"logprobs":{"content":[{"token":"x"}]}}]}`),
		"content of many parts":               whole(`{"choices":[{"delta":{"content":[`, `{"type":"text","text":"abc"},`, `""]}}]}`),
		"a thought of many parts":             whole(`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[`, `{"text":"abc"},`, `""]}]}}]}`),
		"many thoughts":                       whole(`{"choices":[{"delta":{"content":[`, `{"type":"thinking","thinking":"abc"},`, `""]}}]}`),
		"details in one list":                 whole(`{"choices":[{"delta":{"reasoning_details":[`, `{"type":"reasoning.text","text":"abc"},`, `1]}}]}`),
		"one key many times":                  whole(`{"choices":[],`, `"x":"abc",`, `"y":1}`),
		"choices many times":                  whole(`{`, `"choices":[{"delta":{"content":"a"}}],`, `"y":1}`),
		"deltas many times":                   whole(`{"choices":[{`, `"delta":{"content":"a","tool_calls":[{}]},`, `"y":1}]}`),
		"messages many times":                 whole(`{"choices":[{`, `"message":{"content":"a","tool_calls":[{}]},`, `"y":1}]}`),
		"many choices":                        whole(`{"choices":[`, `{"delta":{"content":"a"}},`, `{}]}`),
		"an error of many messages":           whole(`{"error":[`, `{"msg":"m"},`, `1]}`),
		"an error in many lists":              whole(`{"detail":`, strings.Repeat("[", 500)+`"m"`+strings.Repeat("]", 500)+`,"detail":`, `1}`),
		"arguments full of escapes":           whole(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"`, `\"\\\u00e9`, `"}}]}}]}`),
		"lists as deep as may be, many times": whole(`{"x":[`, strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`, `1]}`),
		"numbers without end":                 whole(`{"created":`, `1234567890`, `,"choices":[]}`),
		"a fraction without end":              whole(`{"created":1.`, `0000000000`, `,"choices":[]}`),
		"an exponent without end":             whole(`{"created":1e`, `1234567890`, `,"choices":[]}`),
		"an id that is a number without end":  whole(`{"id":`, `1234567890`, `,"choices":[]}`),
		"a text in a string in a string":      whole(`{"error":"`, `{\"error\":`, `"}`),
		"a name that grows":                   func() []string { return growing(1500) },
		"one call, an id per piece": func() []string {
			return append([]string{piece("0", "id", "f", `{"k":[0`)}, stream(piece("0", "id%", "f", `,0`))()...)
		},
		"one call, an index per piece": func() []string {
			return append([]string{piece("0", "id", "f", `{"k":[0`)}, stream(piece("%", "-", "-", `,0`))()...)
		},
		"calls in many choices":       whole(`{"choices":[`, `{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}]}},`, `{}]}`),
		"other calls in many choices": func() []string { return []string{manyChoices(n)} },
		"calls in the old form":       stream(delta(`"function_call":{"name":"f%","arguments":"{}"}`)),
		"calls in both forms":         stream(delta(`"function_call":{"name":"f","arguments":"{"},"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]`)),
		"old forms in one chunk":      whole(`{"choices":[{"delta":{`, `"function_call":{"name":"f","arguments":"{}"},`, `"tool_calls":[{"id":"a"}]}}]}`),
		"arguments again and again":   stream(piece("0", "-", "-", `{"x":1}`)),
		"other arguments behind them": stream(piece("0", "-", "-", `{"x":%}`)),
		"heads that share an id":      stream(piece("%", "a", "f", "")),
		"a field that changes":        stream(delta(`"x":"%"`)),
		"a field of changing members": stream(delta(`"x":{"y":{"z":[%]},"n":%}`)),
		"a field of many members": func() []string {
			return slices.Repeat([]string{delta(`"x":{` + strings.Repeat(`"y":[0],`, 1<<14) + `"z":[0]}`)}, 4)
		},
		"a deep field that changes": func() []string {
			return stream(delta(`"x":` + strings.Repeat(`{"x":`, 100) + "%" + strings.Repeat(`}`, 100)))()[:n/20]
		},
		"a reason with every piece":   stream(`{"choices":[{"delta":{"content":"a"},"finish_reason":"length%"}]}`),
		"thoughts of many parts":      whole(`{"choices":[{"delta":{"reasoning":[`, `{"text":[{"content":"abc"}]},`, `""]}}]}`),
		"texts of many values":        whole(`{"choices":[{"delta":{"content":[`, `{"text":{"value":"abc"}},`, `""]}}]}`),
		"announcements without end":   stream(piece("0", "id%", "f", "")),
		"fields that say nothing":     whole(`{"choices":[{"delta":{"x":[`, `{"a":[{"b":""}]},`, `0]}}]}`),
		"an error that says nothing":  whole(`{"error":[`, `{"message":{"a":[[0]]}},`, `0]}`),
		"errors that say nothing":     whole(`{`, `"error":{"message":null},`, `"y":1}`),
		"messages within messages":    whole(`{"error":[`, strings.Repeat(`{"message":[`, 100)+`"m"`+strings.Repeat(`]}`, 100)+`,`, `1]}`),
		"parts of an unfamiliar kind": whole(`{"choices":[{"delta":{"content":[`, `{"type":"x","x":""},`, `""]}}]}`),
		"an error of strings of JSON": whole(`{"error":[`, `"{\"message\":\"m\"}",`, `1]}`),
	} {
		t.Run(name, func(t *testing.T) {
			chunks := make()
			size := 0
			for _, in := range chunks {
				size += len(in)
			}
			var before, after runtime.MemStats
			var took time.Duration
			for range 3 { // a machine may be busy with something else for once
				runtime.ReadMemStats(&before)
				start := time.Now()

				var a chat.Assembler
				var j chat.Joiner
				var ch chat.Chunk
				for _, in := range chunks {
					_ = ch.UnmarshalJSON([]byte(in))
					a.Add(&ch)
					j.Join(&ch)
				}
				m := a.Response().Message
				b, err := m.AppendJSON(nil)
				require.NoError(t, err)
				require.NoError(t, m.UnmarshalJSON(b))

				took = time.Since(start)
				runtime.ReadMemStats(&after)
				// All that was ever allocated, even if it is free again.
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(60*size+1<<20))
				if took < 5*time.Second {
					break
				}
			}
			assert.Less(t, took, 5*time.Second)
		})
	}
}

// What is kept of an answer is a few times its bytes at most, whatever they are
// made of.
func TestHostileAnswersKeepTheirSize(t *testing.T) {
	const size = 1 << 18
	many := func(piece string, n int) string { return strings.Repeat(piece, n/len(piece)) }
	for name, tc := range map[string]struct {
		chunk string
		n     int
	}{
		"small details":                {delta(`"reasoning_details":[` + many(`{"a":1},`, size) + `1]`), 4},
		"details of a text":            {delta(`"reasoning_details":[` + many(`{"type":"reasoning.text","text":"a"},`, size) + `1]`), 4},
		"details of texts that end":    {delta(`"reasoning_details":[` + many(`{"type":"reasoning.text","signature":1,"text":"a"},`, size) + `1]`), 4},
		"calls with nothing but an id": {delta(`"tool_calls":[` + many(`{"id":"1"},`, 1<<10) + `{}]`), size >> 10},
		"more of them than may be":     {delta(`"tool_calls":[` + many(`{"id":"1"},`, size) + `{}]`), 4},
		"log probabilities":            {`{"choices":[{"logprobs":{"content":[` + many(`1,`, size) + `1]}}]}`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var a chat.Assembler
			for range tc.n {
				if ch, err := chat.ParseChunk([]byte(tc.chunk)); err == nil {
					a.Add(ch)
				}
			}
			resp := a.Response()
			runtime.GC()
			runtime.ReadMemStats(&after)
			assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(6*tc.n*len(tc.chunk)))
			runtime.KeepAlive(&a)
			runtime.KeepAlive(resp)
		})
	}
}

// manyChoices is an answer of n choices with a call each.
func manyChoices(n int) string {
	var b strings.Builder
	b.WriteString(`{"choices":[`)
	for i := range n {
		fmt.Fprintf(&b, `{"message":{"tool_calls":[{"function":{"name":"f%d"}}]}},`, i%chat.MaxToolCalls)
	}
	return b.String() + `{}]}`
}

// growing is a stream in which each piece has the name so far, and so is
// itself as large as the square of their number.
func growing(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = piece("0", "-", strings.Repeat("n", i+1), "-")
	}
	return list
}

// Forms that are legal JSON and make no sense: none panics, none fails what
// can still be read.
func TestOddAnswers(t *testing.T) {
	deep := strings.Repeat("[", 400) + strings.Repeat("]", 400)
	for name, in := range map[string]string{
		"deep in the choice":       `{"choices":[{"x":` + deep + `,"delta":{"content":"a"}}]}`,
		"deep in the arguments":    `{"choices":[{"delta":{"content":"a","tool_calls":[{"function":{"arguments":` + deep + `}}]}}]}`,
		"numbers beyond all types": `{"created":1e999999999,"x":-1e999999999,"choices":[{"index":1e99,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1e99}}`,
		"names that are empty":     `{"":"","choices":[{"":0,"delta":{"":[],"content":"a"}}]}`,
		"names with NUL":           `{"\u0000":1,"choices":[{"delta":{"content":"a"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			ch, err := chat.ParseChunk([]byte(in))
			require.NoError(t, err)
			assert.Equal(t, "a", ch.Content)
			assert.Nil(t, ch.Error)
			b, err := json.Marshal(assemble(t, in).Message)
			require.NoError(t, err)
			assert.True(t, json.Valid(b))
		})
	}
}
