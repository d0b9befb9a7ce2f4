package conformance_test

import (
	"context"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

var langchain = sdk{name: "langchaingo", wire: completions, ask: askLangchain}

func askLangchain(ctx context.Context, q question) (answer, error) {
	llm, err := openai.New(
		openai.WithToken(apiKey),
		openai.WithModel(model),
		openai.WithBaseURL(q.base),
		openai.WithHTTPClient(q.client),
	)
	if err != nil {
		return answer{}, err
	}
	var opts []llms.CallOption
	if q.mode.tools {
		opts = append(opts, llms.WithTools([]llms.Tool{{
			Type: "function",
			Function: &llms.FunctionDefinition{
				Name: toolName, Description: toolDesc, Parameters: toolSchema(),
			},
		}}))
	}
	if q.mode.streamed {
		opts = append(opts, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
	}
	resp, err := llm.GenerateContent(ctx, []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeHuman, prompt),
	}, opts...)
	if err != nil || len(resp.Choices) == 0 {
		return answer{}, err
	}
	a := answer{text: resp.Choices[0].Content}
	for _, call := range resp.Choices[0].ToolCalls {
		a.tool, a.args = call.FunctionCall.Name, call.FunctionCall.Arguments
	}
	return a, nil
}
