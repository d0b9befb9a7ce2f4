package chat_test

import (
	"encoding/json"
	"fmt"

	"github.com/neverhang/neverhang/chat"
)

// A request is a literal. What it becomes on the wire has the same bytes each
// time, so that prefix caches know it again.
func ExampleRequest() {
	req := &chat.Request{
		Model:    "my-model",
		Messages: []chat.Message{chat.System("Be brief."), chat.User("What is in message 3?")},
		Tools: []chat.Tool{{
			Name:       "read_message",
			Parameters: json.RawMessage(`{"type": "object", "properties": {"index": {"type": "integer"}}}`),
		}},
		ToolChoice:  chat.ForceTool("read_message"),
		Temperature: new(0.0),
		Extra:       map[string]json.RawMessage{"top_k": json.RawMessage(`40`)},
	}
	body, err := req.AppendJSON(nil, true, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", body)
	// Output:
	// {"model":"my-model","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What is in message 3?"}],"tools":[{"type":"function","function":{"name":"read_message","parameters":{"type":"object","properties":{"index":{"type":"integer"}}}}}],"tool_choice":{"type":"function","function":{"name":"read_message"}},"temperature":0,"stream":true,"stream_options":{"include_usage":true},"top_k":40}
}

// An Assembler makes one answer of a stream's chunks. The answer's message goes
// into the conversation as it is, followed by the results of its calls.
func ExampleAssembler() {
	var asm chat.Assembler
	for _, data := range []string{
		`{"choices":[{"delta":{"role":"assistant","reasoning_content":"I must look."}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"read_message","arguments":""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"index\""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":": 3}"}}]}}]}`,
		`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":41,"completion_tokens":17}}`,
	} {
		ch, err := chat.ParseChunk([]byte(data))
		if err != nil {
			fmt.Println(err)
			return
		}
		if ch.Error != nil {
			fmt.Println("the server failed:", ch.Error.Message)
			return
		}
		asm.Add(ch)
	}

	resp := asm.Response()
	fmt.Println(resp.FinishReason, resp.Usage.TotalTokens)
	conversation := []chat.Message{chat.User("What is in message 3?"), resp.Message}
	for _, call := range resp.Message.ToolCalls {
		fmt.Println(call.Name, call.Arguments)
		conversation = append(conversation, chat.ToolResult(call.ID, "Three words only."))
	}
	fmt.Println(len(conversation))
	// Output:
	// tool_calls 58
	// read_message {"index": 3}
	// 3
}

// Half an emoji at the end of one chunk, half at the beginning of the next: a
// reader of chunks sees it whole.
func ExampleJoiner() {
	var join chat.Joiner
	for _, data := range []string{
		`{"choices":[{"delta":{"content":"Well done \ud83d"}}]}`,
		`{"choices":[{"delta":{"content":"\ude00!"}}]}`,
	} {
		ch, err := chat.ParseChunk([]byte(data))
		if err != nil {
			fmt.Println(err)
			return
		}
		join.Join(ch)
		fmt.Printf("%q\n", ch.Content)
	}
	fmt.Println(join.Rest() == nil)
	// Output:
	// "Well done "
	// "😀!"
	// true
}

// Servers word their failures in many ways, some of them in the middle of an
// answer that began well.
func ExampleParseError() {
	for _, body := range []string{
		`{"error":{"message":"queue full","type":"server_error","code":503}}`,
		`{"object":"error","message":"no such model","type":"NotFoundError","code":404}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		`{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`,
	} {
		e := chat.ParseError([]byte(body))
		fmt.Println(e.Status, e.Message)
	}
	// Output:
	// 503 queue full
	// 404 no such model
	// 529 Overloaded
	// 0 field required
}

// What a server sends that has no field here is kept, and sent back where it
// belongs.
func ExampleMessage() {
	var m chat.Message
	err := json.Unmarshal([]byte(`{
		"role": "assistant",
		"content": [{"type": "text", "text": "On it."}],
		"tool_calls": [{"function": {"name": "save", "arguments": {"title": "Notes"}}, "thought": "x1"}],
		"annotations": []
	}`), &m)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Content, m.ToolCalls[0].Arguments)

	body, err := m.AppendJSON(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", body)
	// Output:
	// On it. {"title": "Notes"}
	// {"role":"assistant","content":"On it.","tool_calls":[{"type":"function","function":{"name":"save","arguments":"{\"title\": \"Notes\"}"},"thought":"x1"}]}
}
