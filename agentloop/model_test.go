package agentloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A strictServer is a model that plays a script and refuses, as the strictest
// servers do, a conversation that is not valid. The last step is played again
// and again.
type strictServer struct {
	steps []step

	mu   sync.Mutex
	seen []chat.Request
}

type step func(ctx context.Context, req *chat.Request) (*chat.Response, error)

func play(steps ...step) *strictServer { return &strictServer{steps: steps} }

func (s *strictServer) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	s.mu.Lock()
	n := len(s.seen)
	seen := *req
	seen.Messages = slices.Clone(req.Messages)
	s.seen = append(s.seen, seen)
	s.mu.Unlock()
	if err := strict(req.Messages); err != nil {
		return nil, fmt.Errorf("400: %w", err)
	}
	return s.steps[min(n, len(s.steps)-1)](ctx, req)
}

func (s *strictServer) requests() []chat.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// last returns the newest messages of the given role that the model was sent.
func (s *strictServer) last(role chat.Role) (texts []string) {
	reqs := s.requests()
	msgs := reqs[len(reqs)-1].Messages
	for _, m := range slices.Backward(msgs) {
		if m.Role != role {
			if len(texts) > 0 {
				break
			}
			continue
		}
		texts = append([]string{m.Content}, texts...)
	}
	return texts
}

var legalName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// strict returns what a strict server would refuse a conversation for.
func strict(msgs []chat.Message) error {
	ids := map[string]bool{}
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		if !seen(m.Content) && len(m.ToolCalls) == 0 && len(m.Parts) == 0 {
			return fmt.Errorf("messages[%d] (%s) is empty", i, m.Role)
		}
		if m.Role == chat.RoleTool {
			return fmt.Errorf("messages[%d] answers no call", i)
		}
		if i > 0 && (m.Role == chat.RoleSystem || m.Role == chat.RoleDeveloper) {
			return fmt.Errorf("messages[%d]: %s is not at the beginning", i, m.Role)
		}
		if m.Role == chat.RoleAssistant && (i == 0 || i == 1 && msgs[0].Role == chat.RoleSystem) {
			return fmt.Errorf("messages[%d]: the user does not speak first", i)
		}
		if i > 0 && m.Role == msgs[i-1].Role {
			return fmt.Errorf("messages[%d] repeats the role %s", i, m.Role)
		}
		if i > 0 && m.Role == chat.RoleUser && msgs[i-1].Role == chat.RoleTool {
			return fmt.Errorf("messages[%d]: user after tool", i)
		}
		for _, c := range m.ToolCalls {
			var args map[string]any
			switch {
			case c.ID == "" || ids[c.ID]:
				return fmt.Errorf("messages[%d]: call id %q is empty or repeated", i, c.ID)
			case !legalName.MatchString(c.Name):
				return fmt.Errorf("messages[%d]: illegal name %q", i, c.Name)
			case json.Unmarshal([]byte(c.Arguments), &args) != nil || args == nil:
				return fmt.Errorf("messages[%d]: arguments %q are no object", i, c.Arguments)
			}
			ids[c.ID] = true
			i++
			if i >= len(msgs) || msgs[i].Role != chat.RoleTool || msgs[i].ToolCallID != c.ID {
				return fmt.Errorf("messages[%d]: want the result of call %s", i, c.ID)
			}
			if !seen(msgs[i].Content) && len(msgs[i].Parts) == 0 {
				return fmt.Errorf("messages[%d]: empty result", i)
			}
		}
	}
	return nil
}

// seen reports whether there is anything in a text that somebody would see.
func seen(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsSpace(c) && !unicode.In(c, unicode.Cc, unicode.Cf) })
}

// What a model may answer.

func answer(m chat.Message, reason chat.FinishReason) step {
	return func(context.Context, *chat.Request) (*chat.Response, error) {
		m := m
		m.Role = chat.RoleAssistant
		return &chat.Response{Message: m, FinishReason: reason}, nil
	}
}

