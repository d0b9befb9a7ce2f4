package chat_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type raws = map[string]json.RawMessage

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// delta returns a chunk with the members of one delta.
func delta(members string) string { return `{"choices":[{"index":0,"delta":{` + members + `}}]}` }

func TestParseChunk(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want chat.Chunk
	}{
		"everything": {
			in: `{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"m","system_fingerprint":"fp",` +
				`"service_tier":"flex","obfuscation":"x8Kq","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},` +
				`"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
			want: chat.Chunk{
				ID: "c1", Model: "m", Created: time.Unix(1700000000, 0), SystemFingerprint: "fp", ServiceTier: "flex",
				Role: chat.RoleAssistant, Content: "hi", FinishReason: chat.FinishStop,
				Usage: &chat.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3,
					Raw: raw(`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`)},
			},
		},
		"space everywhere":               {in: " {\n\t\"choices\" : [ { \"delta\" : { \"content\" : \"a\" } , \"finish_reason\" : null } ] } \r\n", want: chat.Chunk{Content: "a"}},
		"no choices":                     {in: `{"choices":[],"id":"x"}`, want: chat.Chunk{ID: "x"}},
		"null choices":                   {in: `{"choices":null,"id":"x"}`, want: chat.Chunk{ID: "x"}},
		"null choice":                    {in: `{"choices":[null]}`},
		"choices as one object":          {in: `{"choices":{"delta":{"content":"a"}}}`, want: chat.Chunk{Content: "a"}},
		"choices as text":                {in: `{"choices":"none"}`},
		"only the first choice":          {in: `{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, want: chat.Chunk{Content: "a"}},
		"null delta":                     {in: `{"choices":[{"delta":null,"finish_reason":"stop"}]}`, want: chat.Chunk{FinishReason: chat.FinishStop}},
		"delta as a list":                {in: `{"choices":[{"delta":[],"finish_reason":"stop"}]}`, want: chat.Chunk{FinishReason: chat.FinishStop}},
		"a reason that is the word null": {in: `{"choices":[{"delta":{"content":"a"},"finish_reason":"null"}]}`, want: chat.Chunk{Content: "a"}},
		"a reason that is the word None": {in: `{"choices":[{"delta":{"content":"a"},"finish_reason":"None"}]}`, want: chat.Chunk{Content: "a"}},
		"a reason that says not yet":     {in: `{"choices":[{"delta":{"content":"a"},"finish_reason":"NOT_FINISHED"}]}`, want: chat.Chunk{Content: "a"}},
		"an unfamiliar reason stays":     {in: `{"choices":[{"finish_reason":"eos_token"}]}`, want: chat.Chunk{FinishReason: "eos_token"}},
		"a reason that is no text":       {in: `{"choices":[{"finish_reason":0}]}`},
		"an empty role":                  {in: delta(`"role":"","content":"a"`), want: chat.Chunk{Content: "a"}},
		"id as a number":                 {in: `{"id":9007199254740993,"choices":[]}`, want: chat.Chunk{ID: "9007199254740993"}},
		"nulls everywhere": {
			in: `{"id":null,"object":null,"created":null,"model":null,"error":null,"usage":null,"system_fingerprint":null,` +
				`"choices":[{"index":null,"delta":{"role":null,"content":null,"tool_calls":null,"function_call":null,"refusal":null},` +
				`"logprobs":null,"error":null,"finish_reason":null}]}`,
		},
		"wrong types everywhere": {
			in: `{"id":{},"object":1,"created":"soon","model":[1],"usage":"none","choices":[{"index":"0",` +
				`"delta":{"role":1,"content":true,"tool_calls":"no","function_call":[],"refusal":{}},"finish_reason":[]}]}`,
		},
		"created as text, or with a fraction": {in: `{"created":"1700000000","choices":[]}`, want: chat.Chunk{Created: time.Unix(1700000000, 0)}},
		"created beyond all years":            {in: `{"created":1700000000000000,"choices":[]}`},
		"created as a huge number":            {in: `{"created":1e400,"choices":[]}`},
		"a repeated key: the last one":        {in: delta(`"content":"a","content":"b"`), want: chat.Chunk{Content: "b"}},
		"a key with escapes":                  {in: delta(`"cont\u0065nt":"a"`), want: chat.Chunk{Content: "a"}},
		"text with escapes":                   {in: delta(`"content":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é😀"`), want: chat.Chunk{Content: "\"\\/\b\f\n\r\té😀 é😀"}},
		"half a surrogate":                    {in: delta(`"content":"a\ud83db","refusal":"a\ude00b"`), want: chat.Chunk{Content: "a\uFFFDb", Refusal: "a\uFFFDb"}},
		"bytes that are not UTF-8":            {in: delta("\"content\":\"a\xff\xc3b\""), want: chat.Chunk{Content: "a\uFFFD\uFFFDb"}},
		"unknown fields are kept": {
			in:   `{"a":1e1000,"choices":[{"b":[ 1 ],"delta":{"c":{"d":12345678901234567890}}}]}`,
			want: chat.Chunk{Extra: raws{"a": raw("1e1000")}, ChoiceExtra: raws{"b": raw("[ 1 ]")}, DeltaExtra: raws{"c": raw(`{"d":12345678901234567890}`)}},
		},

		"content as parts":     {in: delta(`"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), want: chat.Chunk{Content: "ab"}},
		"content as one part":  {in: delta(`"content":{"type":"text","text":"a"}`), want: chat.Chunk{Content: "a"}},
		"content as texts":     {in: delta(`"content":["a","b"]`), want: chat.Chunk{Content: "ab"}},
		"parts with nulls":     {in: delta(`"content":[null,{"type":"text","text":null},{"type":null,"text":"a"},7,[]]`), want: chat.Chunk{Content: "a"}},
		"parts without a type": {in: delta(`"content":[{"text":"a"}]`), want: chat.Chunk{Content: "a"}},
		"parts of unknown types": {
			in:   delta(`"content": [{"type":"reference","text":"x"},{"type":"text","text":"a"}]`),
			want: chat.Chunk{Content: "a", DeltaExtra: raws{"content": raw(`[{"type":"reference","text":"x"},{"type":"text","text":"a"}]`)}},
		},
		"thinking parts":                {in: delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"},"!"]},{"type":"text","text":"42"}]`), want: chat.Chunk{Content: "42", Reasoning: "hm!", ReasoningKey: "content"}},
		"a thinking part as text":       {in: delta(`"content":[{"type":"thinking","thinking":"hm"}]`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "content"}},
		"a reasoning part":              {in: delta(`"content":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}]`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "content"}},
		"a refusal part":                {in: delta(`"content":[{"type":"refusal","refusal":"no"}]`), want: chat.Chunk{Refusal: "no"}},
		"thinking parts beside a field": {in: delta(`"reasoning_content":"hm","content":[{"type":"thinking","thinking":"hm"}]`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning_content"}},

		"reasoning_content":                {in: delta(`"reasoning_content":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning_content"}},
		"reasoning":                        {in: delta(`"reasoning":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning"}},
		"thinking":                         {in: delta(`"thinking":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "thinking"}},
		"an empty thinking tells no name":  {in: delta(`"thinking":""`)},
		"an empty reasoning tells a name":  {in: delta(`"reasoning_content":""`), want: chat.Chunk{ReasoningKey: "reasoning_content"}},
		"a null reasoning tells a name":    {in: delta(`"reasoning_content":null`), want: chat.Chunk{ReasoningKey: "reasoning_content"}},
		"the same reasoning twice":         {in: delta(`"reasoning":"hm","reasoning_content":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning"}},
		"one name empty, the other not":    {in: delta(`"reasoning_content":"","reasoning":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning"}},
		"one name null, the other not":     {in: delta(`"reasoning":"hm","reasoning_content":null`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning"}},
		"reasoning in details only":        {in: delta(`"reasoning_details":[{"type":"reasoning.summary","summary":"h"},{"type":"reasoning.text","text":"m"},{"type":"reasoning.encrypted","data":"zz"}]`), want: chat.Chunk{Reasoning: "hm", DeltaExtra: raws{"reasoning_details": raw(`[{"type":"reasoning.summary","summary":"h"},{"type":"reasoning.text","text":"m"},{"type":"reasoning.encrypted","data":"zz"}]`)}}},
		"reasoning after its details":      {in: delta(`"reasoning_details":[{"text":"hm"}],"reasoning":"hm"`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning", DeltaExtra: raws{"reasoning_details": raw(`[{"text":"hm"}]`)}}},
		"null reasoning after its details": {in: delta(`"reasoning_details":[{"text":"hm"}],"reasoning":null`), want: chat.Chunk{Reasoning: "hm", ReasoningKey: "reasoning", DeltaExtra: raws{"reasoning_details": raw(`[{"text":"hm"}]`)}}},
		"details that are no list":         {in: delta(`"reasoning_details":{"text":"hm"}`), want: chat.Chunk{DeltaExtra: raws{"reasoning_details": raw(`{"text":"hm"}`)}}},

		"usage beside null choices":      {in: `{"choices":null,"usage":{"prompt_tokens":1}}`, want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 1, TotalTokens: 1, Raw: raw(`{"prompt_tokens":1}`)}}},
		"an empty usage counts nothing":  {in: `{"choices":[],"usage":{}}`},
		"usage of zeros without names":   {in: `{"choices":[],"usage":{"total_tokens":0,"total_characters":0}}`},
		"usage with a total only":        {in: `{"choices":[],"usage":{"total_tokens":7}}`, want: chat.Chunk{Usage: &chat.Usage{TotalTokens: 7, Raw: raw(`{"total_tokens":7}`)}}},
		"usage with a null and a string": {in: `{"choices":[],"usage":{"prompt_tokens":"12","completion_tokens":null}}`, want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 12, TotalTokens: 12, Raw: raw(`{"prompt_tokens":"12","completion_tokens":null}`)}}},
		"usage with details": {
			in: `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5.0,"total_tokens":15,"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}}}`,
			want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15, CachedTokens: 8, ReasoningTokens: 3,
				Raw: raw(`{"prompt_tokens":10,"completion_tokens":5.0,"total_tokens":15,"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}}`)}},
		},
		"usage with null details": {
			in:   `{"choices":[],"usage":{"prompt_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}}`,
			want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 1, TotalTokens: 1, Raw: raw(`{"prompt_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`)}},
		},
		"usage with cache hits under another name": {
			in:   `{"choices":[],"usage":{"prompt_tokens":9,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}}`,
			want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 9, TotalTokens: 9, CachedTokens: 8, Raw: raw(`{"prompt_tokens":9,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}`)}},
		},
		"usage within the choice": {in: `{"choices":[{"delta":{},"usage":{"prompt_tokens":1}}]}`, want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 1, TotalTokens: 1, Raw: raw(`{"prompt_tokens":1}`)}}},
		"usage in both places":    {in: `{"usage":{"prompt_tokens":2},"choices":[{"usage":{"prompt_tokens":1}}]}`, want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 2, TotalTokens: 2, Raw: raw(`{"prompt_tokens":2}`)}}},
		"usage in Groq's own field": {
			in:   `{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":1}}}`,
			want: chat.Chunk{Usage: &chat.Usage{PromptTokens: 1, TotalTokens: 1, Raw: raw(`{"prompt_tokens":1}`)}, Extra: raws{"x_groq": raw(`{"id":"r","usage":{"prompt_tokens":1}}`)}},
		},
		"negative and huge counts count nothing": {
			in:   `{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e300,"total_tokens":3}}`,
			want: chat.Chunk{Usage: &chat.Usage{TotalTokens: 3, Raw: raw(`{"prompt_tokens":-1,"completion_tokens":1e300,"total_tokens":3}`)}},
		},

		"a tool call":            {in: delta(`"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]`), want: calls(chat.ToolCallDelta{Index: 1, ID: "a", Type: "function", Name: "f", Arguments: "{"})},
		"no index":               {in: delta(`"tool_calls":[{"id":"a"}]`), want: calls(chat.ToolCallDelta{Index: -1, ID: "a"})},
		"null index":             {in: delta(`"tool_calls":[{"index":null,"id":"a"}]`), want: calls(chat.ToolCallDelta{Index: -1, ID: "a"})},
		"negative index":         {in: delta(`"tool_calls":[{"index":-5,"id":"a"}]`), want: calls(chat.ToolCallDelta{Index: -1, ID: "a"})},
		"index as text":          {in: delta(`"tool_calls":[{"index":"2","id":"a"}]`), want: calls(chat.ToolCallDelta{Index: 2, ID: "a"})},
		"index with a fraction":  {in: delta(`"tool_calls":[{"index":1.0,"id":"a"},{"index":1.5,"id":"b"}]`), want: calls(chat.ToolCallDelta{Index: 1, ID: "a"}, chat.ToolCallDelta{Index: -1, ID: "b"})},
		"index beyond int64":     {in: delta(`"tool_calls":[{"index":99999999999999999999,"id":"a"}]`), want: calls(chat.ToolCallDelta{Index: -1, ID: "a"})},
		"tool id as a number":    {in: delta(`"tool_calls":[{"id":7}]`), want: calls(chat.ToolCallDelta{Index: -1, ID: "7"})},
		"calls as one object":    {in: delta(`"tool_calls":{"id":"a"}`), want: calls(chat.ToolCallDelta{Index: -1, ID: "a"})},
		"calls that say nothing": {in: delta(`"tool_calls":[null,{"id":null,"type":null,"function":null},3,{"index":0,"type":"function","function":{"name":"","arguments":""}}]`)},
		"arguments as object":    {in: delta(`"tool_calls":[{"function":{"name":"f","arguments":{"a": 1}}}]`), want: calls(chat.ToolCallDelta{Index: -1, Name: "f", Arguments: `{"a": 1}`})},
		"arguments as list":      {in: delta(`"tool_calls":[{"function":{"arguments":[1]}}]`), want: calls(chat.ToolCallDelta{Index: -1, Arguments: `[1]`})},
		"arguments null":         {in: delta(`"tool_calls":[{"function":{"name":"f","arguments":null}}]`), want: calls(chat.ToolCallDelta{Index: -1, Name: "f"})},
		"arguments as a number":  {in: delta(`"tool_calls":[{"function":{"name":"f","arguments":5}}]`), want: calls(chat.ToolCallDelta{Index: -1, Name: "f"})},
		"a call without function object": {
			in:   delta(`"tool_calls":[{"name":"f","arguments":"{}"}]`),
			want: calls(chat.ToolCallDelta{Index: -1, Name: "f", Arguments: "{}"}),
		},
		"a call's unknown fields are kept": {
			in:   delta(`"tool_calls":[{"extra_content":{"google":{"thought_signature":"s"}}}]`),
			want: calls(chat.ToolCallDelta{Index: -1, Extra: raws{"extra_content": raw(`{"google":{"thought_signature":"s"}}`)}}),
		},
		"the old function_call":  {in: delta(`"function_call":{"name":"f","arguments":"{}"}`), want: calls(chat.ToolCallDelta{Index: -1, Old: true, Name: "f", Arguments: "{}"})},
		"an empty function_call": {in: delta(`"function_call":{}`)},
		"a message in a chunk":   {in: `{"choices":[{"message":{"role":"assistant","content":"all"}}]}`, want: chat.Chunk{Role: chat.RoleAssistant, Content: "all", Whole: true}},
		"a message so far after a delta": {
			in:   `{"choices":[{"finish_reason":null,"delta":{"content":"l"},"message":{"content":"all","annotations":[{"type":"x"}]}}]}`,
			want: chat.Chunk{Content: "l"},
		},
		"a message so far before a delta": {
			in:   `{"choices":[{"message":{"role":"assistant","content":"all"},"delta":{"content":"l"}}]}`,
			want: chat.Chunk{Content: "l"},
		},
		"a message so far, equal to the delta": {
			in:   `{"choices":[{"message":{"content":"a"},"delta":{"role":"assistant","content":"a"}}]}`,
			want: chat.Chunk{Role: chat.RoleAssistant, Content: "a"},
		},
		"a message at the end beside an empty delta": {
			in:   `{"choices":[{"finish_reason":"stop","message":{"content":"all"},"delta":{"role":"assistant","content":""}}]}`,
			want: chat.Chunk{Content: "all", Whole: true, FinishReason: chat.FinishStop},
		},
		"a message at the end, and its last piece": {
			in:   `{"choices":[{"message":{"content":"all"},"delta":{"content":"l"},"finish_reason":"stop"}]}`,
			want: chat.Chunk{Content: "l", FinishReason: chat.FinishStop},
		},
		"a message at the end beside a delta with all of it": {
			in:   `{"choices":[{"message":{"content":"all"},"delta":{"content":"all"},"finish_reason":"stop"}]}`,
			want: chat.Chunk{Content: "all", Whole: true, FinishReason: chat.FinishStop},
		},
		"a message at the end with calls, and its last piece": {
			in: `{"choices":[{"message":{"content":"all","tool_calls":[{"id":"a"}]},"delta":{"content":"l"},"finish_reason":"tool_calls"}]}`,
			want: chat.Chunk{Content: "all", ToolCalls: []chat.ToolCallDelta{{ID: "a"}}, Whole: true,
				FinishReason: chat.FinishToolCalls},
		},
		"a message beside a delta that says nothing": {
			in:   `{"choices":[{"message":{"content":"all"},"delta":{}}]}`,
			want: chat.Chunk{Content: "all", Whole: true},
		},
		"a message of sound": {
			in:   `{"choices":[{"message":{"content":null,"audio":{"data":"x"}}}]}`,
			want: chat.Chunk{Whole: true, DeltaExtra: raws{"audio": raw(`{"data":"x"}`)}},
		},
		"an empty message beside a delta": {
			in:   `{"choices":[{"delta":{"content":"l"},"message":{"role":"assistant","content":""}}]}`,
			want: chat.Chunk{Role: chat.RoleAssistant, Content: "l"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chat.ParseChunk([]byte(tc.in))
			require.NoError(t, err)
			assert.Equal(t, &tc.want, got)

			// The same into a chunk that holds something else.
			old, err := chat.ParseChunk([]byte(`{"id":"old","model":"old","system_fingerprint":"old","service_tier":"old",` +
				`"x":1,"created":1,"choices":[{"y":1,"message":{"z":1,"role":"user","content":"old","refusal":"old","reasoning":"old",` +
				`"tool_calls":[{}]},"finish_reason":"old"}],"usage":{"prompt_tokens":1},"error":"old"}`))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal([]byte(tc.in), old))
			assert.Equal(t, &tc.want, old)
		})
	}
}

