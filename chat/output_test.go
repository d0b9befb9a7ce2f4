package chat_test

import (
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChunkOutput(t *testing.T) {
	for want, chunks := range map[bool][]string{
		false: {
			delta(``),
			delta(`"role":"assistant"`),
			delta(`"content":""`),
			delta(`"content":[]`),
			delta(`"content":[{"type":"text","text":""}]`),
			delta(`"content":[{"type":"image_url","index":0,"image_url":{"url":""}}]`),
			delta(`"reasoning_content":""`),
			delta(`"tool_calls":[{"function":{"name":"f","arguments":""}}]`),
			delta(`"tool_calls":[{"index":0,"id":"a","type":"custom","status":"in_progress","custom":{"name":"f","input":""}}]`),
			`{"choices":[{"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":1}}`,
			`null`,
			`{"status":"queued","message":"a moment"}`,
			// Fields that say nothing.
			delta(`"audio":null,"images":[],"x":{},"y":"","z":false,"w":0`),
			delta(`"images":[{}],"x":{"y":[null,{"z":""}]}`),
			// Fields that are labels, and fields that hold nothing else.
			delta(`"channel":"analysis","recipient":"all","provider_specific_fields":{"refusal":"x"}`),
			delta(`"id":"m","type":"message","status":"in_progress","heartbeat":true,"progress":0.5`),
			delta(`"audio":{"id":"a","expires_at":1700000000}`),
			delta(`"reasoning_details":[{"type":"reasoning.text","text":"","format":"f","index":1,"id":"r"}]`),
			delta(`"thinking_blocks":[{"type":"thinking","thinking":"","signature":null}]`),
		},
		true: {
			delta(`"content":"a"`),
			delta(`"content":" "`),
			delta(`"reasoning_content":"a"`),
			delta(`"refusal":"a"`),
			delta(`"tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"arguments":"{"}}]`),
			delta(`"tool_calls":[{"index":0,"type":"custom","custom":{"name":"f","input":"SELECT"}}]`),
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f"},"extra_content":{"google":{"thought_signature":"x"}}}]`),
			delta(`"audio":{"id":"a","data":"UklGRg=="}`),
			delta(`"audio":{"transcript":"hel"}`),
			delta(`"images":[{"type":"image_url","index":0,"image_url":{"url":"data:image/png;base64,iVBO"}}]`),
			delta(`"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]`),
			delta(`"content":[{"type":"redacted_thinking","data":"x"}]`),
			delta(`"content":[{"type":"thinking","thinking":[],"signature":"x"}]`),
			delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"x","format":"f","index":0}]`),
			delta(`"thinking_blocks":[{"type":"redacted_thinking","data":"x"}]`),
			delta(`"something_new":"x"`),
			delta(`"something_new":[{"type":"x","value":1}]`),
			`{"choices":[{"message":{"content":null,"audio":{"id":"a","data":"UklGRg=="}}}]}`,
		},
	} {
		for _, in := range chunks {
			ch, err := chat.ParseChunk([]byte(in))
			require.NoError(t, err, in)
			require.Nil(t, ch.Error, in)
			assert.Equal(t, want, ch.Output(), in)
		}
	}
}

// An image among the parts of an answer goes into no later request: no server
// takes a content with one from an assistant.
func TestPartsThatAreNoTextAreNotSentBack(t *testing.T) {
	m := assemble(t, delta(`"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]`)).Message
	assert.Equal(t, chat.Assistant("a"), m)
}
