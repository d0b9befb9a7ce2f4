package fakeserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/neverhang/neverhang/chat"
)

// The scripts below are servers with rules of their own in front of another
// script.

// Strict answers 400 to conversations that the strictest servers refuse: see
// [Validate].
func Strict(next Script) Script {
	return func(r *Request) Step {
		if r.Chat == nil {
			return invalid("", "the body is no chat completion request")
		}
		if err := Validate(r.Chat); err != nil {
			return invalid("", err.Error())
		}
		return next(r)
	}
}

// Window answers 400 to requests that have more than a number of tokens,
// counted as a quarter of the body's bytes.
func Window(tokens int, next Script) Script {
	return func(r *Request) Step {
		if n := len(r.Body) / 4; n > tokens {
			return invalid("context_length_exceeded", fmt.Sprintf(
				"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.", tokens, n))
		}
		return next(r)
	}
}

// Key answers 401 to requests that do not bring the key.
func Key(key string, next Script) Script {
	return func(r *Request) Step {
		if r.Header.Get("Authorization") != "Bearer "+key {
			return Error(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.")
		}
		return next(r)
	}
}

// Model answers 404 to requests for any other model.
func Model(name string, next Script) Script {
	return func(r *Request) Step {
		if r.Chat == nil || r.Chat.Model != name {
			return Error(http.StatusNotFound, "invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it.")
		}
		return next(r)
	}
}

// NoStreams answers 400 to requests for a stream.
func NoStreams(next Script) Script {
	return func(r *Request) Step {
		if r.Stream {
			return invalid("unsupported_value", "stream: streaming is not supported")
		}
		return next(r)
	}
}

// NoStreamOptions answers 400 to requests that have stream_options.
func NoStreamOptions(next Script) Script {
	return func(r *Request) Step {
		if r.IncludeUsage {
			return invalid("", "Unrecognized request argument supplied: stream_options")
		}
		return next(r)
	}
}

// NoToolChoice answers 400 to requests that steer the use of tools.
func NoToolChoice(next Script) Script {
	return func(r *Request) Step {
		if r.Chat != nil && r.Chat.ToolChoice != (chat.ToolChoice{}) {
			return invalid("", "tool_choice is not supported by this model")
		}
		return next(r)
	}
}

func invalid(code, message string) Step {
	return Error(http.StatusBadRequest, "invalid_request_error", code, message)
}

// Validate holds a conversation against the rules of strict servers: no
// message of the model that says and calls nothing, arguments that are JSON
// objects, unique ids, and right behind a message with calls exactly one
// result for each of them and no other. The error says what is wrong where.
func Validate(req *chat.Request) error {
	ids := make(map[string]bool) // all ids ever called
	open := make(map[string]bool)
	for i, m := range req.Messages {
		if m.Role == chat.RoleTool {
			if !open[m.ToolCallID] {
				return fmt.Errorf("messages[%d]: a result for call %q, which is not open", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("messages[%d]: role %s, but %d calls before it have no result", i, m.Role, len(open))
		}
		if m.Role != chat.RoleAssistant {
			continue
		}
		if text(m) == "" && m.Refusal == "" && len(m.ToolCalls) == 0 {
			return fmt.Errorf("messages[%d]: an assistant message with neither content nor tool calls", i)
		}
		for k, c := range m.ToolCalls {
			var args map[string]any
			switch {
			case c.ID == "" || ids[c.ID]:
				return fmt.Errorf("messages[%d].tool_calls[%d]: id %q is empty or not unique", i, k, c.ID)
			case json.Unmarshal([]byte(c.Arguments), &args) != nil:
				return fmt.Errorf("messages[%d].tool_calls[%d]: arguments are no JSON object", i, k)
			}
			ids[c.ID], open[c.ID] = true, true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("messages: %d calls at the end have no result", len(open))
	}
	return nil
}
