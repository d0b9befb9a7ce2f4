package conformance_test

import (
	"context"
	"errors"
	"io"

	"github.com/cloudwego/eino-ext/components/model/openai"
	einomodel "github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

var eino = sdk{name: "eino", wire: completions, ask: askEino}

func askEino(ctx context.Context, q question) (answer, error) {
	cm, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
		APIKey:     apiKey,
		BaseURL:    q.base,
		Model:      model,
		HTTPClient: q.client,
	})
	if err != nil {
		return answer{}, err
	}
	var asked einomodel.ToolCallingChatModel = cm
	if q.mode.tools {
		asked, err = cm.WithTools([]*schema.ToolInfo{{
			Name: toolName, Desc: toolDesc,
			ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{
				"text": {Type: schema.String, Required: true},
			}),
		}})
		if err != nil {
			return answer{}, err
		}
	}
	in := []*schema.Message{schema.UserMessage(prompt)}
	if !q.mode.streamed {
		msg, err := asked.Generate(ctx, in)
		if err != nil {
			return answer{}, err
		}
		return einoAnswer(msg), nil
	}
	stream, err := asked.Stream(ctx, in)
	if err != nil {
		return answer{}, err
	}
	defer stream.Close()
	var got []*schema.Message
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return answer{}, err
		}
		got = append(got, msg)
	}
	if len(got) == 0 {
		return answer{}, nil
	}
	msg, err := schema.ConcatMessages(got)
	if err != nil {
		return answer{}, err
	}
	return einoAnswer(msg), nil
}

func einoAnswer(msg *schema.Message) answer {
	a := answer{text: msg.Content}
	for _, call := range msg.ToolCalls {
		a.tool, a.args = call.Function.Name, call.Function.Arguments
	}
	return a
}
