package fakeserver_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

// texts joins what the events of a stream say.
func texts(t *testing.T, body string) string {
	t.Helper()
	return assemble(t, body).Message.Content
}

func assemble(t *testing.T, body string) *chat.Response {
	t.Helper()
	var a chat.Assembler
	for line := range strings.Lines(strings.ReplaceAll(body, "\r\n", "\n")) {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		ch, err := chat.ParseChunk([]byte(data))
		require.NoError(t, err)
		a.Add(ch)
	}
	return a.Response()
}

// Every way in which a reply can go, as a client sees it on either network.
func TestReplies(t *testing.T) {
	ended := func(t *testing.T, s seen) {
		assert.NoError(t, s.err)
		assert.False(t, s.silent)
	}
	tests := map[string]struct {
		reply fs.Step
		body  string // streamBody if empty
		hangs bool   // nothing more comes at some point
		check func(t *testing.T, s seen)
	}{
		"a whole answer": {
			reply: fs.Answer("all is well"),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "all is well", texts(t, s.body))
				assert.Equal(t, "text/event-stream", s.header.Get("Content-Type"))
				assert.True(t, strings.HasSuffix(s.body, "data: [DONE]\n\n"))
				assert.NotContains(t, s.body, `"usage"`, "usage was not asked for")
			},
		},
		"a whole answer with usage asked for": {
			reply: fs.Answer("all is well"), body: usageBody,
			check: func(t *testing.T, s seen) {
				ended(t, s)
				require.NotNil(t, assemble(t, s.body).Usage)
				assert.Positive(t, assemble(t, s.body).Usage.TotalTokens)
			},
		},
		"a whole answer in one piece": {
			reply: fs.Reply(fs.Reasoning("hm"), fs.Answer("all is well")), body: plainBody,
			check: func(t *testing.T, s seen) {
				ended(t, s)
				resp, serr, err := chat.ParseResponse([]byte(s.body))
				require.NoError(t, err)
				require.Nil(t, serr)
				assert.Equal(t, "all is well", resp.Message.Content)
				assert.Equal(t, "hm", resp.Message.Reasoning)
				assert.Equal(t, chat.FinishStop, resp.FinishReason)
				assert.NotNil(t, resp.Usage)
				assert.Equal(t, "application/json", s.header.Get("Content-Type"))
			},
		},
		"a tool call in pieces": {
			reply: fs.AnswerCall("c1", "save", `{"text":"über"}`),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				resp := assemble(t, s.body)
				require.Len(t, resp.Message.ToolCalls, 1)
				assert.Equal(t, chat.ToolCall{ID: "c1", Type: "function", Name: "save", Arguments: `{"text":"über"}`}, resp.Message.ToolCalls[0])
				assert.Equal(t, chat.FinishToolCalls, resp.FinishReason)
			},
		},
		"a tool call in one piece": {
			reply: fs.AnswerCall("c1", "save", `{}`), body: plainBody,
			check: func(t *testing.T, s seen) {
				ended(t, s)
				resp, _, err := chat.ParseResponse([]byte(s.body))
				require.NoError(t, err)
				require.Len(t, resp.Message.ToolCalls, 1)
				assert.Equal(t, "save", resp.Message.ToolCalls[0].Name)
			},
		},
		"two calls without index": {
			reply: fs.Reply(fs.ToolDelta(-1, "a", "f", "{}"), fs.ToolDelta(-1, "b", "g", "{}")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.NotContains(t, s.body[strings.Index(s.body, "tool_calls"):strings.Index(s.body, "}]")], `"index":`)
				assert.Len(t, assemble(t, s.body).Message.ToolCalls, 2)
			},
		},
		"silence before headers": {
			reply: fs.Hang(),
			hangs: true,
			check: func(t *testing.T, s seen) {
				assert.True(t, s.silent)
				assert.Zero(t, s.status)
			},
		},
		"headers and silence": {
			reply: fs.Reply(fs.Headers(), fs.Hang()),
			hangs: true,
			check: func(t *testing.T, s seen) {
				assert.True(t, s.silent)
				assert.Equal(t, 200, s.status)
				assert.Empty(t, s.body)
			},
		},
		"tokens and silence": {
			reply: fs.Reply(fs.Text("par"), fs.Hang()),
			hangs: true,
			check: func(t *testing.T, s seen) {
				assert.True(t, s.silent)
				assert.Equal(t, "par", texts(t, s.body))
			},
		},
		"silence in place of a plain answer": {
			reply: fs.Reply(fs.Text("par"), fs.Hang()), body: plainBody,
			hangs: true,
			check: func(t *testing.T, s seen) {
				assert.True(t, s.silent)
				assert.Zero(t, s.status)
			},
		},
		"a few pings and then an answer": {
			reply: fs.Reply(fs.Repeat(3, 10*time.Millisecond, fs.PingForms()...), fs.Answer("ok")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, 3, strings.Count(s.body, ": ping\n\n"))
				assert.Equal(t, 3, strings.Count(s.body, "\n:\n\n"), "the bare form")
				assert.Equal(t, 3, strings.Count(s.body, ": OPENROUTER PROCESSING\n\n"))
				assert.Equal(t, 3, strings.Count(s.body, "event: ping\ndata: {\"type\":\"ping\"}\n\n"))
				assert.GreaterOrEqual(t, s.took, 20*time.Millisecond)
			},
		},
		"a reset before headers": {
			reply: fs.Reset(),
			check: func(t *testing.T, s seen) { assert.ErrorIs(t, s.err, syscall.ECONNRESET) },
		},
		"a reset in the middle": {
			reply: fs.Reply(fs.Text("par"), fs.Pause(20*time.Millisecond), fs.Reset()),
			check: func(t *testing.T, s seen) {
				assert.ErrorIs(t, s.err, syscall.ECONNRESET)
				assert.Equal(t, "par", texts(t, s.body))
			},
		},
		"a clean end in the middle": {
			reply: fs.Reply(fs.Text("par"), fs.Cut(), fs.Text("never")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "par", texts(t, s.body))
				assert.NotContains(t, s.body, "DONE")
			},
		},
		"a clean end in the middle of JSON": {
			reply: fs.Reply(fs.Text("par"), fs.Finish("stop"), fs.Cut()), body: plainBody,
			check: func(t *testing.T, s seen) {
				ended(t, s)
				_, _, err := chat.ParseResponse([]byte(s.body))
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			},
		},
		"a close in the middle of a chunk": {
			reply: fs.Reply(fs.Text("par"), fs.Abrupt()),
			check: func(t *testing.T, s seen) {
				assert.ErrorIs(t, s.err, io.ErrUnexpectedEOF)
				assert.Contains(t, s.body, "par")
				assert.True(t, strings.HasSuffix(s.body, "conte"), s.body)
			},
		},
		"a close in the middle of JSON": {
			reply: fs.Reply(fs.Text("par"), fs.Abrupt()), body: plainBody,
			check: func(t *testing.T, s seen) {
				assert.ErrorIs(t, s.err, io.ErrUnexpectedEOF)
				assert.NotEmpty(t, s.body)
			},
		},
		"a body shorter than promised": {
			reply: fs.Short(`{"choices":[]}`), body: plainBody,
			check: func(t *testing.T, s seen) {
				assert.ErrorIs(t, s.err, io.ErrUnexpectedEOF)
				assert.Equal(t, `{"choices":[]}`, s.body)
			},
		},
		"a broken chunk": {
			reply: fs.Reply(fs.Text("par"), fs.Malformed(), fs.Done()),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				_, data, _ := strings.Cut(strings.Split(s.body, "\n\n")[1], "data: ")
				_, err := chat.ParseChunk([]byte(data))
				assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			},
		},
		"a stream with nothing in it": {
			reply: fs.Reply(),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, 200, s.status)
				assert.Empty(t, s.body)
				assert.Equal(t, "text/event-stream", s.header.Get("Content-Type"))
			},
		},
		"a web page": {
			reply: fs.HTML(),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, 200, s.status)
				assert.Contains(t, s.header.Get("Content-Type"), "text/html")
				assert.Contains(t, s.body, "<html>")
			},
		},
		"a web page of no type": {
			reply: fs.Reply(fs.Header("content-type", ""), fs.Raw("<html>busy</html>")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Empty(t, s.header.Values("Content-Type"))
				assert.Equal(t, "<html>busy</html>", s.body)
			},
		},
		"an error of the server": {
			reply: fs.Unavailable(),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, 503, s.status)
				assert.Equal(t, "server_error", chat.ParseError([]byte(s.body)).Type)
			},
		},
		"an error whose body never ends": {
			reply: fs.Reply(fs.Code(503), fs.Raw(strings.Repeat("x", 4096)), fs.Hang()),
			hangs: true,
			check: func(t *testing.T, s seen) {
				assert.True(t, s.silent)
				assert.Equal(t, 503, s.status)
				assert.Len(t, s.body, 4096)
			},
		},
		"a throttle": {
			reply: fs.Reply(fs.RetryAfter(1500*time.Millisecond), fs.RetryAfterMs(-time.Millisecond), fs.Throttled()),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, 429, s.status)
				assert.Equal(t, "1.5", s.header.Get("Retry-After"))
				assert.Equal(t, "-1", s.header.Get("Retry-After-Ms"))
				assert.Equal(t, "rate_limit_exceeded", chat.ParseError([]byte(s.body)).Code)
			},
		},
		"a throttle until a date past": {
			reply: fs.Reply(fs.RetryAfterDate(-time.Hour), fs.Throttled()),
			check: func(t *testing.T, s seen) {
				when, err := http.ParseTime(s.header.Get("Retry-After"))
				require.NoError(t, err)
				assert.InDelta(t, -time.Hour, time.Until(when), float64(5*time.Second))
			},
		},
		"line ends of CR LF": {
			reply: fs.Reply(fs.CRLF(), fs.Answer("ok")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, strings.Count(s.body, "\n"), strings.Count(s.body, "\r\n"))
				assert.Equal(t, "ok", texts(t, s.body))
			},
		},
		"a huge event": {
			reply: fs.Reply(fs.Huge(1<<20+1), fs.End("stop")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Len(t, texts(t, s.body), 1<<20+1)
			},
		},
		"a bomb": {
			reply: fs.Bomb(1 << 19),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Less(t, len(s.body), 16<<10)
				z, err := gzip.NewReader(strings.NewReader(s.body))
				require.NoError(t, err)
				n, err := io.Copy(io.Discard, z)
				assert.NoError(t, err)
				assert.Greater(t, n, int64(1<<19))
			},
		},
		"an interruption after two pieces": {
			reply: fs.Interrupt(fs.Answer("one two three"), 2, fs.Cut()),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "one two", texts(t, s.body))
			},
		},
		"an interruption before the finish": {
			reply: fs.Interrupt(fs.Answer("one two three"), 9, fs.Cut()),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "one two three", texts(t, s.body))
				assert.NotContains(t, s.body, `"finish_reason":"stop"`)
			},
		},
		"JSON as it is": {
			reply: fs.JSON(`{"choices":`), body: plainBody,
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, `{"choices":`, s.body)
			},
		},
		"an event of one's own": {
			reply: fs.Reply(fs.Event("message_start", `{"a":1}`), fs.Chunk(`{"b":2}`), fs.Comment("c")),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "event: message_start\ndata: {\"a\":1}\n\ndata: {\"b\":2}\n\n: c\n\n", s.body)
			},
		},
		"steps after the end are not played": {
			reply: fs.Reply(fs.OutOfQuota(), fs.Hang()),
			check: func(t *testing.T, s seen) {
				ended(t, s)
				assert.Equal(t, "insufficient_quota", chat.ParseError([]byte(s.body)).Code)
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			onBoth(t, fs.Config{Script: fs.Always(tt.reply)}, func(t *testing.T, srv *fs.Server) {
				body := tt.body
				if body == "" {
					body = streamBody
				}
				patience := time.Minute
				if tt.hangs {
					patience = 300 * time.Millisecond
				}
				s := ask(t, transport(t, srv), srv, body, patience)
				tt.check(t, s)
			})
		})
	}
}

