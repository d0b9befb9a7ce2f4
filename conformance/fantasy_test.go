package conformance_test

import (
	"context"
	"time"

	"charm.land/fantasy"
	"charm.land/fantasy/providers/openaicompat"
	"github.com/openai/openai-go/v3/option"
)

var fantasyAgent = sdk{name: "fantasy", wire: completions, headers: 10 * time.Minute, ask: askFantasy}

// askFantasy runs an agent for one step: it has retries of its own, above those
// of the SDK that it is built on.
func askFantasy(ctx context.Context, q question) (answer, error) {
	opts := []openaicompat.Option{
		openaicompat.WithAPIKey(apiKey),
		openaicompat.WithBaseURL(q.base),
		openaicompat.WithHTTPClient(q.client),
	}
	if q.quiet {
		opts = append(opts, openaicompat.WithSDKOptions(option.WithMaxRetries(0)))
	}
	provider, err := openaicompat.New(opts...)
	if err != nil {
		return answer{}, err
	}
	lm, err := provider.LanguageModel(ctx, model)
	if err != nil {
		return answer{}, err
	}
	agentOpts := []fantasy.AgentOption{fantasy.WithStopConditions(fantasy.StepCountIs(1))}
	if q.quiet {
		agentOpts = append(agentOpts, fantasy.WithMaxRetries(0))
	}
	if q.mode.tools {
		type input struct {
			Text string `json:"text"`
		}
		agentOpts = append(agentOpts, fantasy.WithTools(fantasy.NewAgentTool(toolName, toolDesc,
			func(context.Context, input, fantasy.ToolCall) (fantasy.ToolResponse, error) {
				return fantasy.NewTextResponse("saved"), nil
			})))
	}
	agent := fantasy.NewAgent(lm, agentOpts...)
	var result *fantasy.AgentResult
	if q.mode.streamed {
		result, err = agent.Stream(ctx, fantasy.AgentStreamCall{Prompt: prompt})
	} else {
		result, err = agent.Generate(ctx, fantasy.AgentCall{Prompt: prompt})
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{text: result.Response.Content.Text()}
	for _, call := range result.Response.Content.ToolCalls() {
		a.tool, a.args = call.ToolName, call.Input
	}
	return a, nil
}
