package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// AppendJSON appends the request's JSON to dst. It fails on invalid JSON in a raw
// field and on numbers that JSON cannot hold. stream asks for a streamed answer,
// with usage if includeUsage is set.
//
// Equal requests give equal bytes. The conversation comes before the fields that
// vary from call to call, so that a longer conversation begins with the same bytes.
// Errors name the field, never its content.
func (r *Request) AppendJSON(dst []byte, stream, includeUsage bool) ([]byte, error) {
	form := r.Form()
	return r.AppendJSONFunc(dst, "", stream, includeUsage, form.AppendMessage)
}

// AppendJSONFunc is [Request.AppendJSON] with the messages written by message,
// which appends one message to dst as [Form.AppendMessage] does, or only notes its
// place and returns dst unchanged. This lets a client reuse messages that it has
// encoded before, and leave out fields that its server refuses.
//
// model, if not empty, takes the place of r.Model.
func (r *Request) AppendJSONFunc(dst []byte, model string, stream, includeUsage bool, message func(dst []byte, m *Message) ([]byte, error)) ([]byte, error) {
	o := object{buf: append(dst, '{'), taken: r.Extra}
	if model == "" {
		model = r.Model
	}
	o.str("model", model)
	if o.want("messages") {
		o.buf = append(o.buf, '[')
		for i := range r.Messages {
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			var err error
			if o.buf, err = message(o.buf, &r.Messages[i]); err != nil {
				if inner := errors.Unwrap(err); inner != nil {
					err = inner // without the prefix of a message that stands alone
				}
				return nil, fmt.Errorf("chat: request: messages[%d].%w", i, err)
			}
		}
		o.buf = append(o.buf, ']')
	}
	if len(r.Tools) > 0 && o.want("tools") {
		o.tools(r.Tools)
	}
	if r.offersTools() {
		// OpenAI refuses these two in a request without tools.
		o.toolChoice(r.ToolChoice)
		o.bool("parallel_tool_calls", r.ParallelToolCalls)
	}
	o.int("max_tokens", r.MaxTokens)
	o.int("max_completion_tokens", r.MaxCompletionTokens)
	o.float("temperature", r.Temperature)
	o.float("top_p", r.TopP)
	if r.Seed != nil && o.want("seed") {
		o.buf = strconv.AppendInt(o.buf, *r.Seed, 10)
	}
	if len(r.Stop) > 0 && o.want("stop") {
		o.strings(r.Stop)
	}
	o.str("reasoning_effort", r.ReasoningEffort)
	if len(r.ResponseFormat) > 0 && o.want("response_format") {
		o.raw("response_format", r.ResponseFormat)
	}
	o.str("user", r.User)

	o.taken = nil
	if stream {
		o.key("stream")
		o.buf = append(o.buf, "true"...)
		if includeUsage {
			o.key("stream_options")
			o.buf = append(o.buf, `{"include_usage":true}`...)
		}
	}
	o.extra(r.Extra, "stream", "stream_options", "n")
	if o.err != nil {
		return nil, fmt.Errorf("chat: request: %w", o.err)
	}
	return append(o.buf, '}'), nil
}

// AppendJSON appends the message's JSON to dst, in the form that is sent in a
// request without tools. [Form] has others.
func (m *Message) AppendJSON(dst []byte) ([]byte, error) { return new(Form).AppendMessage(dst, m) }

// MarshalJSON returns the JSON of [Message.AppendJSON]. [json.Marshal] then escapes
// <, > and & in it, which changes the bytes but not the values.
func (m Message) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil) }

func (o *object) parts(parts []Part) {
	o.buf = append(o.buf, '[')
	for i := range parts {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		p := &parts[i]
		kind := firstOf(p.Type, "text")
		in := o.open(p.Extra, ofPart, kind)
		in.str("type", kind)
		if (p.Text != "" || kind == "text") && in.want("text") {
			in.buf = appendString(in.buf, p.Text)
		}
		o.close(&in, p.Extra, "content", i)
	}
	o.buf = append(o.buf, ']')
}

func (o *object) toolCalls(calls []ToolCall, f *Form) {
	o.buf = append(o.buf, '[')
	for i := range calls {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		c := &calls[i]
		kind := firstOf(c.Type, functionType)
		in := o.open(c.Extra, ofCall, kind)
		in.str("id", f.id(c.ID))
		in.str("type", kind)
		if in.want("function") {
			in.buf = append(in.buf, `{"name":`...)
			in.buf = appendString(in.buf, c.Name)
			in.buf = append(in.buf, `,"arguments":`...)
			in.arguments(c.Arguments)
			in.buf = append(in.buf, '}')
		}
		o.close(&in, c.Extra, "tool_calls", i)
	}
	o.buf = append(o.buf, ']')
}

// arguments writes a call's arguments as a string that holds a JSON object. If the
// model wrote something else, it is wrapped in an object: one such string in the
// history makes templates fail on every later request.
func (o *object) arguments(args string) {
	at := len(o.buf)
	o.buf = append(o.buf, args...) // borrows the buffer's tail to look at them
	ok := isObject(o.buf[at:])
	o.buf = o.buf[:at]
	switch {
	case ok:
		o.buf = appendString(o.buf, wholeEscapes(args))
	case blank(args):
		o.buf = append(o.buf, `"{}"`...)
	default:
		wrapped := appendString([]byte(`{"invalid_arguments":`), args)
		o.buf = appendString(o.buf, string(append(wrapped, '}')))
	}
}

// isObject reports whether text is a JSON object.
func isObject(text []byte) bool {
	c := cursor{data: text}
	k, err := c.kind()
	return err == nil && k == '{' && c.skip() == nil && c.end() == nil
}

func (o *object) tools(tools []Tool) {
	o.buf = append(o.buf, '[')
	for i := range tools {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		t := &tools[i]
		o.buf = append(o.buf, `{"type":"function","function":`...)
		in := o.open(nil, ofRequest, "")
		in.key("name")
		in.buf = appendString(in.buf, t.Name)
		in.str("description", t.Description)
		in.key("parameters")
		if len(t.Parameters) > 0 {
			in.raw("function.parameters", t.Parameters)
		} else {
			in.buf = append(in.buf, `{"type":"object","properties":{}}`...)
		}
		in.bool("strict", t.Strict)
		o.close(&in, nil, "tools", i)
		o.buf = append(o.buf, '}')
	}
	o.buf = append(o.buf, ']')
}

func (o *object) toolChoice(c ToolChoice) {
	switch {
	case c.Name != "":
		if o.want("tool_choice") {
			o.buf = append(o.buf, `{"type":"function","function":{"name":`...)
			o.buf = append(appendString(o.buf, c.Name), "}}"...)
		}
	case c.Mode != "":
		o.str("tool_choice", c.Mode)
	}
}

// imageURL returns the value of an image_url part.
func imageURL(url string) json.RawMessage {
	return append(appendString([]byte(`{"url":`), url), '}')
}