// An error inside a 200, in every form, is found by who reads it.
func TestErrorInside(t *testing.T) {
	for _, form := range fs.ErrorForms() {
		t.Run(string(form), func(t *testing.T) {
			reply := fs.Reply(fs.Text("par"), fs.ErrorInside(form, 503, "queue full"))
			inMemory(t, fs.Config{Script: fs.Always(reply)}, func(t *testing.T, srv *fs.Server) {
				tr := transport(t, srv)
				s := ask(t, tr, srv, streamBody, time.Hour)
				require.NoError(t, s.err)
				assert.Equal(t, 200, s.status)
				found := false
				for line := range strings.Lines(s.body) {
					data, ok := strings.CutPrefix(line, "data: ")
					if !ok || strings.HasPrefix(data, "[DONE]") {
						continue
					}
					ch, err := chat.ParseChunk([]byte(data))
					require.NoError(t, err)
					found = found || ch.Error != nil && ch.Error.Message == "queue full"
				}
				assert.Equal(t, form != fs.ErrorLine, found, s.body)
				assert.Equal(t, form == fs.ErrorLine, strings.Contains(s.body, "\nerror: {"))

				s = ask(t, tr, srv, plainBody, time.Hour)
				assert.Equal(t, "queue full", chat.ParseError([]byte(s.body)).Message)
			})
		})
	}
}