func says(text string) step { return answer(chat.Message{Content: text}, chat.FinishStop) }

func calls(list ...chat.ToolCall) step {
	return answer(chat.Message{ToolCalls: list}, chat.FinishToolCalls)
}

func call(id, name, args string) chat.ToolCall {
	return chat.ToolCall{ID: id, Name: name, Arguments: args}
}

func fails(err error) step {
	return func(context.Context, *chat.Request) (*chat.Response, error) { return nil, err }
}

// silent never answers, but obeys its context.
func silent(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func after(d time.Duration, s step) step {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		select {
		case <-time.After(d):
			return s(ctx, req)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A passing error is worth another try.
type passing struct{ after time.Duration }

func (p passing) Error() string             { return "server busy" }
func (p passing) Retryable() bool           { return true }
func (p passing) RetryAfter() time.Duration { return p.after }

var errWrongKey = errors.New("401: wrong key")

// Tools.

type none struct{}

func tool(t testing.TB, name string, run func(ctx context.Context) (string, error)) agentloop.Tool {
	t.Helper()
	tl, err := agentloop.NewTool(name, "", func(ctx context.Context, _ map[string]any) (string, error) { return run(ctx) })
	require.NoError(t, err)
	return tl
}

func result(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// desk is the tools of an author, and what they were called for.
type desk struct {
	mu   sync.Mutex
	done []string
}

func (d *desk) tools(t testing.TB) []agentloop.Tool {
	var list []agentloop.Tool
	for _, name := range []string{"read", "write", "append", "save"} {
		tl := tool(t, name, func(context.Context) (string, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done = append(d.done, name)
			return fmt.Sprintf("%s no. %d", name, len(d.done)), nil
		})
		tl.Sequential = name != "read"
		list = append(list, tl)
	}
	return list
}

func (d *desk) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.done, " ")
}

func article() agentloop.Progression {
	return agentloop.Progression{
		{Name: "read", Tools: []string{"read"}},
		{Name: "write", Tools: []string{"write", "append"}},
		{Name: "save", Tools: []string{"save"}},
	}
}

// author returns the configuration of an agent that reads, writes and saves.
func author(t testing.TB, m agentloop.Model) (agentloop.Config, *desk) {
	d := &desk{}
	return agentloop.Config{
		Name: "author", Model: m, Task: "Write.", Tools: d.tools(t), Progression: article(),
	}, d
}

func newAgent(t testing.TB, cfg agentloop.Config) *agentloop.Agent {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "a"
	}
	if cfg.Task == "" && cfg.Messages == nil {
		cfg.Task = "Do it."
	}
	a, err := agentloop.New(cfg)
	require.NoError(t, err)
	return a
}

// runAgent runs an agent in a group with the given settings and checks what
// holds for every run.
func runAgent(t testing.TB, cfg agentloop.Config, group agentloop.GroupConfig) (agentloop.Result, *agentloop.Report) {
	t.Helper()
	group.Agents = []*agentloop.Agent{newAgent(t, cfg)}
	if group.Rand == nil {
		group.Rand = func() float64 { return 0 }
	}
	g, err := agentloop.NewGroup(group)
	require.NoError(t, err)
	rep := g.Run(t.Context())
	res := rep.Results[0]
	require.NoError(t, strict(res.Messages), "the history of the result")
	require.Equal(t, res.Outcome == agentloop.Done, res.Err == nil, "Err = %v with outcome %s", res.Err, res.Outcome)
	require.Equal(t, map[agentloop.Outcome]int{res.Outcome: 1}, rep.Counts)
	return res, rep
}

func runOne(t testing.TB, cfg agentloop.Config) agentloop.Result {
	t.Helper()
	res, _ := runAgent(t, cfg, agentloop.GroupConfig{})
	return res
}

// Short names for signatures in scripts.
type (
	ctx = context.Context
	raw = json.RawMessage
)
