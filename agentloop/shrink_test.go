package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A windowed server refuses, for good, what is longer than its window. perToken
// is how many bytes it takes for a token.
type windowed struct {
	*strictServer
	window, perToken int
	counts           bool // it tells how many tokens it counted
	overs            []int
}

type tooLong struct{}

func (tooLong) Error() string         { return "400: maximum context length exceeded" }
func (tooLong) ContextOverflow() bool { return true }

func (w *windowed) tokens(req *chat.Request) int {
	n := 0
	for _, m := range req.Messages {
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Arguments) + len(c.Name)
		}
	}
	return n / w.perToken
}

func (w *windowed) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	n := w.tokens(req)
	if n > w.window {
		w.overs = append(w.overs, n)
		return nil, fmt.Errorf("call: %w", tooLong{})
	}
	resp, err := w.strictServer.Chat(ctx, req)
	if err == nil && w.counts {
		resp.Usage = &chat.Usage{PromptTokens: int64(n), CompletionTokens: 1, TotalTokens: int64(n) + 1}
	}
	return resp, err
}

// pages is a tool whose results are long and new.
func pages(t *testing.T, bytes int) agentloop.Tool {
	var n atomic.Int32
	return tool(t, "read", func(context.Context) (string, error) {
		return fmt.Sprintf("page %d: ", n.Add(1)) + strings.Repeat("x", bytes), nil
	})
}

// A long loop of tools does not grow through the window.
func TestConversationsFitTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		window, perToken int
		known            bool // the agent is told of the window
		counts           bool
		overs            int // requests refused, at most
	}{
		"known, counted":            {2000, 4, true, true, 0},
		"known, not counted":        {2000, 4, true, false, 0},
		"unknown":                   {2000, 4, false, false, 4},
		"unknown, counted":          {2000, 4, false, true, 4},
		"known, of a dense text":    {2000, 1, true, true, 2},
		"known, dense, not counted": {2000, 1, true, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			script := make([]step, 10)
			turn := reads(1)
			for i := range script {
				script[i] = turn
			}
			m := &windowed{strictServer: play(append(script, says("ok"))...), window: c.window, perToken: c.perToken, counts: c.counts}
			cfg := agentloop.Config{Model: m, Tools: []agentloop.Tool{pages(t, 1000*c.perToken)}, Request: chat.Request{MaxTokens: 200}}
			if c.known {
				cfg.Window = c.window
			}
			res := runOne(t, cfg)
			require.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Equal(t, 10, res.ToolCalls)
			assert.Positive(t, res.Shrinks)
			assert.LessOrEqual(t, len(m.overs), c.overs)
			for i, n := range m.overs[min(1, len(m.overs)):] {
				assert.Less(t, n, m.overs[i], "nothing that was too long is sent again")
			}
			// The newest result is whole where there is room for it.
			last := m.last(chat.RoleTool)[0]
			assert.Contains(t, last, "page 10: ")
		})
	}
}

func TestAConversationThatCannotFitEndsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		known int
		task  int // bytes
		sent  int // requests the server saw
		want  agentloop.Outcome
	}{
		"before it is sent":   {2000, 8000, 0, agentloop.Exhausted},
		"after it was, once":  {0, 8004, 1, agentloop.Exhausted},
		"just fits":           {2000, 4000, 1, agentloop.Done},
		"fits, nobody knows":  {0, 8000, 1, agentloop.Done},
		"a known one is less": {1000, 4000, 0, agentloop.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			m := &windowed{strictServer: play(says("ok")), window: 2000, perToken: 4}
			res := runOne(t, agentloop.Config{Model: m, Window: c.known, Task: strings.Repeat("x", c.task), Request: chat.Request{MaxTokens: 100}})
			assert.Equal(t, c.sent, len(m.overs)+len(m.requests()))
			assert.Equal(t, c.want, res.Outcome, res.Err)
			if c.want == agentloop.Done {
				return
			}
			ce, ok := errors.AsType[*agentloop.ContextError](res.Err)
			require.True(t, ok, res.Err)
			assert.Equal(t, c.known == 0, errors.Is(ce, tooLong{}), "what the model said is kept")
			assert.Greater(t, ce.Tokens, int64(1000))
		})
	}
}

// Old results go first; calls keep theirs, and nothing else is touched.
func TestOldResultsAreCutFirst(t *testing.T) {
	m := &windowed{strictServer: play(reads(1), reads(2), reads(1), says("ok")), window: 3000, perToken: 4, counts: true}
	var events []agentloop.Event
	res := runOne(t, agentloop.Config{
		Model: m, Window: 3000, Tools: []agentloop.Tool{pages(t, 3000)}, Request: chat.Request{MaxTokens: 100},
		OnEvent: func(e agentloop.Event) {
			if e.Kind == agentloop.EventShrunk {
				events = append(events, e)
			}
		},
	})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Empty(t, m.overs)
	msgs := m.requests()[3].Messages
	assert.Regexp(t, `^\[this older result of read was 3008 bytes and is left out to save room; call again if you need it\]$`, msgs[2].Content)
	assert.Len(t, msgs[len(msgs)-1].Content, 3008, "the newest is whole")
	require.Len(t, events, res.Shrinks)
	assert.Regexp(t, `^\d old results cut: \d+ of \d+ bytes left$`, events[0].Text)
}

