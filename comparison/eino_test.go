package comparison_test

import (
	"context"
	"fmt"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

var einoAgent = library{name: "cloudwego/eino", run: func(ctx context.Context, p *player, d *desk) (string, error) {
	type args struct {
		Text string `json:"text,omitempty"`
	}
	var tools []tool.BaseTool
	for _, name := range toolNames {
		t, err := utils.InferTool(name, description(name), func(_ context.Context, in args) (string, error) { return d.use(name, in.Text) })
		if err != nil {
			return "", err
		}
		tools = append(tools, t)
	}
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "anna", Description: "writes", Instruction: system, Model: &einoModel{p: p},
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: tools}},
	})
	if err != nil {
		return "", err
	}
	said := ""
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(ctx, task)
	for {
		e, ok := events.Next()
		if !ok {
			return said, nil
		}
		if e.Err != nil {
			return said, e.Err
		}
		if e.Output != nil && e.Output.MessageOutput != nil {
			m, err := e.Output.MessageOutput.GetMessage()
			if err != nil {
				return said, err
			}
			if m.Role == schema.Assistant {
				said = m.Content
			}
		}
	}
}}

type einoModel struct {
	p     *player
	calls int
}

func (m *einoModel) Generate(ctx context.Context, _ []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	t, err := m.p.next(ctx)
	if err != nil {
		return nil, err
	}
	var calls []schema.ToolCall
	for _, c := range t.calls {
		m.calls++
		calls = append(calls, schema.ToolCall{
			ID: fmt.Sprint("call", m.calls), Function: schema.FunctionCall{Name: c.tool, Arguments: fmt.Sprintf(`{"text":%q}`, c.text)},
		})
	}
	return schema.AssistantMessage(t.text, calls), nil
}

func (m *einoModel) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	return nil, errNotAsked
}
func (m *einoModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }
