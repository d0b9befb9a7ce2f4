package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseError(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want chat.ServerError
	}{
		"OpenAI":                       {`{"error":{"message":"Rate limit","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, chat.ServerError{Message: "Rate limit", Type: "requests", Code: "rate_limit_exceeded", Status: 429}},
		"OpenAI, null code":            {`{"error":{"message":"m","type":"invalid_request_error","param":"messages","code":null}}`, chat.ServerError{Message: "m", Type: "invalid_request_error", Param: "messages"}},
		"OpenAI, overloaded":           {`{"error":{"message":"m","type":"service_unavailable_error","code":"server_is_overloaded"}}`, chat.ServerError{Message: "m", Type: "service_unavailable_error", Code: "server_is_overloaded", Status: 503}},
		"OpenAI, wrong key":            {`{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}`, chat.ServerError{Message: "m", Type: "invalid_request_error", Code: "invalid_api_key", Status: 401}},
		"Azure, with an inner error":   {`{"error":{"message":"filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{}}}}`, chat.ServerError{Message: "filtered", Code: "content_filter", Param: "prompt", Status: 400}},
		"Azure, gateway":               {`{"statusCode":429,"message":"Rate limit is exceeded."}`, chat.ServerError{Message: "Rate limit is exceeded.", Status: 429}},
		"Azure, code as text":          {`{"error":{"code":"429","message":"m"}}`, chat.ServerError{Message: "m", Code: "429", Status: 429}},
		"vLLM":                         {`{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}`, chat.ServerError{Message: "m", Type: "BadRequestError", Code: "400", Status: 400}},
		"vLLM, flat":                   {`{"object":"error","message":"m","type":"NotFoundError","param":null,"code":404}`, chat.ServerError{Message: "m", Type: "NotFoundError", Code: "404", Status: 404}},
		"vLLM, flat within error":      {`{"error":{"object":"error","message":"m","type":"InternalServerError","param":null,"code":500}}`, chat.ServerError{Message: "m", Type: "InternalServerError", Code: "500", Status: 500}},
		"SGLang, status as a name":     {`{"error":{"object":"error","message":"m","type":"SERVICE_UNAVAILABLE","code":503}}`, chat.ServerError{Message: "m", Type: "SERVICE_UNAVAILABLE", Code: "503", Status: 503}},
		"SGLang, only the name":        {`{"error":{"message":"m","type":"GATEWAY_TIMEOUT"}}`, chat.ServerError{Message: "m", Type: "GATEWAY_TIMEOUT", Status: 504}},
		"SGLang, generate":             {`{"error":{"message":"m"}}`, chat.ServerError{Message: "m"}},
		"llama.cpp":                    {`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, chat.ServerError{Message: "Loading model", Type: "unavailable_error", Code: "503", Status: 503}},
		"llama.cpp, context":           {`{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}`, chat.ServerError{Message: "m", Type: "exceed_context_size_error", Code: "400", Status: 400}},
		"llama.cpp, the old line":      {`{"code":500,"message":"m","type":"server_error"}`, chat.ServerError{Message: "m", Type: "server_error", Code: "500", Status: 500}},
		"Ollama":                       {`{"error":"model 'x' not found"}`, chat.ServerError{Message: "model 'x' not found"}},
		"Ollama, compatible":           {`{"error":{"message":"m","type":"api_error","param":null,"code":null}}`, chat.ServerError{Message: "m", Type: "api_error", Status: 500}},
		"OpenRouter":                   {`{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"x","provider_name":"P","error_type":"rate_limit_exceeded"}},"user_id":"u"}`, chat.ServerError{Message: "Provider returned error", Type: "rate_limit_exceeded", Code: "429", Status: 429}},
		"OpenRouter, in a chunk":       {`{"id":"g","error":{"code":502,"message":"m"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, chat.ServerError{Message: "m", Code: "502", Status: 502}},
		"LiteLLM":                      {`{"error":{"message":"litellm.RateLimitError: m","type":"throttling_error","param":"None","code":"429"}}`, chat.ServerError{Message: "litellm.RateLimitError: m", Type: "throttling_error", Param: "None", Code: "429", Status: 429}},
		"Anthropic":                    {`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`, chat.ServerError{Message: "Overloaded", Type: "overloaded_error", Status: 529}},
		"Anthropic, bad request":       {`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, chat.ServerError{Message: "m", Type: "invalid_request_error"}},
		"type error without a word":    {`{"type":"error"}`, chat.ServerError{Type: "error"}},
		"Gemini":                       {`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"7s"}]}}`, chat.ServerError{Message: "m", Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429}},
		"Gemini, in a list":            {`[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]`, chat.ServerError{Message: "m", Type: "INVALID_ARGUMENT", Code: "400", Status: 400}},
		"Gemini, only the name":        {`[{"error":{"message":"m","status":"UNAVAILABLE"}}]`, chat.ServerError{Message: "m", Type: "UNAVAILABLE", Status: 503}},
		"FastAPI, around another":      {`{"detail":{"error":{"message":"m","code":503}}}`, chat.ServerError{Message: "m", Code: "503", Status: 503}},
		"Mistral":                      {`{"object":"error","message":{"detail":[{"msg":"x"}]},"type":"invalid_request_error","code":null}`, chat.ServerError{Message: "x", Type: "invalid_request_error"}},
		"Cloudflare":                   {`{"success":false,"errors":[{"code":10000,"message":"Authentication error"},{"code":1,"message":"two"}],"messages":[],"result":null}`, chat.ServerError{Message: "Authentication error; two", Code: "10000"}},
		"Spring":                       {`{"timestamp":"t","status":404,"error":"Not Found","path":"/v1"}`, chat.ServerError{Message: "Not Found", Status: 404}},
		"MiniMax":                      {`{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, chat.ServerError{Message: "insufficient balance", Code: "1008"}},
		"code and msg":                 {`{"code":1302,"msg":"busy"}`, chat.ServerError{Message: "busy", Code: "1302"}},
		"error true":                   {`{"error":true,"message":"m","code":503}`, chat.ServerError{Message: "m", Code: "503", Status: 503}},
		"an error within an error":     {`{"error":{"error":{"message":"m","type":"t"},"code":500}}`, chat.ServerError{Message: "m", Type: "t", Code: "500", Status: 500}},
		"JSON in a string":             {`{"error":"{\"error\":{\"message\":\"m\",\"code\":429}}"}`, chat.ServerError{Message: "m", Code: "429", Status: 429}},
		"the whole body in a string":   {`"{\"error\":{\"message\":\"m\",\"code\":429}}"`, chat.ServerError{Message: "m", Code: "429", Status: 429}},
		"twice in strings":             {`"\"{\\\"error\\\":\\\"m\\\"}\""`, chat.ServerError{Message: "m"}},
		"the message outside":          {`{"error":{"code":7},"message":"m"}`, chat.ServerError{Message: "m", Code: "7"}},
		"the code outside":             {`{"error":"m","code":503}`, chat.ServerError{Message: "m", Code: "503", Status: 503}},
		"an error that is a list":      {`{"error":["a","b"]}`, chat.ServerError{Message: "a; b"}},
		"an error that is a number":    {`{"error":7}`, chat.ServerError{Message: "7"}},
		"an object of another kind":    {`{"error":{"reason":"x","input":"secret"}}`, chat.ServerError{}},
		"such an object in a string":   {`{"error":"{\"reason\":\"x\"}"}`, chat.ServerError{}},
		"a message that is JSON":       {`{"error":{"message":"{\"error\":{\"message\":\"m\"}}","code":7}}`, chat.ServerError{Message: "m", Code: "7"}},
		"a message that is an object":  {`{"error":{"message":{"reason":"x"},"param":"p"}}`, chat.ServerError{Param: "p"}},
		"an error with a detail":       {`{"error":{"type":"t","detail":[{"msg":"m","input":"secret"}]}}`, chat.ServerError{Message: "m", Type: "t"}},
		"marked, with a detail":        {`{"type":"error","detail":"m"}`, chat.ServerError{Message: "m", Type: "error"}},
		"Bedrock, throttled":           {`{"throttlingException":{"message":"m"}}`, chat.ServerError{Message: "m", Type: "throttlingException", Status: 429}},
		"Bedrock, in the stream":       {`{"modelStreamErrorException":{"message":"m","originalMessage":"o","originalStatusCode":500}}`, chat.ServerError{Message: "m", Type: "modelStreamErrorException", Status: 500}},
		"Bedrock, its own fault":       {`{"internalServerException":{"message":"m"}}`, chat.ServerError{Message: "m", Type: "internalServerException", Status: 500}},
		"Bedrock, a bad request":       {`{"validationException":{"message":"m"}}`, chat.ServerError{Message: "m", Type: "validationException", Status: 400}},
		"Bedrock, unavailable":         {`{"serviceUnavailableException":{"message":"m"}}`, chat.ServerError{Message: "m", Type: "serviceUnavailableException", Status: 503}},
		"Bedrock, slow":                {`{"modelTimeoutException":{"message":"m"}}`, chat.ServerError{Message: "m", Type: "modelTimeoutException", Status: 408}},
		"an exception as a text":       {`{"someOtherException":"m"}`, chat.ServerError{Message: "m", Type: "someOtherException"}},
		"AWS, with a type":             {`{"__type":"ThrottlingException","message":"m"}`, chat.ServerError{Message: "m", Type: "ThrottlingException", Status: 429}},
		"AWS, with a schema":           {`{"__type":"com.amazon.coral.service#UnrecognizedClientException","Message":"m"}`, chat.ServerError{Message: "m", Type: "UnrecognizedClientException", Status: 403}},
		"AWS Lambda":                   {`{"errorMessage":"m","errorType":"Sandbox.Timedout"}`, chat.ServerError{Message: "m", Type: "Sandbox.Timedout"}},
		"AWS Lambda, the message only": {`{"errorMessage":"m"}`, chat.ServerError{Message: "m"}},
		"TGI":                          {`{"error":"m","error_type":"generation"}`, chat.ServerError{Message: "m", Type: "generation"}},
		"TGI, too long":                {`{"error":"m","error_type":"validation"}`, chat.ServerError{Message: "m", Type: "validation", Status: 422}},
		"Databricks":                   {`{"error_code":"REQUEST_LIMIT_EXCEEDED","message":"m"}`, chat.ServerError{Message: "m", Code: "REQUEST_LIMIT_EXCEEDED", Status: 429}},
		"a problem, NVIDIA":            {`{"status":404,"title":"Not Found","detail":"m"}`, chat.ServerError{Message: "m", Status: 404}},
		"a problem without a detail":   {`{"type":"urn:x","status":429,"title":"Too Many Requests"}`, chat.ServerError{Message: "Too Many Requests", Type: "urn:x", Status: 429}},
		"err":                          {`{"err":"m"}`, chat.ServerError{Message: "m"}},
		"err with a code":              {`{"err":{"message":"m","code":503}}`, chat.ServerError{Message: "m", Code: "503", Status: 503}},
		"an event of another API":      {`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"message":"m","code":"server_error"}}}`, chat.ServerError{Message: "m", Code: "server_error", Status: 500}},
		"such an event without a word": {`{"type":"response.failed","response":{"error":null}}`, chat.ServerError{Type: "response.failed"}},
		"DashScope, an unpaid bill":    {`{"code":"Arrearage","message":"m","request_id":"r"}`, chat.ServerError{Message: "m", Code: "Arrearage"}},
		"strings and objects":          {`{"error":["a",{"input":"secret"},{"msg":"b"}]}`, chat.ServerError{Message: "a; b"}},
		"a status that is no failure":  {`{"error":{"message":"m","status":200}}`, chat.ServerError{Message: "m", Code: "200"}},
		"code before status":           {`{"error":{"message":"m","code":429,"status":500}}`, chat.ServerError{Message: "m", Code: "429", Status: 429}},
		"status as text":               {`{"error":{"message":"m","status":"503"}}`, chat.ServerError{Message: "m", Status: 503}},
		"space around it":              {" \n{\"error\":\"m\"}\n", chat.ServerError{Message: "m"}},
		"a repeated key: the last one": {`{"error":"a","error":"b"}`, chat.ServerError{Message: "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Raw = raw(strings.TrimSpace(tc.in))
			got := chat.ParseError([]byte(tc.in))
			require.NotNil(t, got)
			assert.Equal(t, tc.want, *got)

			// In the place of a chunk and of an answer it is the same.
			ch, err := chat.ParseChunk([]byte(tc.in))
			require.NoError(t, err)
			assert.Equal(t, &tc.want, ch.Error)
			resp, failure, err := chat.ParseResponse([]byte(tc.in))
			require.NoError(t, err)
			assert.Nil(t, resp)
			assert.Equal(t, &tc.want, failure)
		})
	}
}

