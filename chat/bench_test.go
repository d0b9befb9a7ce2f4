package chat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// manyChunks is a stream of 500 pieces as a server of the usual kind sends it.
func manyChunks() []byte {
	const piece = `data: {"id":"chatcmpl-B7kX2mQ9","object":"chat.completion.chunk","created":1741569952,` +
		`"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_b7a1c2d3e4","choices":[{"index":0,` +
		`"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
	return []byte(strings.Repeat(piece, 500))
}

func BenchmarkStream(b *testing.B) {
	stream := manyChunks()
	b.Run("neverhang", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(stream)))
		for b.Loop() {
			r := sse.NewReader(bytes.NewReader(stream), 1<<20)
			n := 0
			var ch chat.Chunk
			for {
				ev, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					b.Fatal(err)
				}
				if err := ch.UnmarshalJSON(ev.Data); err != nil {
					b.Fatal(err)
				}
				n += len(ch.Content)
			}
			if n != 500*len(" word") {
				b.Fatal(n)
			}
		}
	})
	b.Run("lines and encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(stream)))
		for b.Loop() {
			s := bufio.NewScanner(bytes.NewReader(stream))
			n := 0
			for s.Scan() {
				data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: "))
				if !ok {
					continue
				}
				var ch struct {
					Choices []struct {
						Delta struct {
							Content string `json:"content"`
						} `json:"delta"`
						FinishReason string `json:"finish_reason"`
					} `json:"choices"`
				}
				if err := json.Unmarshal(data, &ch); err != nil {
					b.Fatal(err)
				}
				n += len(ch.Choices[0].Delta.Content)
			}
			if n != 500*len(" word") {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkAppendJSON encodes a conversation of 150 messages and 200 KB, next
// to json.Marshal of a struct that says the same.
func BenchmarkAppendJSON(b *testing.B) {
	text := strings.Repeat("Reads the file, says \"what\" it does\n\tand why: <if x > 0 && y>. ", 21)
	const args = `{"index": 12, "note": "a \"quoted\" word"}`
	req := chat.Request{Model: "m", MaxTokens: 4096}
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type message struct {
		Role       string  `json:"role"`
		Content    *string `json:"content"`
		ToolCalls  []call  `json:"tool_calls,omitempty"`
		ToolCallID string  `json:"tool_call_id,omitempty"`
	}
	var plain struct {
		Model     string    `json:"model"`
		Messages  []message `json:"messages"`
		MaxTokens int       `json:"max_tokens"`
		Stream    bool      `json:"stream"`
	}
	plain.Model, plain.MaxTokens, plain.Stream = "m", 4096, true
	for i := range 150 {
		if i%2 == 0 {
			req.Messages = append(req.Messages, chat.Message{Role: chat.RoleAssistant, Content: text,
				ToolCalls: []chat.ToolCall{{ID: "call_1", Name: "read_message", Arguments: args}}})
			plain.Messages = append(plain.Messages, message{Role: "assistant", Content: &text,
				ToolCalls: []call{{ID: "call_1", Type: "function", Function: function{Name: "read_message", Arguments: args}}}})
		} else {
			req.Messages = append(req.Messages, chat.ToolResult("call_1", text))
			plain.Messages = append(plain.Messages, message{Role: "tool", Content: &text, ToolCallID: "call_1"})
		}
	}

	b.Run("neverhang", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			var err error
			if buf, err = req.AppendJSON(buf[:0], true, false); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	b.Run("json.Marshal", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			var err error
			if buf, err = json.Marshal(&plain); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
	// Without the copy that Marshal makes, and without escaping HTML.
	b.Run("json.Encoder", func(b *testing.B) {
		b.ReportAllocs()
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		for b.Loop() {
			buf.Reset()
			if err := enc.Encode(&plain); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(buf.Len()))
	})
}
