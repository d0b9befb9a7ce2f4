package fakeserver

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"github.com/neverhang/neverhang/chat"
)

// wireRequest is a completion request as it comes in. The messages keep what
// they can in [chat.Message].
type wireRequest struct {
	Model    string         `json:"model"`
	Messages []chat.Message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Strict      *bool           `json:"strict"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	Seed                *int64          `json:"seed"`
	User                string          `json:"user"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// decode fills in what follows from the body, and returns a number that
// stands for the conversation as it was sent.
func (r *Request) decode() (conversation uint64) {
	var in wireRequest
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return 0
	}
	r.Stream, r.IncludeUsage = in.Stream, in.StreamOptions.IncludeUsage
	req := &chat.Request{
		Model:               in.Model,
		Messages:            in.Messages,
		ToolChoice:          decodeChoice(in.ToolChoice),
		ParallelToolCalls:   in.ParallelToolCalls,
		MaxTokens:           in.MaxTokens,
		MaxCompletionTokens: in.MaxCompletionTokens,
		Temperature:         in.Temperature,
		Seed:                in.Seed,
		User:                in.User,
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, chat.Tool{
			Name: t.Function.Name, Description: t.Function.Description,
			Parameters: t.Function.Parameters, Strict: t.Function.Strict,
		})
	}
	r.Chat = req
	r.Agent = agentOf(req.Messages)

	h := fnv.New64a()
	for _, m := range req.Messages {
		if b, err := m.AppendJSON(nil); err == nil {
			_, _ = h.Write(b)
		}
	}
	_, _ = h.Write(in.ToolChoice)
	return h.Sum64()
}

func decodeChoice(raw json.RawMessage) chat.ToolChoice {
	var mode string
	if json.Unmarshal(raw, &mode) == nil {
		return chat.ToolChoice{Mode: mode}
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(raw, &named)
	return chat.ToolChoice{Name: named.Function.Name}
}

// agentOf returns the key of a conversation: it follows from the first user
// message alone, which stays the same through all rounds and retries.
func agentOf(messages []chat.Message) string {
	h := fnv.New64a()
	for _, m := range messages {
		if m.Role == chat.RoleUser {
			_, _ = h.Write([]byte(text(m)))
			break
		}
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// text returns what a message says, parts included.
func text(m chat.Message) string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	var all string
	for _, p := range m.Parts {
		all += p.Text
	}
	return all
}