// With leave to do so the model sums up what lies behind.
func TestOlderRoundsAreSummedUp(t *testing.T) {
	long := strings.Repeat("y", 1500)
	talk := func(n int) step {
		return calls(call("", "write", fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, long)))
	}
	script := func(summary step) *windowed {
		n := 0
		play := play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if len(req.Messages) == 1 && strings.HasPrefix(req.Messages[0].Content, "Sum up the work so far") {
				return summary(ctx, req)
			}
			if n++; n > 12 {
				return says("ok")(ctx, req)
			}
			return talk(n)(ctx, req)
		})
		return &windowed{strictServer: play, window: 2000, perToken: 4, counts: true}
	}
	cfg := agentloop.Config{System: "Be brief.", Task: "Write.", Tools: (&desk{}).tools(t), Window: 2000, Request: chat.Request{
		MaxTokens: 100, Stop: []string{"END"}, ResponseFormat: raw(`{"type":"json_object"}`),
	}}

	t.Run("again and again", func(t *testing.T) {
		made := 0
		m := script(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			assert.Empty(t, req.Tools)
			assert.Empty(t, req.Stop, "it is for the agent's answers")
			assert.Empty(t, req.ResponseFormat)
			assert.Contains(t, req.Messages[0].Content, "calls write {", "it is told what was done")
			assert.Contains(t, req.Messages[0].Content, "## tool\nwrite no. ", "and what came of it")
			made++
			if made > 1 {
				assert.Contains(t, req.Messages[0].Content, fmt.Sprintf("summary no. %d", made-1), "the last one is in the next")
			}
			return says(fmt.Sprintf("<think>hm</think>\nsummary no. %d", made))(ctx, req) // the thoughts are none of it
		})
		cfg.Model, cfg.Summarize = m, true
		res := runOne(t, cfg)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Empty(t, m.overs)
		assert.Greater(t, made, 1)
		first := res.Messages[1].Content
		assert.Equal(t, fmt.Sprintf("Write.\n\n[The older part of this conversation was summed up to save room:]\nsummary no. %d", made), first)
		assert.Equal(t, 12, res.ToolCalls)
		assert.Equal(t, "Be brief.", res.Messages[0].Content)
	})
	for name, s := range map[string]step{
		"an empty one":         says(""),
		"thoughts alone":       says("<think>What was it that"),
		"a mark alone":         says("<|im_end|>"),
		"a fault":              fails(passing{}),
		"one longer than that": says(strings.Repeat("z", 100_000)),
	} {
		t.Run("in vain: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := script(s)
				cfg.Model, cfg.Summarize = m, true
				res := runOne(t, cfg)
				assert.Equal(t, agentloop.Exhausted, res.Outcome)
				_, ok := errors.AsType[*agentloop.ContextError](res.Err)
				assert.True(t, ok, res.Err)
				assert.Empty(t, m.overs)
			})
		})
	}
	t.Run("not without leave", func(t *testing.T) {
		m := script(func(context.Context, *chat.Request) (*chat.Response, error) { t.Error("asked"); return nil, nil })
		cfg.Model, cfg.Summarize = m, false
		res := runOne(t, cfg)
		assert.Equal(t, agentloop.Exhausted, res.Outcome)
		assert.Empty(t, m.overs)
	})
}

// A request that is under way is not changed under the hands of its reader.
func TestShrinkingLeavesOldRequestsAlone(t *testing.T) {
	var kept []chat.Message
	var before string
	m := &windowed{window: 2000, perToken: 4}
	turn := reads(1)
	m.strictServer = play(turn, func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		kept, before = req.Messages, transcript(req.Messages)
		return turn(ctx, req)
	}, turn, turn, says("ok"))
	res := runOne(t, agentloop.Config{Model: m, Window: 2000, Tools: []agentloop.Tool{pages(t, 4000)}})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Positive(t, res.Shrinks)
	assert.Equal(t, before, transcript(kept))
}

// The tools that are offered take room as well.
func TestToolsCountTowardsTheWindow(t *testing.T) {
	for bytes, shrinks := range map[int]int{0: 0, 4000: 1} {
		look := tool(t, "look", result("x"))
		look.Description = strings.Repeat("d", bytes)
		res := runOne(t, agentloop.Config{Model: play(says("ok")), Window: 2000, Request: chat.Request{MaxTokens: 100}, Tools: []agentloop.Tool{look},
			Messages: []chat.Message{
				chat.User("Look."), {Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{call("a", "look", "{}")}}, chat.ToolResult("a", strings.Repeat("x", 3000)),
				chat.Assistant("So it is."), chat.User("Go on."),
			}})
		assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, shrinks, res.Shrinks, "%d bytes of tools", bytes)
	}
}
