package comparison_test

import (
	"context"
	"errors"
	"fmt"

	"charm.land/fantasy"
)

var fantasyAgent = library{name: "charm.land/fantasy", run: func(ctx context.Context, p *player, d *desk) (string, error) {
	type args struct {
		Text string `json:"text,omitempty"`
	}
	var tools []fantasy.AgentTool
	for _, name := range toolNames {
		tools = append(tools, fantasy.NewAgentTool(name, description(name), func(_ context.Context, in args, _ fantasy.ToolCall) (fantasy.ToolResponse, error) {
			out, err := d.use(name, in.Text)
			if err != nil {
				return fantasy.NewTextErrorResponse(err.Error()), nil
			}
			return fantasy.NewTextResponse(out), nil
		}))
	}
	agent := fantasy.NewAgent(&fantasyModel{p: p}, fantasy.WithSystemPrompt(system), fantasy.WithTools(tools...))
	result, err := agent.Generate(ctx, fantasy.AgentCall{Prompt: task})
	if err != nil {
		return "", err
	}
	return result.Response.Content.Text(), nil
}}

type fantasyModel struct {
	p     *player
	calls int
}

func (m *fantasyModel) Generate(ctx context.Context, _ fantasy.Call) (*fantasy.Response, error) {
	t, err := m.p.next(ctx)
	if err != nil {
		return nil, err
	}
	r := &fantasy.Response{FinishReason: fantasy.FinishReasonStop}
	if t.text != "" {
		r.Content = append(r.Content, fantasy.TextContent{Text: t.text})
	}
	for _, c := range t.calls {
		m.calls++
		r.FinishReason = fantasy.FinishReasonToolCalls
		r.Content = append(r.Content, fantasy.ToolCallContent{
			ToolCallID: fmt.Sprint("call", m.calls), ToolName: c.tool, Input: fmt.Sprintf(`{"text":%q}`, c.text),
		})
	}
	return r, nil
}

var errNotAsked = errors.New("not asked in these scenes")

func (m *fantasyModel) Stream(context.Context, fantasy.Call) (fantasy.StreamResponse, error) {
	return nil, errNotAsked
}
func (m *fantasyModel) GenerateObject(context.Context, fantasy.ObjectCall) (*fantasy.ObjectResponse, error) {
	return nil, errNotAsked
}
func (m *fantasyModel) StreamObject(context.Context, fantasy.ObjectCall) (fantasy.ObjectStreamResponse, error) {
	return nil, errNotAsked
}
func (m *fantasyModel) Provider() string { return "scripted" }
func (m *fantasyModel) Model() string    { return "scripted" }
