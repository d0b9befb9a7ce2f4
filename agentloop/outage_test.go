package agentloop_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// These tests have the real client between the agents and a server.

// served returns a client of a server with the script, and what ends both.
func served(t *testing.T, script fakeserver.Script) (*llmclient.Client, *fakeserver.Server, func()) {
	t.Helper()
	srv := fakeserver.New(fakeserver.Config{Script: fakeserver.Strict(script)})
	tr := srv.Transport()
	client, err := llmclient.New(llmclient.Config{BaseURL: srv.BaseURL(), Model: "m", HTTPClient: &http.Client{Transport: tr}})
	require.NoError(t, err)
	return client, srv, func() {
		assert.NoError(t, client.Close())
		tr.CloseIdleConnections()
		srv.Close()
	}
}

// writes plays a model that reads four pages, writes and saves, ten seconds each.
func writes(r *fakeserver.Request) fakeserver.Step {
	turn := 0
	for _, m := range r.Chat.Messages {
		if m.Role == chat.RoleAssistant {
			turn++
		}
	}
	tool := []string{"read", "read", "read", "read", "write", "save"}[turn]
	return fakeserver.Reply(fakeserver.Pause(10*time.Second), fakeserver.AnswerCall(fmt.Sprint("c", turn), tool, fmt.Sprintf(`{"n":%d}`, turn)))
}

// The night itself: 45 agents at work, and the endpoint stops answering. With no
// setting at all it is known what is the matter, the server is left alone but for
// a few questions, and when it is back every agent ends its work.
func TestTheNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quiet, back = 25 * time.Second, 16 * time.Minute
		var during atomic.Int32
		client, srv, closes := served(t, func(r *fakeserver.Request) fakeserver.Step {
			if r.Since >= quiet && r.Since < back {
				during.Add(1)
				return fakeserver.Reply(fakeserver.Deaf(back-r.Since), fakeserver.Status(503, "{}"))
			}
			return writes(r)
		})
		var said []string
		cfg := agentloop.Config{Model: client, Tools: (&desk{}).tools(t), Progression: article()}
		cfg.Task = "Write."
		var agents []*agentloop.Agent
		for i := range 45 {
			cfg.Name = fmt.Sprintf("agent%02d", i)
			cfg.Task = "Write article " + cfg.Name
			agents = append(agents, newAgent(t, cfg))
		}
		rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents, OnEvent: func(e agentloop.Event) {
			if e.Agent == "" {
				said = append(said, string(e.Kind))
			}
		}})
		assert.True(t, rep.Done(), "%v %v", rep.Counts, rep.Err)
		assert.Less(t, rep.Duration, time.Hour)
		assert.LessOrEqual(t, int(during.Load()), 45*3, "requests to a server that does not answer")
		assert.NotEmpty(t, said)
		t.Logf("%v after %v, %d requests while it was quiet of %d", said, rep.Duration, during.Load(), len(srv.Requests()))
		closes()
	})
}

// A long loop of tools stays inside of a window that only the server knows.
func TestAWindowThatOnlyTheServerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, srv, closes := served(t, fakeserver.Window(3000, func(r *fakeserver.Request) fakeserver.Step {
			n := len(r.Chat.Messages)
			if n > 24 {
				return fakeserver.Answer("read")
			}
			return fakeserver.AnswerCall(fmt.Sprint("c", n), "read", fmt.Sprintf(`{"i":%d}`, n))
		}))
		n := 0
		page := tool(t, "read", func(context.Context) (string, error) {
			n++
			return fmt.Sprintf("page %d ", n) + strings.Repeat("x", 4000), nil
		})
		res := runOne(t, agentloop.Config{Model: client, Tools: []agentloop.Tool{page}})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, 12, res.ToolCalls)
		assert.Positive(t, res.Shrinks)
		var refused []int
		for _, r := range srv.Requests() {
			if size := len(r.Body) / 4; size > 3000 {
				refused = append(refused, size)
			}
		}
		assert.NotEmpty(t, refused)
		assert.LessOrEqual(t, len(refused), 3, "it learns")
		closes()
	})
}
