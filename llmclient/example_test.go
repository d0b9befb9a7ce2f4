package llmclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// The examples talk to a server in this process; yours has a real BaseURL and
// needs no HTTPClient.
func serve(script fake.Script) (*fake.Server, *http.Client) {
	srv := fake.New(fake.Config{Script: script})
	return srv, &http.Client{Transport: srv.Transport()}
}

func ExampleClient_Chat() {
	srv, hc := serve(fake.Always(fake.Answer("Because of Rayleigh scattering.")))
	defer srv.Close()
	client, err := llmclient.New(llmclient.Config{BaseURL: srv.BaseURL(), Model: "my-model", HTTPClient: hc})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	resp, err := client.Chat(context.Background(), &chat.Request{
		Messages: []chat.Message{chat.User("Why is the sky blue?")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Message.Content)
	fmt.Println(resp.FinishReason)
	// Output:
	// Because of Rayleigh scattering.
	// stop
}

func ExampleClient_Stream() {
	srv, hc := serve(fake.Always(fake.Answer("one two three")))
	defer srv.Close()
	client, err := llmclient.New(llmclient.Config{BaseURL: srv.BaseURL(), Model: "my-model", HTTPClient: hc})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	stream := client.Stream(context.Background(), &chat.Request{Messages: []chat.Message{chat.User("Count.")}})
	for chunk, err := range stream.All() {
		if err != nil {
			fmt.Println(err) // an *llmclient.Error, with what had come as its Partial
			return
		}
		fmt.Print(chunk.Content)
	}
	fmt.Println()
	// Output:
	// one two three
}

// A server that takes the request and goes quiet. Each wait has a bound by
// default; here it is shortened, so that the example ends.
func ExampleError() {
	srv, hc := serve(fake.Always(fake.Hang()))
	defer srv.Close()
	client, err := llmclient.New(llmclient.Config{
		BaseURL: srv.BaseURL(), Model: "my-model", HTTPClient: hc,
		Clocks: llmclient.Clocks{FirstOutput: llmclient.Clock{Limit: 20 * time.Millisecond}},
		Retry:  llmclient.Retry{Attempts: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	_, err = client.Chat(context.Background(), &chat.Request{Messages: []chat.Message{chat.User("Hello?")}})
	if e, ok := errors.AsType[*llmclient.Error](err); ok {
		fmt.Println(e.Attempts[0].Text)
		fmt.Println(e.Kind == llmclient.ErrTimeout, e.Clock, e.Phase, e.Bound, e.Retryable())
	}
	// Output:
	// model.test took the request and gave no output for 20ms, not even the head of an answer (clock FirstOutput)
	// true FirstOutput first output 20ms true
}
