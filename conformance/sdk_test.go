package conformance_test

import (
	"context"
	"net/http"
	"time"
)

// An sdk is a client library under test, used as its own documentation uses it.
type sdk struct {
	name string
	wire wire

	// ask makes one request for an answer and returns what a caller sees. With
	// quiet the library's own retries are off; otherwise every setting but the
	// address and the http.Client is its default.
	ask func(ctx context.Context, q question) (answer, error)

	// headers is the ResponseHeaderTimeout of the client that it makes for itself
	// if it is not given one.
	headers time.Duration

	// tells says that its retries carry X-Stainless-Retry-Count.
	tells bool
}

// A question is what ask is given.
type question struct {
	base   string // up to and with /v1
	client *http.Client
	mode   mode
	quiet  bool
}

// An answer is what a caller gets to see. Two are equal if they say the same.
type answer struct {
	text string
	tool string // the name of the tool called, if any
	args string
}

// A mode is a way to ask.
type mode struct{ tools, streamed bool }

var modes = []mode{{}, {streamed: true}, {tools: true}, {tools: true, streamed: true}}

func (m mode) String() string {
	switch {
	case m.tools && m.streamed:
		return "tools, streamed"
	case m.tools:
		return "tools"
	case m.streamed:
		return "stream"
	}
	return "plain"
}

// What all of them ask with.
const (
	apiKey   = "sk-test"
	model    = "test-model"
	prompt   = "Say it."
	toolName = "save"
	toolDesc = "Saves a text."
)

// toolSchema describes the tool's arguments, for libraries that take a schema.
func toolSchema() map[string]any {
	return map[string]any{
		"type":       "object",
		"properties": map[string]any{"text": map[string]any{"type": "string"}},
		"required":   []string{"text"},
	}
}

var sdks = []sdk{openaiGo, goOpenAI, langchain, eino, fantasyAgent, anthropicGo}
