package chat_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
)

// The prompt is all that was asked, whether a server counts what was in a cache with
// it or beside it.
func TestWhatWasInACacheIsPartOfThePrompt(t *testing.T) {
	for name, c := range map[string]struct {
		usage string
		want  chat.Usage
	}{
		"beside the input": {`{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":900,"cache_creation_input_tokens":90}`,
			chat.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900}},
		"beside more input than that": {`{"cache_read_input_tokens":100,"input_tokens":1000,"output_tokens":5}`,
			chat.Usage{PromptTokens: 1100, CompletionTokens: 5, TotalTokens: 1105, CachedTokens: 100}},
		"written only": {`{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":90}`,
			chat.Usage{PromptTokens: 100, CompletionTokens: 5, TotalTokens: 105}},
		"beside the input, with their total": {`{"input_tokens":10,"output_tokens":5,"total_tokens":15,"cache_read_input_tokens":900}`,
			chat.Usage{PromptTokens: 910, CompletionTokens: 5, TotalTokens: 915, CachedTokens: 900}},
		"beside the input, with the total": {`{"input_tokens":10,"output_tokens":5,"total_tokens":915,"cache_read_input_tokens":900}`,
			chat.Usage{PromptTokens: 910, CompletionTokens: 5, TotalTokens: 915, CachedTokens: 900}},
		"in the prompt": {`{"prompt_tokens":1000,"completion_tokens":5,"total_tokens":1005,"cache_read_input_tokens":900,"cache_creation_input_tokens":90}`,
			chat.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900}},
		"more than the prompt": {`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cache_read_input_tokens":900,"cache_creation_input_tokens":90}`,
			chat.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900}},
		"beside the prompt, as the total shows": {`{"prompt_tokens":1000,"completion_tokens":5,"total_tokens":1905,"cache_read_input_tokens":900}`,
			chat.Usage{PromptTokens: 1900, CompletionTokens: 5, TotalTokens: 1905, CachedTokens: 900}},
		"under both names": {`{"prompt_tokens":1000,"input_tokens":100,"completion_tokens":5,"cache_read_input_tokens":900}`,
			chat.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900}},
		"in the details of the input": {`{"input_tokens":1000,"output_tokens":5,"input_tokens_details":{"cached_tokens":900},"output_tokens_details":{"reasoning_tokens":3}}`,
			chat.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900, ReasoningTokens: 3}},
		"nowhere": {`{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":0,"cache_creation_input_tokens":null}`,
			chat.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}},
		"less than nothing": {`{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":-4}`,
			chat.Usage{PromptTokens: 10, CompletionTokens: 5, TotalTokens: 15}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Raw = raw(c.usage)
			chunk, err := chat.ParseChunk([]byte(`{"choices":[],"usage":` + c.usage + `}`))
			require.NoError(t, err)
			assert.Equal(t, &c.want, chunk.Usage)
		})
	}
}
