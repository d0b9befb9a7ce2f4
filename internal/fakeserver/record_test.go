package fakeserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

func get(t *testing.T, srv *fs.Server, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+path, nil)
	require.NoError(t, err)
	resp, err := transport(t, srv).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestRecords(t *testing.T) {
	inMemory(t, fs.Config{Script: fs.Always(fs.Pause(2*time.Second), fs.Answer("ok"))}, func(t *testing.T, srv *fs.Server) {
		time.Sleep(time.Second)
		body := `{"model":"m1","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,
			"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]}],
			"tools":[{"type":"function","function":{"name":"save","description":"d","parameters":{"type":"object"}}}],
			"tool_choice":{"type":"function","function":{"name":"save"}}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer k")
		resp, err := transport(t, srv).RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Ended == 1 }))

		r := srv.Requests()[0]
		assert.Equal(t, 1, r.Ordinal)
		assert.Equal(t, 1, r.Conn)
		assert.Equal(t, time.Second, r.Since)
		assert.Equal(t, 2*time.Second, r.Ended.Sub(r.Arrived))
		assert.True(t, r.Left.IsZero())
		assert.Equal(t, "/v1/chat/completions", r.Path)
		assert.Equal(t, "Bearer k", r.Header.Get("Authorization"))
		assert.Equal(t, body, string(r.Body))
		assert.Equal(t, "m1", r.Chat.Model)
		assert.Equal(t, 7, r.Chat.MaxTokens)
		assert.Len(t, r.Chat.Messages, 2)
		assert.Equal(t, "save", r.Chat.Tools[0].Name)
		assert.Equal(t, chat.ForceTool("save"), r.Chat.ToolChoice)
		assert.True(t, r.Stream && r.IncludeUsage)
		assert.Equal(t, 200, r.Status)
		assert.Equal(t, `pause(2s) answer("ok")`, r.Reply)
	})
}

// The agent is told by the first user message, in whatever form it comes;
// other requests of the same agent have the same key.
func TestAgentKey(t *testing.T) {
	bodies := []string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"one"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"one"}]},{"role":"assistant","content":"x"},{"role":"user","content":"go on"}]}`,
		`{"messages":[{"role":"user","content":"two"}]}`,
		`not JSON`,
	}
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok"))}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		for _, b := range append(bodies, bodies[0]) {
			ask(t, tr, srv, b, time.Hour)
		}
		r := srv.Requests()
		assert.Equal(t, r[0].Agent, r[1].Agent)
		assert.NotEqual(t, r[0].Agent, r[2].Agent)
		assert.Nil(t, r[3].Chat)
		assert.Equal(t, []int{1, 2, 1, 1, 3}, []int{r[0].Turn, r[1].Turn, r[2].Turn, r[3].Turn, r[4].Turn})
		assert.Equal(t, []int{0, 0, 0, 0, 1}, []int{r[0].Asked, r[1].Asked, r[2].Asked, r[3].Asked, r[4].Asked})
	})
}

// A client that leaves is booked when it leaves, even if the reply does not
// notice.
func TestClientLeaves(t *testing.T) {
	tests := map[string]struct {
		reply fs.Step
		ended time.Duration
	}{
		"while nothing comes":          {fs.Hang(), 3 * time.Second},
		"while tokens come":            {fs.Endless(time.Second), 3 * time.Second},
		"while the server is deaf":     {fs.Reply(fs.Deaf(10*time.Second), fs.Answer("for nobody")), 10 * time.Second},
		"while it waits before a call": {fs.Reply(fs.Headers(), fs.Pause(time.Hour), fs.AnswerCall("1", "f", "{}")), 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, fs.Config{Script: fs.Always(tt.reply)}, func(t *testing.T, srv *fs.Server) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
				require.NoError(t, err)
				if resp, err := transport(t, srv).RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Left == 1 && s.Ended == 1 }))
				r := srv.Requests()[0]
				assert.Equal(t, 3*time.Second, r.Left.Sub(r.Arrived))
				assert.Equal(t, tt.ended, r.Ended.Sub(r.Arrived))
			})
		})
	}
}

