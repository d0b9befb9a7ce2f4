package chat_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/require"
)

// seeds are chunks, answers, messages and errors of all kinds.
var seeds = []string{
	`{"id":"r","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"a","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]},"finish_reason":null}],"usage":{"prompt_tokens":1}}`,
	`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"text":"h"}]},"x",{"type":"image_url","image_url":{}}],"reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}]},"logprobs":{"content":[{}],"refusal":null}}]}`,
	`{"role":"assistant","content":null,"tool_calls":{"name":"f","arguments":{"a":[]}},"function_call":{"name":"g"},"x":1}`,
	`{"role":"user","content":{"type":"text","text":"a"},"name":"n","tool_call_id":7}`,
	`{"error":{"error":{"message":"m","code":429,"metadata":{"error_type":"x"}}},"base_resp":{"status_code":1}}`,
	`[{"error":"{\"detail\":[{\"msg\":\"m\"}]}"}]`, `"\"{}\""`, `{"x_groq":{"usage":{"total_tokens":1},"error":"e"}}`,
	`{"choices":[{"message":{"content":"a"}},{"message":{"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}{}"}}],"reasoning":[{"text":"a"}]},"finish_reason":"length"}]}`,
	`{"choices":[{"text":"a","index":0},{"index":0,"delta":{"content":[{"type":"text","text":{"value":"b"}}],"reasoning_text":"c","refusal":"d","name":"e","x":["f"]}}]}`,
	`{"choices":{"delta":{"reasoning":"a","reasoning_content":"b","thinking":"c"}},"service_tier":"auto"}`,
}

// FuzzDecode: nothing panics, what is read can be sent, and what was sent
// reads the same again.
func FuzzDecode(f *testing.F) {
	for _, in := range seeds {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		valid := json.Valid(in)
		if ch, err := chat.ParseChunk(in); err == nil {
			require.True(t, valid)
			requireRaw(t, ch.Extra, ch.ChoiceExtra, ch.DeltaExtra)
			if ch.Error != nil {
				requireWords(t, ch.Error.Message)
				require.True(t, json.Valid(ch.Error.Raw))
			}
			var a chat.Assembler
			a.Add(ch)
			a.Add(ch)
			requireSendable(t, a.Response())
		}
		if resp, failure, err := chat.ParseResponse(in); err == nil {
			require.True(t, valid)
			require.NotEqual(t, resp == nil, failure == nil)
			if resp != nil {
				requireSendable(t, resp)
			}
		}
		if e := chat.ParseError(in); e != nil {
			require.True(t, valid)
			requireWords(t, e.Message)
			require.Equal(t, string(bytes.TrimSpace(in)), string(e.Raw))
		}
		var m chat.Message
		if m.UnmarshalJSON(in) == nil {
			require.True(t, valid)
			requireStable(t, m)
		}
	})
}

// FuzzAssembler: any sequence of chunks, as lines of JSON, comes to a message
// that can be sent.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte(piece("0", "a", "f", `{"x"`) + "\n" + piece("0", "-", "f", `:1}`) + "\n" + piece("-", "b", "g", `{}`)))
	f.Add([]byte(pieces(entry("0", "", "f", ""), entry("0", "", "f", "{}")) + "\n" + piece("1", "a", "-", "-")))
	f.Add([]byte(delta(`"content":"a\ud83d"`) + "\n" + delta(`"content":"\ude00\ud83d"`) + "\n" + delta("\"content\":\"\xf0\x9f\"")))
	for _, in := range seeds {
		f.Add([]byte(in + "\n" + in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var a chat.Assembler
		var j chat.Joiner
		var ch chat.Chunk
		text, pieces := 0, 0
		shown, whole := "", false
		for line := range bytes.Lines(in) {
			if ch.UnmarshalJSON(line) != nil {
				continue
			}
			a.Add(&ch)
			text += len(ch.Content)
			pieces += len(ch.ToolCalls)
			whole = whole || ch.Whole
			j.Join(&ch)
			requireWholeCharacters(t, &ch)
			shown += ch.Content
		}
		r := a.Response()
		if rest := j.Rest(); rest != nil {
			requireWholeCharacters(t, rest)
			shown += rest.Content
		}
		if !whole {
			require.Equal(t, r.Message.Content, shown)
		}
		requireSendable(t, r)
		require.LessOrEqual(t, len(r.Message.Content), text)
		require.LessOrEqual(t, len(r.Message.ToolCalls), pieces)
		require.Equal(t, r, a.Response())
	})
}

func requireWholeCharacters(t *testing.T, ch *chat.Chunk) {
	require.True(t, utf8.ValidString(ch.Content))
	require.True(t, utf8.ValidString(ch.Reasoning))
	require.True(t, utf8.ValidString(ch.Refusal))
	for _, d := range ch.ToolCalls {
		require.True(t, utf8.ValidString(d.Arguments))
	}
}

// requireWords checks that a message is not the JSON of something. Several that
// were joined may look like some by chance.
func requireWords(t *testing.T, s string) {
	s = strings.TrimSpace(s)
	if s != "" && (s[0] == '{' || s[0] == '[') && !strings.Contains(s, "; ") {
		require.False(t, json.Valid([]byte(s)), "%s", s)
	}
}

func requireRaw(t *testing.T, maps ...raws) {
	for _, m := range maps {
		for name, raw := range m {
			require.True(t, json.Valid(raw), "%s: %s", name, raw)
		}
	}
}

func requireSendable(t *testing.T, r *chat.Response) {
	requireRaw(t, r.Extra, r.ChoiceExtra, r.Message.Extra)
	require.Equal(t, chat.RoleAssistant, r.Message.Role)
	requireStable(t, r.Message)
	for _, form := range forms {
		b, err := form.AppendMessage(nil, &r.Message)
		require.NoError(t, err)
		require.True(t, json.Valid(b), "%s", b)
		var again chat.Message
		require.NoError(t, again.UnmarshalJSON(b))
	}
}

// forms are what servers may want.
var forms = []chat.Form{
	{Tools: true},
	{ReasoningKey: "reasoning_content", ShortIDs: true},
	{Omit: []string{"reasoning", "refusal", "x", "id", "name"}},
	{Bare: true, Tools: true, ReasoningKey: "reasoning"},
}

// requireStable checks that a message can be sent, and that sending what was
// read of it changes nothing.
func requireStable(t *testing.T, m chat.Message) {
	b, err := m.AppendJSON(nil)
	require.NoError(t, err)
	require.True(t, json.Valid(b), "%s", b)
	var again chat.Message
	require.NoError(t, again.UnmarshalJSON(b))
	c, err := again.AppendJSON(nil)
	require.NoError(t, err)
	require.Equal(t, string(b), string(c))
}
