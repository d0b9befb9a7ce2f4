package conformance_test

import (
	"context"
	"errors"
	"io"

	"github.com/sashabaranov/go-openai"
)

var goOpenAI = sdk{name: "go-openai", wire: completions, ask: askGoOpenAI}

func askGoOpenAI(ctx context.Context, q question) (answer, error) {
	cfg := openai.DefaultConfig(apiKey)
	cfg.BaseURL = q.base
	cfg.HTTPClient = q.client
	client := openai.NewClientWithConfig(cfg)
	req := openai.ChatCompletionRequest{
		Model:    model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt}},
	}
	if q.mode.tools {
		req.Tools = []openai.Tool{{
			Type: openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{
				Name: toolName, Description: toolDesc, Parameters: toolSchema(),
			},
		}}
	}
	var a answer
	if !q.mode.streamed {
		resp, err := client.CreateChatCompletion(ctx, req)
		if err != nil || len(resp.Choices) == 0 {
			return a, err
		}
		msg := resp.Choices[0].Message
		a.text = msg.Content
		for _, call := range msg.ToolCalls {
			a.tool, a.args = call.Function.Name, call.Function.Arguments
		}
		return a, nil
	}
	stream, err := client.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return a, err
	}
	defer stream.Close()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return answer{}, err
		}
		for _, choice := range chunk.Choices {
			a.text += choice.Delta.Content
			for _, call := range choice.Delta.ToolCalls {
				a.tool += call.Function.Name
				a.args += call.Function.Arguments
			}
		}
	}
}
