package llmclient

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// answeredWith is an attempt that ended with a status of failure.
func answeredWith(code int, body string, header ...string) outcome {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	o := outcome{status: code, header: h, server: chat.ParseError([]byte(body)), firstByte: true}
	if o.server == nil {
		o.server = &chat.ServerError{Message: body}
	}
	return o
}

// saidInside is an attempt that ended with an error inside a 200.
func saidInside(body string) outcome {
	return outcome{status: 200, header: http.Header{}, server: chat.ParseError([]byte(body)), inside: true, firstByte: true}
}

// What a refusal means, for tables that are about that alone.
var (
	isQuota    = ruling{kind: ErrQuota, fault: ours}
	isOverflow = ruling{kind: ErrContextLength, fault: ours}
	isThrottle = ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}
	isBusy     = ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}
	isFault    = ruling{kind: ErrServer, retry: true, fault: theirs}
	isRequest  = ruling{kind: ErrRequest, fault: ours}
	isAuth     = ruling{kind: ErrAuth, fault: ours}
	isNotFound = ruling{kind: ErrNotFound, fault: ours}
)

// waits is a ruling that says when to come back.
func waits(r ruling, d time.Duration) ruling {
	r.after, r.hasAfter = d, true
	return r
}

type judgement struct {
	o    outcome
	want ruling
}

func judge(t *testing.T, table map[string]judgement) {
	now := time.Now()
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, classify(tc.o, now))
		})
	}
}

