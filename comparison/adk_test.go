package comparison_test

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/llmagent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/tool"
	"google.golang.org/adk/tool/functiontool"
	"google.golang.org/genai"
)

var adkAgent = library{name: "google/adk-go", run: func(ctx context.Context, p *player, d *desk) (string, error) {
	type args struct {
		Text string `json:"text,omitempty"`
	}
	type result struct {
		Output string `json:"output,omitempty"`
		Error  string `json:"error,omitempty"`
	}
	var tools []tool.Tool
	for _, name := range toolNames {
		t, err := functiontool.New(functiontool.Config{Name: name, Description: description(name)}, func(_ tool.Context, in args) result {
			out, err := d.use(name, in.Text)
			if err != nil {
				return result{Error: err.Error()}
			}
			return result{Output: out}
		})
		if err != nil {
			return "", err
		}
		tools = append(tools, t)
	}
	anna, err := llmagent.New(llmagent.Config{Name: "anna", Description: "writes", Model: &adkModel{p: p}, Instruction: system, Tools: tools})
	if err != nil {
		return "", err
	}
	sessions := session.InMemoryService()
	created, err := sessions.Create(ctx, &session.CreateRequest{AppName: "app", UserID: "user"})
	if err != nil {
		return "", err
	}
	r, err := runner.New(runner.Config{AppName: "app", Agent: anna, SessionService: sessions})
	if err != nil {
		return "", err
	}
	said := ""
	for e, err := range r.Run(ctx, "user", created.Session.ID(), genai.NewContentFromText(task, genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return said, err
		}
		if c := e.LLMResponse.Content; c != nil {
			for _, part := range c.Parts {
				if part.Text != "" {
					said = part.Text
				}
			}
		}
	}
	return said, nil
}}

type adkModel struct {
	p     *player
	calls int
}

func (m *adkModel) Name() string { return "scripted" }

func (m *adkModel) GenerateContent(ctx context.Context, _ *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		t, err := m.p.next(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		content := &genai.Content{Role: genai.RoleModel}
		if t.text != "" {
			content.Parts = append(content.Parts, genai.NewPartFromText(t.text))
		}
		for _, c := range t.calls {
			m.calls++
			part := genai.NewPartFromFunctionCall(c.tool, map[string]any{"text": c.text})
			part.FunctionCall.ID = fmt.Sprint("call", m.calls)
			content.Parts = append(content.Parts, part)
		}
		yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
	}
}
