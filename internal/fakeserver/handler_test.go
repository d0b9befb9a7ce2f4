package fakeserver_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/fakeserver"
)

// A handler has the networks and their troubles, and nothing else.
func TestHandlerTakesTheScriptsPlace(t *testing.T) {
	cfg := fakeserver.Config{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "at "+r.URL.Path) }),
		Net:     []fakeserver.NetFault{{Kind: fakeserver.IdleClose, After: time.Millisecond}},
	}
	onBoth(t, cfg, func(t *testing.T, srv *fakeserver.Server) {
		got := ask(t, transport(t, srv), srv, streamBody, time.Minute)
		require.NoError(t, got.err)
		assert.Equal(t, "at /v1/chat/completions", got.body)
		require.NoError(t, srv.Await(t.Context(), func(s fakeserver.Stats) bool { return s.Dialled == 1 && s.Open == 0 }))
		assert.Empty(t, srv.Requests())
	})
}

func TestAnAuthorSaysWhatItWouldReply(t *testing.T) {
	author := fakeserver.Author{Seed: 7, TokensPerSecond: 1}
	const body = `{"model":"m","messages":[{"role":"user","content":"Read message 4."}],
		"tools":[{"type":"function","function":{"name":"read_message","parameters":{"type":"object","properties":{"index":{"type":"integer"}}}}}]}`
	got := author.Say([]byte(body))
	require.NotNil(t, got)
	require.Len(t, got.Message.ToolCalls, 1)
	assert.Equal(t, "read_message", got.Message.ToolCalls[0].Name)
	assert.JSONEq(t, `{"index":4}`, got.Message.ToolCalls[0].Arguments)
	assert.Equal(t, chat.FinishReason("tool_calls"), got.FinishReason)

	author.TokensPerSecond = 0
	inMemory(t, fakeserver.Config{Script: author.Reply}, func(t *testing.T, srv *fakeserver.Server) {
		seen := ask(t, transport(t, srv), srv, body, time.Minute)
		assert.Contains(t, seen.body, got.Message.ToolCalls[0].ID, "the same call by the same name")
	})
	assert.Nil(t, author.Say([]byte(`{"messages":[]}`)))
	assert.Nil(t, author.Say([]byte(`not JSON`)))
}
