package chat_test

import (
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
)

func TestFinishReasonKinds(t *testing.T) {
	for kind, reasons := range map[string]string{
		"failed": "abort aborted Aborted cancelled canceled USER_CANCEL error ERROR Error network_error model_error internal_error " +
			"server_error internal-server-error engine_error insufficient_system_resource malformed_function_call " +
			"MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL failed timeout time_limit incomplete modelUnloaded",
		"limited": "length LENGTH model_length max_tokens MAX_TOKENS max-tokens maxTokens max_output_tokens token_limit " +
			"context_length_exceeded model_context_window_exceeded contextLengthReached maxPredictedTokensReached ERROR_LIMIT",
		"filtered": "content_filter content_filtered safety SAFETY IMAGE_SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII " +
			"refusal sensitive guardrail_intervened ERROR_TOXIC content-policy-violation",
		"neither": "stop STOP tool_calls function_call tool_use end_turn eos eos_token stop_sequence COMPLETE OTHER repetition " +
			"pause_turn errors_none lengthy é null none None - _ " + strings.Repeat("e", 100) + "error",
	} {
		for _, word := range append(strings.Fields(reasons), map[string]string{"neither": "", "failed": "network error"}[kind]) {
			if word == "" && kind != "neither" {
				continue
			}
			r := chat.FinishReason(word)
			assert.Equal(t, kind == "failed", r.Failed(), "%s: failed", r)
			assert.Equal(t, kind == "limited", r.Limited(), "%s: limited", r)
			assert.Equal(t, kind == "filtered", r.Filtered(), "%s: filtered", r)
		}
	}
}

// The constants are what the methods say of them.
func TestFinishReasonConstants(t *testing.T) {
	assert.True(t, chat.FinishLength.Limited())
	assert.True(t, chat.FinishContentFilter.Filtered())
	for _, r := range []chat.FinishReason{chat.FinishAbort, chat.FinishError, chat.FinishNoResource} {
		assert.True(t, r.Failed(), r)
	}
}

// A reason of null comes in every chunk. It must not end the answer with the
// first, nor overwrite the reason at the end.
func TestNullReasonsNeitherEndNorOverwrite(t *testing.T) {
	for _, null := range []string{`"null"`, `"NULL"`, `"none"`, `"None"`, `""`, `" "`, `null`, `"FINISH_REASON_UNSPECIFIED"`} {
		with := func(reason string) string {
			return `{"choices":[{"delta":{"content":"a"},"finish_reason":` + reason + `}]}`
		}
		assert.Empty(t, assemble(t, with(null)).FinishReason, null)
		assert.Equal(t, chat.FinishStop, assemble(t, with(null), with(`"stop"`), with(null)).FinishReason, null)
	}
}
