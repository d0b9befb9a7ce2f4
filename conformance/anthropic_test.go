package conformance_test

import (
	"context"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

var anthropicGo = sdk{name: "anthropic-sdk-go", wire: messages, tells: true, headers: 10 * time.Minute, ask: askAnthropic}

func askAnthropic(ctx context.Context, q question) (answer, error) {
	opts := []option.RequestOption{
		option.WithAPIKey(apiKey),
		option.WithBaseURL(strings.TrimSuffix(q.base, "v1")),
		option.WithHTTPClient(q.client),
	}
	if q.quiet {
		opts = append(opts, option.WithMaxRetries(0))
	}
	client := anthropic.NewClient(opts...)
	params := anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 1024,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	}
	if q.mode.tools {
		schema := toolSchema()
		tool := anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: schema["properties"], Required: schema["required"].([]string),
		}, toolName)
		tool.OfTool.Description = anthropic.String(toolDesc)
		params.Tools = []anthropic.ToolUnionParam{tool}
	}
	if !q.mode.streamed {
		msg, err := client.Messages.New(ctx, params)
		if err != nil {
			return answer{}, err
		}
		return anthropicAnswer(msg), nil
	}
	stream := client.Messages.NewStreaming(ctx, params)
	defer stream.Close()
	var msg anthropic.Message
	for stream.Next() {
		if err := msg.Accumulate(stream.Current()); err != nil {
			return answer{}, err
		}
	}
	if err := stream.Err(); err != nil {
		return answer{}, err
	}
	return anthropicAnswer(&msg), nil
}

func anthropicAnswer(msg *anthropic.Message) answer {
	var a answer
	for _, block := range msg.Content {
		switch block.Type {
		case "text":
			a.text += block.Text
		case "tool_use":
			a.tool, a.args = block.Name, string(block.Input)
		}
	}
	return a
}