// In virtual time a reply takes what its steps add up to, to the nanosecond.
func TestTimes(t *testing.T) {
	tests := map[string]struct {
		reply fs.Step
		want  time.Duration
	}{
		"nothing takes no time":           {fs.Answer("ok"), 0},
		"a long silence before one call":  {fs.Reply(fs.Headers(), fs.Pause(5*time.Minute), fs.AnswerCall("c", "save", "{}")), 5 * time.Minute},
		"a drip waits before each word":   {fs.Drip(3*time.Second, "one two three"), 9 * time.Second},
		"slowly waits before each piece":  {fs.Slowly(time.Second, fs.Answer("one two three")), 3 * time.Second},
		"slowly ends with its reply":      {fs.Reply(fs.Slowly(time.Second, fs.Text("a")), fs.Text("b")), time.Second},
		"repeat waits between, not after": {fs.Repeat(4, time.Minute, fs.Ping()), 3 * time.Minute},
		"a negative pause is none":        {fs.Reply(fs.Pause(-time.Second), fs.Answer("ok")), 0},
		"deaf waits as well":              {fs.Reply(fs.Deaf(7*time.Second), fs.Answer("ok")), 7 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, fs.Config{Script: fs.Always(tt.reply)}, func(t *testing.T, srv *fs.Server) {
				s := ask(t, transport(t, srv), srv, streamBody, time.Hour)
				require.NoError(t, s.err)
				assert.Equal(t, tt.want, s.took)
				r := srv.Requests()[0]
				assert.Equal(t, tt.want, r.Ended.Sub(r.Arrived))
			})
		})
	}
}