// The server's own end is not taken for a client that leaves.
func TestCloseIsNoLeaving(t *testing.T) {
	inMemory(t, fs.Config{Script: fs.Always(fs.Hang())}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		time.AfterFunc(time.Minute, srv.Close)
		s := ask(t, tr, srv, streamBody, time.Hour)
		assert.Error(t, s.err)
		assert.Equal(t, time.Minute, s.took)
		srv.Close()
		assert.Zero(t, srv.Stats().Left)
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	inMemory(t, fs.Config{}, func(t *testing.T, srv *fs.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := srv.Await(ctx, func(s fs.Stats) bool { return s.Requests > 0 })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestForget(t *testing.T) {
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok")), Forget: true}, func(t *testing.T, srv *fs.Server) {
		ask(t, transport(t, srv), srv, streamBody, time.Hour)
		require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Ended == 1 }))
		assert.Nil(t, srv.Requests()[0].Body)
		assert.Nil(t, srv.Requests()[0].Chat)
	})
}

func TestOtherPaths(t *testing.T) {
	onBoth(t, fs.Config{}, func(t *testing.T, srv *fs.Server) {
		status, body := get(t, srv, "/v1/models")
		assert.Equal(t, 200, status)
		assert.Contains(t, body, `"object":"list"`)
		status, _ = get(t, srv, "/health")
		assert.Equal(t, 200, status)
		status, body = get(t, srv, "/v1/chat/completion")
		assert.Equal(t, 404, status)
		assert.Equal(t, "Invalid URL (GET /v1/chat/completion)", chat.ParseError([]byte(body)).Message)
		assert.Len(t, srv.Probes(), 3)
		assert.Empty(t, srv.Requests())
		assert.Equal(t, "/v1/models", srv.Probes()[0].Path)
	})
}

func TestModelsCanFail(t *testing.T) {
	script := fs.Sequence(fs.Hang(), fs.Unavailable(), fs.ModelList())
	inMemory(t, fs.Config{Models: script}, func(t *testing.T, srv *fs.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.BaseURL()+"/models", nil)
		require.NoError(t, err)
		_, err = transport(t, srv).RoundTrip(req)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		status, _ := get(t, srv, "/v1/models")
		assert.Equal(t, 503, status)
		status, _ = get(t, srv, "/v1/models")
		assert.Equal(t, 200, status)
	})
}

// A server with one slot lets everybody wait, probes included, or turns
// completions away.
func TestSlots(t *testing.T) {
	script := fs.Always(fs.Pause(time.Minute), fs.Answer("ok"))
	together := func(t *testing.T, srv *fs.Server) []seen {
		tr := transport(t, srv)
		out := make([]seen, 3)
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i] = ask(t, tr, srv, streamBody, time.Hour) })
		}
		wg.Wait()
		return out
	}
	t.Run("others wait", func(t *testing.T) {
		inMemory(t, fs.Config{Script: script, Slots: 1}, func(t *testing.T, srv *fs.Server) {
			var sum time.Duration
			for _, s := range together(t, srv) {
				assert.Equal(t, "ok", texts(t, s.body))
				sum += s.took
			}
			assert.Equal(t, (1+2+3)*time.Minute, sum)
		})
	})
	t.Run("a probe waits", func(t *testing.T) {
		inMemory(t, fs.Config{Script: script, Slots: 1}, func(t *testing.T, srv *fs.Server) {
			go ask(t, transport(t, srv), srv, streamBody, time.Hour)
			require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Requests == 1 }))
			time.Sleep(time.Second)
			start := time.Now()
			status, _ := get(t, srv, "/v1/models")
			assert.Equal(t, 200, status)
			assert.Equal(t, 59*time.Second, time.Since(start))
		})
	})
	t.Run("others are turned away", func(t *testing.T) {
		inMemory(t, fs.Config{Script: script, Slots: 1, Full: fs.Unavailable()}, func(t *testing.T, srv *fs.Server) {
			count := map[int]int{}
			for _, s := range together(t, srv) {
				count[s.status]++
			}
			assert.Equal(t, map[int]int{200: 1, 503: 2}, count)
		})
	})
	t.Run("a slot is held for a client that has left", func(t *testing.T) {
		cfg := fs.Config{Script: fs.Sequence(fs.Deaf(2*time.Minute), fs.Answer("ok")), Slots: 1, Full: fs.Unavailable()}
		inMemory(t, cfg, func(t *testing.T, srv *fs.Server) {
			tr := transport(t, srv)
			assert.True(t, ask(t, tr, srv, streamBody, time.Minute).silent)
			time.Sleep(time.Minute - time.Nanosecond)
			assert.Equal(t, 503, ask(t, tr, srv, streamBody, time.Hour).status)
			time.Sleep(2 * time.Nanosecond)
			assert.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body))
		})
	})
}