// Words without a sign of failure are an error in the place of an answer. In a
// stream servers also tell how far they are.
func TestWordsAreAnErrorOnlyInPlaceOfAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want chat.ServerError
	}{
		"FastAPI, text":       {`{"detail":"Not Found"}`, chat.ServerError{Message: "Not Found"}},
		"FastAPI, list":       {`{"detail":[{"loc":["body","messages"],"msg":"field required","type":"missing"},{"loc":["body"],"msg":"bad"}]}`, chat.ServerError{Message: "field required; bad", Type: "missing"}},
		"FastAPI, object":     {`{"detail":{"message":"m","code":"c"}}`, chat.ServerError{Message: "m", Code: "c"}},
		"AWS":                 {`{"message":"Too many tokens"}`, chat.ServerError{Message: "Too many tokens"}},
		"a place in a queue":  {`{"status":"queued","message":"3 before you"}`, chat.ServerError{Message: "3 before you", Type: "queued"}},
		"a code of success":   {`{"code":200,"msg":"ok"}`, chat.ServerError{Message: "ok", Code: "200"}},
		"the last good code":  {`{"code":399,"msg":"ok"}`, chat.ServerError{Message: "ok", Code: "399"}},
		"an error of nothing": {`{"error":{"code":0,"message":""},"message":"working"}`, chat.ServerError{Message: "working"}},
		"a type of progress":  {`{"type":"progress","message":"half"}`, chat.ServerError{Message: "half", Type: "progress"}},
		"beside base_resp":    {`{"message":"working","base_resp":{"status_code":0,"status_msg":"success"}}`, chat.ServerError{Message: "working"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Raw = raw(tc.in)
			assert.Equal(t, &tc.want, chat.ParseError([]byte(tc.in)))
			resp, failure, err := chat.ParseResponse([]byte(tc.in))
			require.NoError(t, err)
			assert.Nil(t, resp)
			assert.Equal(t, &tc.want, failure)

			ch, err := chat.ParseChunk([]byte(tc.in))
			require.NoError(t, err)
			assert.Nil(t, ch.Error)
			assert.NotEmpty(t, ch.Extra)
		})
	}

	for name, in := range map[string]string{
		"the first bad code":    `{"code":400,"msg":"m"}`,
		"a code of its own":     `{"code":1302,"msg":"m"}`,
		"a status":              `{"status":503,"message":"m"}`,
		"a status as a name":    `{"status":"UNAVAILABLE","message":"m"}`,
		"a status that failed":  `{"status":"failed","message":"m"}`,
		"a type":                `{"type":"invalid_request_error","message":"m"}`,
		"a code as a name":      `{"code":"Throttling.RateQuota","message":"m"}`,
		"a status in a detail":  `{"detail":{"message":"m","status":503}}`,
		"a list of errors":      `{"errors":["m"]}`,
		"a list beside success": `{"success":false,"errors":[{"code":7,"message":"m"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			ch, err := chat.ParseChunk([]byte(in))
			require.NoError(t, err)
			require.NotNil(t, ch.Error)
			assert.Equal(t, "m", ch.Error.Message)
		})
	}
}

// Servers whose chunks have all fields of all answers fill in an error that is
// none.
func TestAnErrorOfNothingSparesTheChunk(t *testing.T) {
	for _, nothing := range []string{
		`null`, `false`, `0`, `""`, `{}`, `[]`, `{ }`, `[ null ]`,
		`{"message":null,"code":null}`, `{"code":0,"message":""}`, `{"message":null,"type":"","param":null,"code":0}`,
		`{"error":{"message":null},"details":[],"metadata":{"raw":{}}}`, `[{"message":""}]`,
	} {
		for _, in := range []string{
			`{"choices":[{"delta":{"content":"a"}}],"error":` + nothing + `}`,
			`{"error":` + nothing + `,"choices":[{"delta":{"content":"a"}}]}`,
			`{"choices":[{"error":` + nothing + `,"delta":{"content":"a"}}]}`,
			`{"choices":[{"delta":{"content":"a"}}],"x_groq":{"error":` + nothing + `}}`,
			`{"choices":[{"delta":{"content":"a"}}],"errors":` + nothing + `}`,
		} {
			ch, err := chat.ParseChunk([]byte(in))
			require.NoError(t, err, in)
			assert.Equal(t, "a", ch.Content, in)
			assert.Nil(t, ch.Error, in)
			assert.Nil(t, chat.ParseError([]byte(in)), in)
		}
	}
	ch, err := chat.ParseChunk([]byte(`{"code":0,"message":"Success","choices":[{"delta":{"content":"a"}}]}`))
	require.NoError(t, err)
	assert.Nil(t, ch.Error)
}

func TestParseErrorFindsNone(t *testing.T) {
	for name, in := range map[string]string{
		"a chunk":                         delta(`"content":"a"`),
		"a chunk whose error is null":     `{"choices":[],"error":null}`,
		"false":                           `{"choices":[],"error":false}`,
		"an empty text":                   `{"choices":[],"error":""}`,
		"an empty object":                 `{"choices":[],"error":{ }}`,
		"an empty list":                   `{"choices":[],"error":[]}`,
		"zero":                            `{"choices":[],"error":0}`,
		"an answer with a message beside": `{"choices":[],"message":"ok","detail":"fine","errors":["x"]}`,
		"a healthy MiniMax chunk":         `{"choices":[],"base_resp":{"status_code":0,"status_msg":"success"}}`,
		"a choice whose error is null":    `{"choices":[{"error":null,"delta":{}}]}`,
		"usage alone":                     `{"usage":{"prompt_tokens":1}}`,
		"a ping":                          `{"type":"ping"}`,
		"an empty object alone":           `{}`,
		"an exception that is null":       `{"throttlingException":null}`,
		"an exception without a word":     `{"throttlingException":{"message":""}}`,
		"an exception beside an answer":   `{"choices":[{"delta":{"content":"a"}}],"throttlingException":{"message":"m"}}`,
		"err beside an answer":            `{"choices":[{"delta":{"content":"a"}}],"err":"m","errorMessage":"m"}`,
		"err of nothing":                  `{"err":null,"errorMessage":""}`,
		"a healthy event of another API":  `{"type":"response.created","response":{"id":"r","error":null}}`,
		"a text about an exception":       delta(`"content":"throttlingException: {\"error\":\"m\"}"`),
		"arguments with an error":         delta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":{"error":"m"}}}]`),
		"a delta whose error is null":     delta(`"content":"a","error":null`),
		"a delta whose error is empty":    delta(`"content":"a","error":{"message":"","code":0}`),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Nil(t, chat.ParseError([]byte(in)))
			ch, err := chat.ParseChunk([]byte(in))
			require.NoError(t, err)
			assert.Nil(t, ch.Error)
		})
	}
	for name, in := range map[string]string{
		"nothing": "", "a number": "1", "null": "null", "an empty list": "[]", "text": `"busy"`, "a page": "<html>",
		"cut short": `{"error":{"message":"m"`, "two": `{"error":"m"}{}`, "a bad list": `[{"error":"m"}`,
		"wrapped too often": `[[[[[{"error":"m"}]]]]]`,
	} {
		t.Run(name, func(t *testing.T) { assert.Nil(t, chat.ParseError([]byte(in))) })
	}
	require.NotNil(t, chat.ParseError([]byte(`[[[[{"error":"m"}]]]]`)))
}