// Replies without an end go on until the client leaves, and end then.
func TestEndless(t *testing.T) {
	tests := map[string]struct {
		reply fs.Step
		want  string
	}{
		"pings":   {fs.Pings(10 * time.Second), ": ping\n\n"},
		"numbers": {fs.Endless(10 * time.Second), `"content":"6 "`},
		"a fragment over and over": {
			fs.Stuck(10*time.Second, "again "), `"content":"again "`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inMemory(t, fs.Config{Script: fs.Always(tt.reply)}, func(t *testing.T, srv *fs.Server) {
				tr := transport(t, srv)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
				require.NoError(t, err)
				resp, err := tr.RoundTrip(req)
				require.NoError(t, err)
				events := 0
				var last string
				for events < 6 {
					buf := make([]byte, 4096)
					n, err := resp.Body.Read(buf)
					require.NoError(t, err)
					events++
					last = string(buf[:n])
				}
				assert.Contains(t, last, tt.want)
				assert.Equal(t, 50*time.Second, time.Since(srv.Requests()[0].Arrived))
				require.NoError(t, resp.Body.Close())
				require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Ended == 1 && s.Open == 0 }))
				assert.Equal(t, 50*time.Second, srv.Requests()[0].Left.Sub(srv.Requests()[0].Arrived))
			})
		})
	}
}

// Split hands a client the bytes in small reads. The text is the same.
func TestSplit(t *testing.T) {
	for name, tt := range map[string]struct{ n, longest int }{
		"a byte at a time": {1, 1},
		"three at a time":  {3, 3},
		"up to 7":          {-7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			script := fs.Sequence(fs.Reply(fs.Split(tt.n), fs.CRLF(), fs.Answer("grüße 你好")), fs.Answer("whole again"))
			onBoth(t, fs.Config{Script: script}, func(t *testing.T, srv *fs.Server) {
				tr := transport(t, srv)
				s := ask(t, tr, srv, streamBody, time.Second)
				require.NoError(t, s.err)
				assert.Equal(t, "grüße 你好", texts(t, s.body))
				if strings.Contains(srv.URL(), "model.test") {
					// One read of a body may join chunks that are there already: seldom more than two.
					assert.LessOrEqual(t, s.longest, 10*tt.longest)
					assert.GreaterOrEqual(t, s.reads, len(s.body)/(4*tt.longest))
				}
				s = ask(t, tr, srv, streamBody, time.Second)
				assert.Equal(t, "whole again", texts(t, s.body))
				assert.Greater(t, s.longest, 100, "the next reply on the connection is not split")
			})
		})
	}
}

