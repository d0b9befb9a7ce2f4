package llmclient_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

func TestBlanksForEverEndWithinAnHour(t *testing.T) {
	for name, beat := range map[string]fake.Step{
		"spaces in text":         fake.Text(" "),
		"zero-width spaces":      fake.Text("\u200b"),
		"spaces in arguments":    fake.Chunk(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}]}`),
		"spaces in reasoning":    fake.Chunk(`{"choices":[{"index":0,"delta":{"reasoning_content":" "}}]}`),
		"empty object arguments": fake.Chunk(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":{}}}]}}]}`),
	} {
		for _, every := range []time.Duration{time.Second, 15 * time.Second} {
			t.Run(name+", one in "+every.String(), func(t *testing.T) {
				inWorld(t, script(fake.Reply(fake.Role(), fake.ToolDelta(0, "a", "f", ""), fake.Repeat(-1, every, beat))), nil, func(t *testing.T, w *world) {
					ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
					defer cancel()
					_, err := w.client.Chat(ctx, hello())
					require.Error(t, err)
					assert.Less(t, time.Since(w.start), time.Hour, "%v", err)
				})
			})
		}
	}
	t.Run("much indentation, slowly", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("a"), fake.Repeat(90, time.Second, fake.Text(" ")), fake.Text("b"), fake.End("stop"))), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
	})
}

func events(events ...string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			for first := true; first || e[0] == '!' && r.Context().Err() == nil; first = false {
				_, _ = io.WriteString(rw, strings.TrimPrefix(e, "!"))
				rw.(http.Flusher).Flush()
				if e[0] == '!' {
					select {
					case <-r.Context().Done():
					case <-time.After(15 * time.Second):
					}
				}
			}
		}
	})
}

func TestUnderAnSDKHeartbeatEventsAreNoOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		path, extra string
		events      []string
	}{
		"Responses, keepalive events":   {"/responses", `"input":"x"`, []string{"event: response.created\ndata: {\"type\":\"response.created\"}\n\n", "!event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n"}},
		"Responses, in_progress":        {"/responses", `"input":"x"`, []string{"event: response.created\ndata: {\"type\":\"response.created\"}\n\n", "!event: response.in_progress\ndata: {\"type\":\"response.in_progress\"}\n\n"}},
		"Messages, empty deltas":        {"/messages", `"max_tokens":9`, []string{"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n", "!event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n"}},
		"several answers, empty deltas": {"/chat/completions", `"n":2`, []string{"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", "!data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n"}},
		"Responses, comments":           {"/responses", `"input":"x"`, []string{"event: response.created\ndata: {\"type\":\"response.created\"}\n\n", "!: keepalive\n\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, fake.Config{Handler: events(tc.events...)}, nil, func(t *testing.T, b *below) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, "POST", b.srv.BaseURL()+tc.path, strings.NewReader(`{"model":"m","stream":true,`+tc.extra+`,"messages":[{"role":"user","content":"x"}]}`))
				require.NoError(t, err)
				resp, err := b.client.Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				require.Error(t, err)
				assert.Less(t, time.Since(b.start), time.Hour, "%v", err)
			})
		})
	}
}

// A time as data, comments wrapped as data, named heartbeat events with plain text.
func TestHeartbeatsThatAreNoJSONDoNotBreakAnAnswer(t *testing.T) {
	for name, beat := range map[string]fake.Step{
		"a time":                  fake.Chunk(`2024-04-07 20:20:50.554328`),
		"a comment as data":       fake.Chunk(`: OPENROUTER PROCESSING`),
		"event heartbeat, a time": fake.Event("heartbeat", `2026-01-01T00:00:00Z`),
		"event keepalive, a word": fake.Event("keepalive", `alive`),
		"[KEEPALIVE]":             fake.Chunk(`[KEEPALIVE]`),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Reply(fake.Role(), fake.Repeat(3, 15*time.Second, beat), fake.Text("a"), beat, fake.Text("b"), fake.End("stop"))), nil, func(t *testing.T, w *world) {
				r, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "ab", r.Message.Content)
			})
		})
	}
	t.Run("garbage is an error", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.Text("a"), fake.Malformed(), fake.End("stop"))), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.Error(t, err)
		})
	})
}