// Names that stand for one status, as type or as code, and names that stand
// for several.
func TestStatusByName(t *testing.T) {
	for status, names := range map[int]string{
		0:   "invalid_request_error unknown 200 399 600 teapot Exception modelStreamErrorException",
		400: "400 BAD_REQUEST INVALID_ARGUMENT BadRequestError context_length_exceeded exceed_context_size_error validationException ValidationException ServiceQuotaExceededException SerializationException",
		401: "401 UNAUTHORIZED UNAUTHENTICATED authentication_error invalid_api_key",
		402: "402 billing_error",
		403: "403 FORBIDDEN PERMISSION_DENIED permission_error AccessDeniedException UnrecognizedClientException ExpiredTokenException InvalidSignatureException",
		404: "404 NOT_FOUND NotFoundError not_found_error model_not_found ResourceNotFoundException",
		408: "408 modelTimeoutException",
		413: "413 REQUEST_ENTITY_TOO_LARGE request_too_large",
		422: "422 UNPROCESSABLE_ENTITY",
		429: "429 TOO_MANY_REQUESTS RESOURCE_EXHAUSTED rate_limit_error rate_limit_exceeded insufficient_quota throttlingException ThrottlingException TooManyRequestsException ModelNotReadyException",
		500: "500 INTERNAL_SERVER_ERROR INTERNAL InternalServerError api_error server_error internalServerException InternalFailureException",
		501: "501 NOT_IMPLEMENTED UNIMPLEMENTED not_supported_error",
		502: "502 BAD_GATEWAY",
		503: "503 SERVICE_UNAVAILABLE UNAVAILABLE unavailable_error service_unavailable_error server_is_overloaded serviceUnavailableException",
		504: "504 GATEWAY_TIMEOUT DEADLINE_EXCEEDED timeout_error",
		529: "529 overloaded_error",
		599: "599",
	} {
		for _, name := range strings.Fields(names) {
			e := chat.ParseError([]byte(`{"error":{"message":"m","code":"` + name + `"}}`))
			require.NotNil(t, e)
			assert.Equal(t, status, e.Status, name)
			if name[0] < '0' || name[0] > '9' {
				e = chat.ParseError([]byte(`{"error":{"message":"m","type":"` + name + `"}}`))
				assert.Equal(t, status, e.Status, name)
			}
		}
	}
}

