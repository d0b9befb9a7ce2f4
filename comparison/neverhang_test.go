package comparison_test

import (
	"context"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

var neverhang = library{name: "neverhang/agentloop", run: func(ctx context.Context, p *player, d *desk) (string, error) {
	model := agentloop.ModelFunc(func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
		t, err := p.next(ctx)
		if err != nil {
			return nil, err
		}
		m := chat.Assistant(t.text)
		for _, c := range t.calls {
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{Name: c.tool, Arguments: fmt.Sprintf(`{"text":%q}`, c.text)})
		}
		return &chat.Response{Message: m}, nil
	})
	type args struct {
		Text string `json:"text,omitempty"`
	}
	var tools []agentloop.Tool
	for _, name := range toolNames {
		t, err := agentloop.NewTool(name, description(name), func(_ context.Context, in args) (string, error) { return d.use(name, in.Text) })
		if err != nil {
			return "", err
		}
		t.Timeout = time.Hour // the run's is to show
		tools = append(tools, t)
	}
	agent, err := agentloop.New(agentloop.Config{
		Name: "anna", Model: model, System: system, Task: task, Tools: tools,
		Progression: agentloop.Progression{
			{Name: "read", Tools: []string{"read"}}, {Name: "write", Tools: []string{"write"}}, {Name: "save", Tools: []string{"save"}},
		},
		Draft: func(context.Context, *agentloop.Result) (string, error) { return d.keep() },
	})
	if err != nil {
		return "", err
	}
	group, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{agent}, Timeout: deadline})
	if err != nil {
		return "", err
	}
	res := group.Run(ctx).Results[0]
	return fmt.Sprintf("%s; %s", res.Outcome, res.Stuck), res.Err
}}