// The specification of what follows from an attempt.
func TestClassify(t *testing.T) {
	status, inside := answeredWith, saidInside
	groq := func(o outcome) outcome {
		o.passes = []string{"tool_use_failed", "json_validate_failed"}
		return o
	}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	judge(t, map[string]judgement{
		"400":                          {status(400, `{"error":{"message":"no"}}`), ruling{kind: ErrRequest, fault: ours}},
		"400 context, by code":         {status(400, `{"error":{"message":"x","code":"context_length_exceeded"}}`), ruling{kind: ErrContextLength, fault: ours}},
		"400 context, llama.cpp":       {status(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}`), ruling{kind: ErrContextLength, fault: ours}},
		"400 context, vLLM":            {status(400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000","type":"BadRequestError","code":400}`), ruling{kind: ErrContextLength, fault: ours}},
		"403 context, Together":        {status(403, `{"error":{"message":"input is too long: the model's context length is 8193"}}`), ruling{kind: ErrContextLength, fault: ours}},
		"413 context, Anthropic":       {status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), ruling{kind: ErrContextLength, fault: ours}},
		"401":                          {status(401, `{"error":{"message":"bad key"}}`), ruling{kind: ErrAuth, fault: ours}},
		"403":                          {status(403, `{"error":{"message":"no access"}}`), ruling{kind: ErrAuth, fault: ours}},
		"402":                          {status(402, `{"error":{"message":"pay"}}`), ruling{kind: ErrQuota, fault: ours}},
		"402 OpenRouter, in flight":    {status(402, `{"error":{"code":402,"message":"wait","metadata":{"reason":"in_flight_budget_exhausted"}}}`, "Retry-After", "2"), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 2 * time.Second, hasAfter: true}},
		"404":                          {status(404, `{"error":{"message":"no such model"}}`), ruling{kind: ErrNotFound, fault: ours}},
		"405":                          {status(405, ``), ruling{kind: ErrNotFound, fault: ours}},
		"408":                          {status(408, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"409":                          {status(409, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"413":                          {status(413, ``), ruling{kind: ErrContextLength, fault: ours}},
		"424":                          {status(424, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"425":                          {status(425, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"429":                          {status(429, `{"error":{"code":"rate_limit_exceeded"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"429 with a number for a code": {status(429, `{"error":{"code":429,"message":"slow down"}}`, "Retry-After", "7"), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 7 * time.Second, hasAfter: true}},
		"429 quota":                    {status(429, `{"error":{"message":"q","type":"insufficient_quota","code":"insufficient_quota"}}`, "Retry-After", "7"), ruling{kind: ErrQuota, fault: ours, after: 7 * time.Second, hasAfter: true}},
		"429 spend limit, OpenAI":      {status(429, `{"error":{"message":"q","type":"insufficient_quota","code":"project_spend_limit_exceeded"}}`), ruling{kind: ErrQuota, fault: ours}},
		"429 spend limit, Anthropic":   {status(429, `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`), ruling{kind: ErrQuota, fault: ours}},
		"quota cannot be talked into":  {status(429, `{"error":{"type":"insufficient_quota"}}`, "X-Should-Retry", "true"), ruling{kind: ErrQuota, fault: ours}},
		"498 Groq":                     {status(498, ``), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"499":                          {status(499, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"500":                          {status(500, ``), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"500, do not retry":            {status(500, ``, "X-Should-Retry", "false"), ruling{kind: ErrServer, fault: theirs}},
		"400, retry":                   {status(400, ``, "X-Should-Retry", "true"), ruling{kind: ErrRequest, retry: true, fault: ours}},
		"501":                          {status(501, ``), ruling{kind: ErrRequest, fault: ours}},
		"503":                          {status(503, `server busy`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}},
		"529":                          {status(529, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}},
		"307":                          {status(307, ``), ruling{kind: ErrNotFound, fault: ours}},
		"inside, with a status":        {inside(`{"error":{"message":"queue full","type":"server_error","code":503}}`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}},
		"inside, flat and final":       {inside(`{"object":"error","message":"x","code":400}`), ruling{kind: ErrRequest, fault: ours}},
		"inside, by name":              {inside(`{"error":{"message":"x","type":"SERVICE_UNAVAILABLE","code":503}}`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}},
		"inside, overloaded":           {inside(`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs}},
		"inside, throttled":            {inside(`{"error":{"message":"x","type":"rate_limit_error"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"inside, of no known kind":     {inside(`{"error":{"message":"boom"}}`), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"inside, context":              {inside(`{"error":{"message":"x","type":"exceed_context_size_error"}}`), ruling{kind: ErrContextLength, fault: ours}},
		"refused":                      {outcome{err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, ruling{kind: ErrNetwork, retry: true, fault: theirs, unreached: true}},
		"no such host":                 {outcome{err: &net.DNSError{IsNotFound: true}}, ruling{kind: ErrNetwork, retry: true, fault: theirs, unreached: true}},
		"a certificate":                {outcome{err: x509.HostnameError{}}, ruling{kind: ErrNetwork, fault: theirs}},
		"a name server in trouble":     {outcome{err: &net.DNSError{IsTimeout: true}}, ruling{kind: ErrNetwork, retry: true, fault: theirs, unreached: true}},
		"reset before an answer":       {outcome{err: reset, connected: true}, ruling{kind: ErrNetwork, retry: true, fault: theirs}},
		"reset of a pooled connection": {outcome{err: reset, reused: true}, ruling{kind: ErrNetwork, retry: true, stale: true}},
		"reset within the answer":      {outcome{status: 200, err: reset, reused: true, firstByte: true}, ruling{kind: ErrIncomplete, retry: true, fault: theirs}},
		"the body ends early":          {outcome{status: 200, err: io.ErrUnexpectedEOF, firstByte: true}, ruling{kind: ErrIncomplete, retry: true, fault: theirs}},
		"an event beyond its limit":    {outcome{status: 200, err: &sse.TooLargeError{Limit: 1}, firstByte: true}, ruling{kind: ErrTooLarge}},
		"an answer beyond its limit":   {outcome{status: 200, err: errAnswerTooLarge, firstByte: true}, ruling{kind: ErrTooLarge}},
		"the same over and over":       {outcome{status: 200, err: &runawayError{}, firstByte: true}, ruling{kind: ErrRunaway, retry: true}},
		"truncated tool calls":         {outcome{status: 200, err: &badAnswer{kind: ErrTruncated}}, ruling{kind: ErrTruncated}},
		"an answer that is none":       {outcome{status: 200, err: &badAnswer{kind: ErrMalformed}}, ruling{kind: ErrMalformed, retry: true, fault: theirs}},
		"a call that the server could not read, Groq": {groq(status(400, `{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"x"}}`)), ruling{kind: ErrAborted, retry: true}},
		"JSON that the server could not read, Groq":   {groq(status(400, `{"error":{"message":"x","code":"json_validate_failed"}}`)), ruling{kind: ErrAborted, retry: true}},
		"the same, inside":                            {groq(inside(`{"error":{"message":"x","type":"invalid_request_error","code":"tool_use_failed"}}`)), ruling{kind: ErrAborted, retry: true}},
		"the same, switched off":                      {status(400, `{"error":{"message":"x","code":"tool_use_failed"}}`), ruling{kind: ErrRequest, fault: ours}},
		"another code there":                          {groq(status(400, `{"error":{"message":"x","code":"bad_tool"}}`)), ruling{kind: ErrRequest, fault: ours}},
		"MiniMax, rate":                               {inside(`{"choices":null,"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"MiniMax, tokens":                             {inside(`{"base_resp":{"status_code":1039,"status_msg":"token limit"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"MiniMax, balance":                            {inside(`{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`), ruling{kind: ErrQuota, fault: ours}},
		"MiniMax, plan used up":                       {inside(`{"base_resp":{"status_code":2056,"status_msg":"usage limit exceeded"}}`), ruling{kind: ErrQuota, fault: ours}},
		"MiniMax, key":                                {inside(`{"base_resp":{"status_code":1004,"status_msg":"login fail"}}`), ruling{kind: ErrAuth, fault: ours}},
		"MiniMax, parameters":                         {inside(`{"base_resp":{"status_code":2013,"status_msg":"invalid params"}}`), ruling{kind: ErrRequest, fault: ours}},
		"MiniMax, in trouble":                         {inside(`{"base_resp":{"status_code":1013,"status_msg":"internal"}}`), ruling{kind: ErrServer, retry: true, fault: theirs}},
		"a time in the body, Gemini":                  {status(429, `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"retryDelay":"7s"}]}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 7 * time.Second, hasAfter: true}},
		"a time in the body, OpenRouter":              {status(503, `{"error":{"code":503,"message":"m","availability":{"code":"x","retryable":true,"retry_after":12}}}`), ruling{kind: ErrServer, retry: true, throttle: true, fault: theirs, after: 12 * time.Second, hasAfter: true}},
		"a time in words, Groq":                       {status(429, `{"error":{"message":"Rate limit reached. Please try again in 7m12.5s. Visit","code":"rate_limit_exceeded"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 432500 * time.Millisecond, hasAfter: true}},
		"a time in words, OpenAI":                     {status(429, `{"error":{"message":"Please try again in 898ms.","code":"rate_limit_exceeded"}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 898 * time.Millisecond, hasAfter: true}},
		"a time in words, Azure":                      {status(429, `{"error":{"code":"429","message":"Please retry after 26 seconds."}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 26 * time.Second, hasAfter: true}},
		"a header beats the body":                     {status(429, `{"error":{"code":429,"message":"m","details":[{"retryDelay":"7s"}]}}`, "Retry-After", "3"), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours, after: 3 * time.Second, hasAfter: true}},
		"a time in a final refusal":                   {status(400, `{"error":{"message":"try again in 7s"}}`), ruling{kind: ErrRequest, fault: ours}},
		"a time that is none":                         {status(429, `{"error":{"message":"try again in 9.9.9s","retry_after":-4}}`), ruling{kind: ErrThrottled, retry: true, throttle: true, fault: ours}},
		"a prompt repeated in a refusal":              {status(422, `{"detail":[{"msg":"field required","input":"my context window and insufficient_quota"}]}`), ruling{kind: ErrRequest, fault: ours}},
		"407, a proxy that speaks for itself":         {status(407, `<html>Proxy Authentication Required</html>`), ruling{kind: ErrAuth, fault: nobodys}},
		"407 to a request for a tunnel":               {outcome{err: errors.New("Proxy Authentication Required")}, ruling{kind: ErrNetwork, fault: theirs}},
		"a tunnel that a proxy forbids":               {outcome{err: errors.New("Forbidden")}, ruling{kind: ErrNetwork, fault: theirs}},
		"HTTP/2, too many requests":                   {outcome{err: errors.New("stream error: stream ID 7; ENHANCE_YOUR_CALM; received from peer"), connected: true}, isThrottle},
		"HTTP/2, too many streams":                    {outcome{err: errors.New("stream error: stream ID 7; REFUSED_STREAM; received from peer"), connected: true}, isThrottle},
		"HTTP/2, too many pings":                      {outcome{err: errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=ENHANCE_YOUR_CALM, debug="too_many_pings"`), connected: true}, ruling{kind: ErrNetwork, retry: true, fault: theirs}},
		"HTTP/2, too much of an answer that began":    {outcome{status: 200, err: errors.New("stream error: stream ID 7; ENHANCE_YOUR_CALM; received from peer")}, ruling{kind: ErrIncomplete, retry: true, fault: theirs}},
		"a tunnel that a proxy cannot make now":       {outcome{err: errors.New("Bad Gateway")}, ruling{kind: ErrNetwork, retry: true, fault: theirs}},
	})
}

// Some errors mean something else than the status they come with: gateways
// wrap them, and proxies have one status for all.
func TestAnErrorUnderAnotherStatus(t *testing.T) {
	status, inside := answeredWith, saidInside
	judge(t, map[string]judgement{
		"403 with a time, GitHub's secondary limit": {status(403, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`, "Retry-After", "20"), waits(isThrottle, 20*time.Second)},
		"403 with a time and no word":               {status(403, ``, "Retry-After", "20"), waits(isThrottle, 20*time.Second)},
		"403 with a time that has passed":           {status(403, ``, "Retry-After", "0"), waits(isAuth, 0)},
		"401 with a time":                           {status(401, `{"error":{"message":"x"}}`, "Retry-After", "20"), waits(isAuth, 20*time.Second)},
		"403 throttled, by type":                    {status(403, `{"error":{"message":"x","type":"rate_limit_error","code":"rate_limit_exceeded"}}`), isThrottle},
		"403 throttled, in words":                   {status(403, `{"error":{"message":"Rate limit exceeded for this key"}}`), isThrottle},
		"400 throttled, by code":                    {status(400, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`), isThrottle},
		"400 throttled, Bedrock":                    {status(400, `{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}`), isThrottle},
		"400 throttled, Bedrock through a gateway":  {status(400, `{"message":"Too many tokens, please wait before trying again."}`), isThrottle},
		"400 overloaded":                            {status(400, `{"error":{"message":"The model is overloaded, try again later","type":"overloaded_error"}}`), isBusy},
		"400 to try again later, as many say":       {status(400, `{"error":{"message":"The image could not be read, please try again later."}}`), isRequest},
		"500 throttled, by type":                    {status(500, `{"error":{"message":"x","type":"rate_limit_error"}}`), isThrottle},
		"500 overloaded, quoted by LiteLLM":         {status(500, `{"error":{"message":"litellm.InternalServerError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}. Handle with litellm","code":"500"}}`), isBusy},
		"429, a busy model of DeepInfra":            {status(429, `{"status":"failure","error":{"message":"Invalid response received from deepinfra: {\"error\":{\"message\":\"Model busy, retry later\"}}","type":"APIError","code":"429"}}`), isThrottle},
		"429, a problem of NVIDIA":                  {status(429, `{"status":429,"title":"Too Many Requests"}`), isThrottle},
		"429, Databricks":                           {status(429, `{"error_code":"REQUEST_LIMIT_EXCEEDED","message":"REQUEST_LIMIT_EXCEEDED: Exceeded workspace output tokens per minute rate limit for databricks-x."}`), isThrottle},
		"429, Cerebras":                             {status(429, `{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`), isThrottle},
		"429 that calls itself a bad request":       {status(429, `{"error":{"code":"rate_limit_error","message":"This request would exceed the rate limit for your organization of 20,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.","type":"invalid_request_error"}}`), isThrottle},
		"404, a function of NVIDIA that is gone":    {status(404, `{"status":404,"title":"Not Found","detail":"Function 'x': Not found for account 'y'"}`), isNotFound},
		"500 of a bad request":                      {status(500, `{"error":{"message":"tool_choice is not supported","type":"invalid_request_error","param":"tool_choice","code":null}}`), isRequest},
		"500 of a wrong key":                        {status(500, `{"error":{"message":"AuthenticationError: invalid api key","type":"authentication_error","code":"401"}}`), isAuth},
		"500 of a missing model":                    {status(500, `{"error":{"message":"x","type":"not_found_error"}}`), isNotFound},
		"500 of a permission":                       {status(500, `{"error":{"message":"x","type":"permission_error"}}`), isAuth},
		"500 of a number that is final":             {status(500, `{"error":{"message":"x","type":"None","code":"400"}}`), isRequest},
		"500 that quotes a bad request":             {status(500, `{"error":{"message":"provider said {\"error\":{\"type\":\"invalid_request_error\"}}","type":"api_error"}}`), isFault},
		"500 of the server's own":                   {status(500, `{"error":{"message":"x","type":"api_error","code":"500"}}`), isFault},
		"503 that calls itself a bad request":       {status(503, `{"error":{"message":"loading","type":"invalid_request_error"}}`), isBusy},
		"inside, throttled, in words":               {inside(`{"error":{"message":"Rate limit reached for model x"}}`), isThrottle},
		"inside, overloaded, in words":              {inside(`{"error":{"message":"The engine is currently overloaded"}}`), isBusy},
		"inside, TGI's validation":                  {inside("{\"error\":\"Input validation error: `temperature` must be strictly positive\",\"error_type\":\"validation\"}"), isRequest},
		"inside, TGI's generation":                  {inside(`{"error":"Request failed during generation: CUDA error","error_type":"generation"}`), isFault},
		"inside, TGI's overload":                    {inside(`{"error":"Model is overloaded","error_type":"overloaded"}`), isBusy},
		"inside, a text alone":                      {inside(`{"error":"boom"}`), isFault},
	})
}

func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for k := ErrTimeout; k <= ErrQueue; k++ {
		assert.NotContains(t, k.String(), "kind(")
		assert.False(t, seen[k.String()], k.String())
		seen[k.String()] = true
		assert.ErrorIs(t, &Error{Kind: k}, k)
		assert.False(t, errors.Is(&Error{Kind: k}, k+1))
	}
}

// An SDK above a Transport sees an error inside a 200 as one with the status
// that it stands for.
func TestTheStatusOfAnErrorInsideAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		said string
		want int
	}{
		"stated":           {`{"error":{"message":"x","code":503}}`, 503},
		"MiniMax":          {`{"base_resp":{"status_code":1002,"status_msg":"x"}}`, 429},
		"by type":          {`{"error":{"message":"x","type":"invalid_request_error"}}`, 400},
		"too long, words":  {`{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, 400},
		"no money, words":  {`{"error":{"message":"Insufficient Balance"}}`, 402},
		"throttled, words": {`{"error":{"message":"Rate limit reached"}}`, 429},
		"nothing known":    {`{"error":{"message":"boom"}}`, 500},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, insideStatus(chat.ParseError([]byte(tc.said))))
		})
	}
}