// By HTTP/2 a broken reply breaks its stream, a reset the connection.
func TestHTTP2(t *testing.T) {
	script := fs.Sequence(
		fs.Answer("two"),
		fs.Reply(fs.Text("par"), fs.Abrupt()),
		fs.Reply(fs.Text("par"), fs.Hang()),
		fs.Reset(),
		fs.Answer("new"),
	)
	inMemory(t, fs.Config{Script: script}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		tr.Protocols = &p
		s := ask(t, tr, srv, streamBody, time.Hour)
		require.NoError(t, s.err)
		assert.Equal(t, "two", texts(t, s.body))
		assert.Equal(t, "HTTP/2.0", srv.Requests()[0].Proto)

		s = ask(t, tr, srv, streamBody, time.Hour)
		assert.Error(t, s.err)
		assert.Contains(t, s.body, "par")

		s = ask(t, tr, srv, streamBody, time.Hour)
		assert.True(t, s.silent)
		assert.Equal(t, 1, srv.Stats().Dialled, "the connection outlives broken streams")

		s = ask(t, tr, srv, streamBody, time.Hour)
		assert.Error(t, s.err)
		s = ask(t, tr, srv, streamBody, time.Hour)
		assert.Equal(t, "new", texts(t, s.body))
		assert.Equal(t, 2, srv.Stats().Dialled)
	})
}

// A connection that is lost without a word is found out by HTTP/2's pings, if
// the client sends some, and by nothing else.
func TestHTTP2LosesItsConnection(t *testing.T) {
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok"))}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		tr.Protocols = &p
		tr.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
		require.NoError(t, ask(t, tr, srv, streamBody, time.Hour).err)
		srv.LoseConns()
		s := ask(t, tr, srv, streamBody, time.Hour)
		assert.Error(t, s.err)
		assert.False(t, s.silent)
		assert.Equal(t, 15*time.Second, s.took)
		s = ask(t, tr, srv, streamBody, time.Hour)
		assert.Equal(t, "ok", texts(t, s.body))
		assert.Equal(t, 2, srv.Stats().Dialled)
	})
}

func TestStepNames(t *testing.T) {
	tests := map[string]fs.Step{
		`text("hello") hang`: fs.Reply(fs.Text("hello"), fs.Hang()),
		`repeat(3 1s ping)`:  fs.Repeat(3, time.Second, fs.Ping()),
		`pings(1s)`:          fs.Pings(time.Second),
		`interrupt(2 reset)`: fs.Interrupt(fs.Answer("x"), 2, fs.Reset()),
		`header(Retry-After: 1) error(429 rate_limit_error)`: fs.Reply(fs.RetryAfter(time.Second), fs.Throttled()),
		`error-inside(flat 400)`:                             fs.ErrorInside(fs.ErrorFlat, 400, "x"),
		`call(save "{}")`:                                    fs.CallTool("1", "save", "{}"),
		`text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…")`:          fs.Text(strings.Repeat("a", 99)),
		``: {},
	}
	for want, step := range tests {
		assert.Equal(t, want, step.String())
	}
}

// What a caller can pass does no harm, however odd.
func TestOddSteps(t *testing.T) {
	odd := []fs.Step{
		{}, fs.Reply(), fs.Repeat(0, 0), fs.Repeat(2, -time.Second), fs.Status(0, ""), fs.Status(999, "x"), fs.Code(-1),
		fs.CallToolIn(-3, "", "", ""), fs.CallToolIn(99, "", "f", "{}"), fs.ToolDelta(-1, "", "", ""), fs.Huge(-1), fs.Bomb(-1),
		fs.Split(-1), fs.ErrorInside("new form", 42, ""), fs.Interrupt(fs.Step{}, -1), fs.Slowly(-1, fs.Step{}), fs.Drip(0, ""),
		fs.Text(""), fs.Answer(""), fs.Short(""), fs.Header("", ""), fs.JSON(""), fs.Interrupt(fs.Answer("a b"), -1),
	}
	inMemory(t, fs.Config{Script: func(r *fs.Request) fs.Step { return odd[(r.Ordinal-1)/2] }}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		for _, step := range odd {
			for _, body := range []string{streamBody, plainBody} {
				s := ask(t, tr, srv, body, time.Hour)
				assert.False(t, s.silent, step)
				if s.err != nil {
					assert.True(t, errors.Is(s.err, io.ErrUnexpectedEOF), "%v: %v", step, s.err)
				}
			}
		}
		require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Ended == 2*len(odd) }))
	})
	assert.Equal(t, "", fs.Sequence()(&fs.Request{}).String())
}
