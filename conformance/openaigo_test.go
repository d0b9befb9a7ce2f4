package conformance_test

import (
	"context"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

var openaiGo = sdk{name: "openai-go", wire: completions, tells: true, headers: 10 * time.Minute, ask: askOpenAIGo}

func askOpenAIGo(ctx context.Context, q question) (answer, error) {
	opts := []option.RequestOption{
		option.WithAPIKey(apiKey),
		option.WithBaseURL(q.base),
		option.WithHTTPClient(q.client),
	}
	if q.quiet {
		opts = append(opts, option.WithMaxRetries(0))
	}
	client := openai.NewClient(opts...)
	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
	if q.mode.tools {
		params.Tools = []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
				Name: toolName, Description: openai.String(toolDesc), Parameters: toolSchema(),
			}),
		}
	}
	if !q.mode.streamed {
		done, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			return answer{}, err
		}
		return openaiGoAnswer(done), nil
	}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	return openaiGoAnswer(&acc.ChatCompletion), nil
}

func openaiGoAnswer(c *openai.ChatCompletion) answer {
	if len(c.Choices) == 0 {
		return answer{}
	}
	msg := c.Choices[0].Message
	a := answer{text: msg.Content}
	for _, call := range msg.ToolCalls {
		a.tool, a.args = call.Function.Name, call.Function.Arguments
	}
	return a
}
