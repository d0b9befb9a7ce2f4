package chat_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// show joins what a reader of the chunks of a stream sees.
func show(t testing.TB, chunks ...string) (shown string, pieces []string) {
	t.Helper()
	var j chat.Joiner
	var ch chat.Chunk
	see := func(ch *chat.Chunk) {
		s := ch.Reasoning + ch.Content + ch.Refusal
		for _, d := range ch.ToolCalls {
			s += d.Arguments
		}
		shown += s
		pieces = append(pieces, s)
	}
	for _, in := range chunks {
		require.NoError(t, ch.UnmarshalJSON([]byte(in)), in)
		j.Join(&ch)
		see(&ch)
	}
	if rest := j.Rest(); rest != nil {
		see(rest)
	}
	require.Nil(t, j.Rest())
	return shown, pieces
}

// said is what an assembler makes of the chunks.
func said(t testing.TB, chunks ...string) string {
	t.Helper()
	m := assemble(t, chunks...).Message
	s := m.Reasoning + m.Content + m.Refusal
	for _, c := range m.ToolCalls {
		s += c.Arguments
	}
	return s
}

func TestCutCharacters(t *testing.T) {
	text := func(member string, pieces ...string) (chunks []string) {
		for _, s := range pieces {
			chunks = append(chunks, delta(`"`+member+`":"`+s+`"`))
		}
		return chunks
	}
	call := func(members, args string) string {
		return delta(`"tool_calls":[{` + members + `"function":{"arguments":"` + args + `"}}]`)
	}
	for name, tc := range map[string]struct {
		chunks []string
		want   []string // what is seen, piece by piece
	}{
		"surrogates in the content":     {text("content", `a\ud83d`, `\ude00b`), []string{"a", "😀b"}},
		"surrogates in capitals":        {text("content", `a\uD83D`, `\uDE00b`), []string{"a", "😀b"}},
		"surrogates in the reasoning":   {text("reasoning_content", `a\ud83d`, `\ude00b`), []string{"a", "😀b"}},
		"surrogates in the thinking":    {text("thinking", `a\ud83d`, `\ude00b`), []string{"a", "😀b"}},
		"surrogates in the refusal":     {text("refusal", `a\ud83d`, `\ude00b`), []string{"a", "😀b"}},
		"surrogates behind escapes":     {text("content", `\\\ud83d`, `\ude00\\`), []string{`\`, `😀\`}},
		"no surrogates, but their name": {text("content", `\\ud83d`, `\\ude00`), []string{`\ud83d`, `\ude00`}},
		"nothing but halves":            {text("content", `\ud83d`, `\ude00`), []string{"", "😀"}},
		"a half at both ends":           {text("content", `\ud83d`, `\ude00\ud83d`, `\ude01`), []string{"", "😀", "😁"}},
		"an empty piece between":        {text("content", `a\ud83d`, ``, `\ude00`), []string{"a", "", "😀"}},
		"two bytes and two":             {text("content", "a\xf0\x9f", "\x98\x80b"), []string{"a", "😀b"}},
		"bytes one by one":              {text("content", "\xf0", "\x9f", "\x98", "\x80"), []string{"", "", "", "😀"}},
		"bytes beside escapes":          {text("content", "\\n\xc3", "\xa9\\n"), []string{"\n", "é\n"}},
		"a half that stays alone":       {text("content", `a\ud83d`, `b`), []string{"a", "\uFFFDb"}},
		"bytes that stay alone":         {text("content", "a\xf0\x9f", "b"), []string{"a", "\uFFFD\uFFFDb"}},
		"a half at the end":             {text("content", `a\ud83d`), []string{"a", "\uFFFD"}},
		"bytes at the end":              {text("content", "a\xf0\x9f"), []string{"a", "\uFFFD\uFFFD"}},
		"a second half alone":           {text("content", `a`, `\ude00b`), []string{"a", "\uFFFDb"}},
		"two first halves":              {text("content", `\ud83d`, `\ud83d`, `\ude00`), []string{"", "\uFFFD", "😀"}},
		"continuations without end":     {text("content", "\x80\x80\x80\x80\x80"), []string{strings.Repeat("\uFFFD", 5)}},
		"parts of a content": {
			[]string{delta(`"content":[{"type":"text","text":"a\ud83d"}]`), delta(`"content":["\ude00",{"text":"b\ud83d"},{"text":"\ude01"}]`)},
			[]string{"a", "😀b😁"},
		},
		"parts of a thought": {
			[]string{delta(`"content":[{"type":"thinking","thinking":[{"text":"a\ud83d"}]}]`), delta(`"content":[{"type":"thinking","thinking":"\ude00"}]`)},
			[]string{"a", "😀"},
		},
		"details of a thought": {
			[]string{delta(`"reasoning_details":[{"type":"reasoning.text","text":"a\ud83d"}]`), delta(`"reasoning_details":[{"type":"reasoning.text","text":"\ude00"}]`)},
			[]string{"a", "😀"},
		},
		"the halves of two texts, crosswise": {
			[]string{delta(`"content":"\ud83d"`), delta(`"refusal":"\ud83d"`), delta(`"content":"\ude00"`), delta(`"refusal":"\ude01"`)},
			[]string{"", "", "😀", "😁"},
		},
		"arguments": {
			[]string{call(`"index":0,"id":"a",`, `{\"t\":\"\ud83d`), call(`"index":0,`, `\ude00\"}`)},
			[]string{`{"t":"`, `😀"}`},
		},
		"arguments of two calls, crosswise": {
			[]string{call(`"index":0,`, `{\"t\":\"\ud83d`), call(`"index":1,`, `{\"t\":\"\ud83d`), call(`"index":0,`, `\ude00\"}`), call(`"index":1,`, `\ude01\"}`)},
			[]string{`{"t":"`, `{"t":"`, `😀"}`, `😁"}`},
		},
		"arguments without an index": {
			[]string{call(`"id":"a",`, `{\"t\":\"\ud83d`), call(``, `\ude00\"}`)},
			[]string{`{"t":"`, `😀"}`},
		},
		"arguments with a new index in every piece": {
			[]string{call(`"index":0,"id":"a",`, `{\"t\":\"\ud83d`), call(`"index":1,`, `\ude00\"}`)},
			[]string{`{"t":"`, `😀"}`},
		},
		"arguments that are a JSON escape": {
			[]string{call(`"index":0,`, `{\"t\":\"\\ud83d`), call(`"index":0,`, `\\ude00\"}`)},
			[]string{`{"t":"\ud83d`, `\ude00"}`},
		},
		"arguments that break off": {
			[]string{call(`"index":0,`, `{\"t\":\"\ud83d`)},
			[]string{`{"t":"`, "\uFFFD"},
		},
		"more calls at once than are remembered": {
			func() (chunks []string) {
				for i := range 17 {
					chunks = append(chunks, call(fmt.Sprintf(`"index":%d,"id":"%d",`, i, i), `{\ud83d`))
				}
				return append(chunks, call(`"index":16,`, `\ude00`), call(`"index":15,`, `\ude00`))
			}(),
			append(append(strings.Split(strings.Repeat("{", 16), ""), "{\uFFFD", "\uFFFD", "😀"), strings.Repeat("\uFFFD", 15)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			shown, pieces := show(t, tc.chunks...)
			assert.Equal(t, tc.want, pieces)
			if len(tc.chunks) < 10 && !strings.Contains(name, "crosswise") {
				assert.Equal(t, shown, said(t, tc.chunks...))
			}
		})
	}
}

// Calls that are written at the same time, each cut within a character, are
// each put together.
func TestCutCharactersOfSeveralCalls(t *testing.T) {
	got := assemble(t,
		pieces(entry("0", "a", "f", ""), entry("1", "b", "g", "")),
		delta(`"tool_calls":[{"index":0,"function":{"arguments":"{\"t\":\"\ud83d"}},{"index":1,"function":{"arguments":"{\"t\":\"\ud83d"}}]`),
		delta(`"tool_calls":[{"index":1,"function":{"arguments":"\ude01\"}"}},{"index":0,"function":{"arguments":"\ude00\"}"}}]`),
		delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"t\": \"😀\"}"}}]`), // once more
	).Message.ToolCalls
	assert.Equal(t, []chat.ToolCall{
		{ID: "a", Name: "f", Arguments: `{"t":"😀"}`}, {ID: "b", Name: "g", Arguments: `{"t":"😁"}`},
	}, got)
}

// What a chunk says by itself, and what a reader has made of it, counts.
func TestCutChunksAreChunks(t *testing.T) {
	ch, err := chat.ParseChunk([]byte(delta(`"content":"a\ud83d"`)))
	require.NoError(t, err)
	assert.Equal(t, "a\uFFFD", ch.Content)

	var a chat.Assembler
	a.Add(ch)
	assert.Equal(t, "a\uFFFD", a.Response().Message.Content)
	assert.Equal(t, "a\uFFFD", ch.Content)
	ch.Content = "edited"
	a.Add(ch)
	assert.Equal(t, "a\uFFFDedited", a.Response().Message.Content)

	// A whole message has what was held back, and holds nothing back.
	var j chat.Joiner
	ch, err = chat.ParseChunk([]byte(delta(`"content":"a\ud83d"`)))
	require.NoError(t, err)
	j.Join(ch)
	whole, err := chat.ParseChunk([]byte(`{"choices":[{"message":{"content":"a😀\ud83d"},"finish_reason":"stop"}]}`))
	require.NoError(t, err)
	j.Join(whole)
	assert.Equal(t, "a😀\uFFFD", whole.Content)
	assert.Nil(t, j.Rest())
	a = chat.Assembler{}
	a.Add(ch)
	a.Add(whole)
	assert.Equal(t, "a😀\uFFFD", a.Response().Message.Content)
}

func TestJoinCostsNothingIfNothingIsCut(t *testing.T) {
	ch, err := chat.ParseChunk([]byte(delta(`"content":"a\n😀","tool_calls":[{"index":0,"function":{"arguments":"{"}}]`)))
	require.NoError(t, err)
	var j chat.Joiner
	assert.Zero(t, testing.AllocsPerRun(100, func() { j.Join(ch) }))
	assert.Equal(t, "a\n😀", ch.Content)
	assert.Nil(t, j.Rest())
}

// FuzzJoiner: a text that is cut anywhere, as bytes or as escapes, comes out as
// it was, for readers of the pieces and of the whole.
func FuzzJoiner(f *testing.F) {
	f.Add("a😀é\\n", uint64(0b1011), true)
	f.Add("😀😁\u2028x", uint64(0b1111111), false)
	f.Fuzz(func(t *testing.T, text string, cuts uint64, escapes bool) {
		text = strings.ToValidUTF8(text, "?")
		var units []string // that a server may cut between
		if escapes {
			for _, u := range utf16.Encode([]rune(text)) {
				units = append(units, fmt.Sprintf(`\u%04x`, u))
			}
		} else {
			for i := range len(text) {
				if b := text[i]; b < 0x20 || b == '"' || b == '\\' {
					units = append(units, fmt.Sprintf(`\u%04x`, b))
				} else {
					units = append(units, text[i:i+1])
				}
			}
		}
		chunks := []string{""}
		for i, u := range units {
			if cuts>>(i%64)&1 == 1 {
				chunks = append(chunks, "")
			}
			chunks[len(chunks)-1] += u
		}
		for i := range chunks {
			chunks[i] = delta(`"content":"` + chunks[i] + `"`)
		}
		shown, _ := show(t, chunks...)
		require.Equal(t, text, shown)
		require.Equal(t, text, said(t, chunks...))
	})
}