// Errors that sit within a piece of an answer: of those Raw is the error alone.
func TestErrorsWithinChunks(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want chat.ServerError
	}{
		"in the choice": {
			`{"choices":[{"delta":{"content":"par"},"finish_reason":"error","error":{"code":502,"message":"m","metadata":{"error_type":"provider_unavailable"}}}]}`,
			chat.ServerError{Message: "m", Type: "provider_unavailable", Code: "502", Status: 502, Raw: raw(`{"code":502,"message":"m","metadata":{"error_type":"provider_unavailable"}}`)},
		},
		"in the delta": {
			`{"choices":[{"index":0,"delta":{"error":{"message":"m","code":502}}}]}`,
			chat.ServerError{Message: "m", Code: "502", Status: 502, Raw: raw(`{"message":"m","code":502}`)},
		},
		"in the choice, as text": {
			`{"choices":[{"error":"m"}]}`, chat.ServerError{Message: "m", Raw: raw(`"m"`)},
		},
		"in Groq's own field": {
			`{"choices":[{"delta":{}}],"x_groq":{"id":"r","error":"over capacity"}}`, chat.ServerError{Message: "over capacity", Raw: raw(`"over capacity"`)},
		},
		"beside the choices": {
			`{"choices":[{"delta":{"content":"par"}}],"error":{"message":"m"}}`,
			chat.ServerError{Message: "m", Raw: raw(`{"choices":[{"delta":{"content":"par"}}],"error":{"message":"m"}}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ch, err := chat.ParseChunk([]byte(tc.in))
			require.NoError(t, err)
			assert.Equal(t, &tc.want, ch.Error)
			require.True(t, json.Valid(ch.Error.Raw))
		})
	}
}