func calls(list ...chat.ToolCallDelta) chat.Chunk { return chat.Chunk{ToolCalls: list} }

func TestParseChunkSharesNoMemory(t *testing.T) {
	in := []byte(`{"id":"aaaa","x":"aaaa","choices":[{"delta":{"content":"aaaa","tool_calls":[{"function":{"arguments":{"a":"aaaa"}}}]}}],"usage":{"prompt_tokens":1}}`)
	ch, err := chat.ParseChunk(in)
	require.NoError(t, err)
	for i := range in {
		in[i] = '!'
	}
	assert.Equal(t, "aaaa", ch.ID)
	assert.Equal(t, "aaaa", ch.Content)
	assert.Equal(t, `"aaaa"`, string(ch.Extra["x"]))
	assert.Equal(t, `{"a":"aaaa"}`, ch.ToolCalls[0].Arguments)
	assert.Equal(t, `{"prompt_tokens":1}`, string(ch.Usage.Raw))
}

func TestParseChunkErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		want  string
		short bool
	}{
		"nothing":                 {in: "", want: "chat: chunk: JSON cut short at byte 0: unexpected EOF", short: true},
		"cut in a key":            {in: `{"choi`, want: "chat: chunk: JSON cut short at byte 6: unexpected EOF", short: true},
		"cut in an escape":        {in: `{"id":"\u00`, want: "chat: chunk: JSON cut short at byte 11: unexpected EOF", short: true},
		"cut after a backslash":   {in: `{"id":"\`, want: "chat: chunk: JSON cut short at byte 8: unexpected EOF", short: true},
		"cut in a literal":        {in: `{"id":nul`, want: "chat: chunk: JSON cut short at byte 9: unexpected EOF", short: true},
		"cut in a number":         {in: `{"created":-`, want: "chat: chunk: JSON cut short at byte 12: unexpected EOF", short: true},
		"cut in a fraction":       {in: `{"created":1.`, want: "chat: chunk: JSON cut short at byte 13: unexpected EOF", short: true},
		"cut in a list":           {in: `[{"error":`, want: "chat: chunk: JSON cut short at byte 10: unexpected EOF", short: true},
		"a page":                  {in: `<html>busy</html>`, want: "chat: chunk: invalid JSON at byte 0: no value starts so"},
		"a list that is no error": {in: `[1]`, want: "chat: chunk: the JSON is no object"},
		"no colon":                {in: `{"id" 1}`, want: "chat: chunk: invalid JSON at byte 6: want a colon after the key"},
		"no comma":                {in: `{"id":1 "b":2}`, want: "chat: chunk: invalid JSON at byte 8: want a comma or }"},
		"a comma too many":        {in: `{"id":1,}`, want: "chat: chunk: invalid JSON at byte 8: want a string"},
		"two values":              {in: `{"choices":[]}{"choices":[]}`, want: "chat: chunk: invalid JSON at byte 14: more text after the value"},
		"two values in a list":    {in: `[] []`, want: "chat: chunk: invalid JSON at byte 3: more text after the value"},
		"a leading zero":          {in: `{"created":01}`, want: "chat: chunk: invalid JSON at byte 12: a number with a leading zero"},
		"a bad literal":           {in: `{"id":nope}`, want: "chat: chunk: invalid JSON at byte 7: want null"},
		"a bad escape":            {in: `{"id":"\q"}`, want: "chat: chunk: invalid JSON at byte 7: an unknown escape in a string"},
		"a bad hex digit":         {in: `{"id":"\u00g0"}`, want: "chat: chunk: invalid JSON at byte 7: want four hex digits after \\u"},
		"a raw line end":          {in: "{\"id\":\"a\nb\"}", want: "chat: chunk: invalid JSON at byte 8: a control character in a string"},
		"too deep":                {in: `{"x":` + strings.Repeat("[", 512), want: "chat: chunk: JSON nested deeper than 512 levels at byte 517"},
	} {
		t.Run(name, func(t *testing.T) {
			ch, err := chat.ParseChunk([]byte(tc.in))
			assert.Nil(t, ch)
			require.EqualError(t, err, tc.want)
			assert.Equal(t, tc.short, errors.Is(err, io.ErrUnexpectedEOF))

			_, _, err = chat.ParseResponse([]byte(tc.in))
			assert.EqualError(t, err, strings.Replace(tc.want, "chunk", "response", 1))

			full := chat.Chunk{ID: "x", Content: "y"}
			assert.Error(t, full.UnmarshalJSON([]byte(tc.in)))
			assert.Zero(t, full)
		})
	}
}

// Nesting up to the bound is fine: it is counted from the outermost brace.
func TestDepthJustBelowTheBound(t *testing.T) {
	in := `{"choices":[],"x":` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `}`
	_, err := chat.ParseChunk([]byte(in))
	require.NoError(t, err)
	_, err = chat.ParseChunk([]byte(`{"choices":[],"x":[` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `]}`))
	require.ErrorContains(t, err, "nested deeper")

	// Depth goes down again.
	many := `{"choices":[],"x":[` + strings.Repeat(`{"a":[{}]},`, 1000) + `[]]}`
	_, err = chat.ParseChunk([]byte(many))
	require.NoError(t, err)
}

func TestParseResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		want  chat.Response
		empty bool
	}{
		"text": {
			in: `{"id":"r","model":"m","created":1700000000,"system_fingerprint":"fp","service_tier":"default","object":"chat.completion",` +
				`"choices":[{"index":0,"message":{"role":"assistant","content":"hi","annotations":[]},"logprobs":{"content":[{"token":"hi"}]},` +
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`,
			want: chat.Response{
				ID: "r", Model: "m", Created: time.Unix(1700000000, 0), SystemFingerprint: "fp", ServiceTier: "default",
				Message: chat.Assistant("hi"), FinishReason: chat.FinishStop,
				Usage:       &chat.Usage{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2, Raw: raw(`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`)},
				ChoiceExtra: raws{"logprobs": raw(`{"content":[{"token":"hi"}]}`)},
			},
		},
		"tool calls without index, ids alike": {
			in: `{"choices":[{"message":{"content":null,"tool_calls":[` +
				`{"id":"x","function":{"name":"f","arguments":""}},{"id":"x","function":{"name":"f","arguments":""}},` +
				`{"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}]}`,
			want: chat.Response{
				Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{
					{ID: "x", Name: "f"}, {ID: "x", Name: "f"}, {ID: "x", Name: "f", Arguments: `{"a":1}`}, {ID: "x", Name: "f", Arguments: `{"a":1}`},
				}},
				FinishReason: chat.FinishToolCalls,
			},
		},
		"indices are not trusted in a whole message": {
			in:   `{"choices":[{"message":{"tool_calls":[{"index":0,"function":{"name":"f"}},{"index":0,"function":{"name":"g"}}]}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{Name: "f"}, {Name: "g"}}}},
		},
		"details stay as they came": {
			in: `{"choices":[{"message":{"content":"a","reasoning_details":[{"type":"reasoning.text","text":"x"}, {"type":"reasoning.text","text":"y"}]}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "xy",
				Extra: raws{"reasoning_details": raw(`[{"type":"reasoning.text","text":"x"}, {"type":"reasoning.text","text":"y"}]`)}}},
		},
		"a delta where a message is due": {
			in:   `{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`,
			want: chat.Response{Message: chat.Assistant("hi"), FinishReason: chat.FinishStop},
		},
		"text and calls in choices of their own": {
			in: `{"choices":[{"message":{"role":"assistant","content":"Let me look."},"finish_reason":"stop"},` +
				`{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"},` +
				`{"message":{"role":"assistant","tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}},{"id":"c","function":{"name":"g","arguments":"{}"}}],"reasoning_opaque":"s"},"finish_reason":"tool_calls"}]}`,
			want: chat.Response{
				Message: chat.Message{Role: chat.RoleAssistant, Content: "Let me look.", Extra: raws{"reasoning_opaque": raw(`"s"`)},
					ToolCalls: []chat.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}, {ID: "b", Name: "g", Arguments: "{}"}, {ID: "c", Name: "g", Arguments: "{}"}}},
				FinishReason: chat.FinishToolCalls,
			},
		},
		"all in a second choice with the same index": {
			in:   `{"choices":[{"index":0,"message":{"content":""},"finish_reason":null},{"finish_reason":"stop","message":{"content":"hi","reasoning":"hm"},"index":0}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "hi", Reasoning: "hm", ReasoningKey: "reasoning"}, FinishReason: chat.FinishStop},
		},
		"calls first, then thoughts and text": {
			in: `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}],"reasoning_content":null},"finish_reason":"tool_calls"},{"message":{"reasoning":"hm"}},{"message":{"content":"hi","reasoning":"no"}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "hi", Reasoning: "hm", ReasoningKey: "reasoning", ToolCalls: []chat.ToolCall{{ID: "a", Name: "f"}}},
				FinishReason: chat.FinishToolCalls},
		},
		"a cut choice beside one that is whole": {
			in: `{"choices":[{"message":{"content":"hi"},"finish_reason":"length"},{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}]},"finish_reason":"tool_calls"}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "hi", ToolCalls: []chat.ToolCall{{ID: "a", Name: "f"}}},
				FinishReason: chat.FinishLength},
		},
		"choices that are alike are one": {
			in: `{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}]},"finish_reason":"tool_calls"},{"message":{"tool_calls":[{"id":"b","function":{"name":"f"}}]},"finish_reason":"stop"}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "f"}}},
				FinishReason: chat.FinishToolCalls},
		},
		"another choice is another answer": {
			in:   `{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"},{"index":1,"message":{"content":"ho","tool_calls":[{"id":"a","function":{"name":"f"}}]},"finish_reason":"tool_calls"}]}`,
			want: chat.Response{Message: chat.Assistant("hi"), FinishReason: chat.FinishStop},
		},
		"the old form of a call beside the new one": {
			in: `{"choices":[{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"},"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
				FinishReason: chat.FinishToolCalls},
		},
		"text beside nothing":          {in: `{"choices":[{"text":"hi","index":0,"finish_reason":"stop"}]}`, want: chat.Response{Message: chat.Assistant("hi"), FinishReason: chat.FinishStop}},
		"text beside a message":        {in: `{"choices":[{"text":"ho","message":{"content":"hi"}}]}`, want: chat.Response{Message: chat.Assistant("hi")}},
		"text beside an empty message": {in: `{"choices":[{"text":"ho","message":{"content":""}}]}`, want: chat.Response{Message: chat.Assistant("")}, empty: true},
		"text that is an object":       {in: `{"choices":[{"message":{"content":[{"type":"text","text":{"value":"hi","annotations":[]}}]}}]}`, want: chat.Response{Message: chat.Assistant("hi")}},
		"reasoning as an object": {
			in:   `{"choices":[{"message":{"content":"a","reasoning":{"content":"hm","effort":"low"}}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "content"}},
		},
		"reasoning as a list": {
			in:   `{"choices":[{"message":{"content":"a","reasoning_content":[{"type":"text","text":"h"},"m",{"summary":[{"text":"?"}]},{"text":"!","content":"!"},null,7]}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm?!", ReasoningKey: "content"}},
		},
		"reasoning as an empty object": {in: `{"choices":[{"message":{"content":"a","reasoning":{}}}]}`, want: chat.Response{Message: chat.Assistant("a")}},
		"reasoning as Copilot names it": {
			in:   `{"choices":[{"message":{"content":"a","reasoning_text":"hm","reasoning_opaque":"s"}}]}`,
			want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Content: "a", Reasoning: "hm", ReasoningKey: "reasoning_text", Extra: raws{"reasoning_opaque": raw(`"s"`)}}},
		},
		"Copilot's name with nothing": {in: `{"choices":[{"message":{"content":"a","reasoning_text":null}}]}`, want: chat.Response{Message: chat.Assistant("a")}},
		"blank lines before it":       {in: "\n\n\n{\"choices\":[{\"message\":{\"content\":\"hi\"}}]}", want: chat.Response{Message: chat.Assistant("hi")}},
		"reasoning is no answer":      {in: `{"choices":[{"message":{"content":"","reasoning":"hm"},"finish_reason":"length"}]}`, want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning"}, FinishReason: chat.FinishLength}, empty: true},
		"a refusal is an answer":      {in: `{"choices":[{"message":{"refusal":"no"}}]}`, want: chat.Response{Message: chat.Message{Role: chat.RoleAssistant, Refusal: "no"}}},
		"no choices":                  {in: `{"choices":[]}`, want: chat.Response{Message: chat.Assistant("")}, empty: true},
		"nothing that is known":       {in: `{"hello":1}`, want: chat.Response{Message: chat.Assistant(""), Extra: raws{"hello": raw("1")}}, empty: true},
		"a healthy MiniMax answer":    {in: `{"choices":[{"message":{"content":"hi"}}],"base_resp":{"status_code":0,"status_msg":""}}`, want: chat.Response{Message: chat.Assistant("hi"), Extra: raws{"base_resp": raw(`{"status_code":0,"status_msg":""}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, failure, err := chat.ParseResponse([]byte(tc.in))
			require.NoError(t, err)
			require.Nil(t, failure)
			assert.Equal(t, &tc.want, got)
			assert.Equal(t, tc.empty, got.Empty())
		})
	}
}

// Some servers have an event of null to keep the line open. No answer is null.
func TestNullIsAChunkButNoAnswer(t *testing.T) {
	ch, err := chat.ParseChunk([]byte(" null\n"))
	require.NoError(t, err)
	assert.Zero(t, *ch)

	full := chat.Chunk{ID: "x", Content: "y", Error: &chat.ServerError{}}
	require.NoError(t, json.Unmarshal([]byte(`null`), &full))
	assert.Zero(t, full)

	_, _, err = chat.ParseResponse([]byte(`null`))
	assert.EqualError(t, err, "chat: response: the JSON is no object")
	_, err = chat.ParseChunk([]byte(`null null`))
	assert.EqualError(t, err, "chat: chunk: invalid JSON at byte 5: more text after the value")
}
