package llmclient

import (
	"net/http"
	"testing"
	"time"
)

// No two providers say alike that an account has nothing left, and throttles of
// a minute use the same words.
func TestAQuota(t *testing.T) {
	status, inside := answeredWith, saidInside
	judge(t, map[string]judgement{
		"429 OpenAI, not active":               {status(429, `{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}`), isQuota},
		"429 xAI":                              {status(429, `{"code":"Some resource has been exhausted","error":"Your team 1234 has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit."}`), isQuota},
		"429 Zhipu":                            {status(429, `{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}`), isQuota},
		"429 Z.ai":                             {status(429, `{"type":"error","error":{"type":"rate_limit_error","code":"1113","message":"[1113][Insufficient balance or no resource package. Please recharge.][2026]"}}`), isQuota},
		"429 Z.ai, five hours":                 {status(429, `{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-09-09 05:38:28"}}`), isQuota},
		"429 Zhipu, five hours":                {status(429, `{"error":{"code":"1308","message":"已达到 5 小时的使用上限。您的限额将在 2026-08-25 07:41:44 重置。"}}`), isQuota},
		"429 LiteLLM quotes words":             {status(429, `{"error":{"message":"litellm.RateLimitError: RateLimitError: OpenAIException - You have no credits remaining. Add credits to continue using the API","type":"None","param":"None","code":"429"}}`), isQuota},
		"429 LiteLLM quotes a code":            {status(429, `{"error":{"message":"Error code: 429 - {'error': {'message': 'no', 'type': 'insufficient_quota', 'code': 'insufficient_quota'}}","type":"throttling_error","code":"429"}}`), isQuota},
		"429 LiteLLM, the budget":              {status(429, `{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"429"}}`), isQuota},
		"429 Copilot":                          {status(429, `{"error":{"message":"You have exceeded your free chat requests quota.","code":"quota_exceeded"}}`), isQuota},
		"429 OpenRouter quotes a provider":     {status(429, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\"}}"}}}`), isQuota},
		"429 Google, a day":                    {status(429, `[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 39.1s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"50"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"39s"}]}}]`), isQuota},
		"429 Cloudflare Workers AI, a day":     {status(429, `{"errors":[{"message":"AiError: you have used up your daily free allocation of 10,000 neurons, please upgrade to Cloudflare's Workers Paid plan if you would like to continue usage.","code":4006}],"success":false,"result":{},"messages":[]}`), isQuota},
		"429 Bedrock, a day":                   {status(429, `{"message":"Too many tokens per day, please wait before trying again."}`), isQuota},
		"429 Ollama, a week":                   {status(429, `{"error":{"message":"you (x) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade","type":"api_error"}}`), isQuota},
		"429 Ollama, an hour":                  {status(429, `{"error":"you've reached your hourly usage limit, please wait or upgrade to continue"}`), isQuota},
		"429 Qwen, the free allowance":         {status(429, `{"error":{"message":"Free allocated quota exceeded.","code":"insufficient_quota"}}`), isQuota},
		"429 Cohere's trial by the month":      {status(429, `{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}`), isQuota},
		"429 OpenRouter, a day, no time":       {status(429, `{"error":{"message":"Rate limit exceeded: free-models-per-day.","code":429}}`), isQuota},
		"402 of any kind":                      {status(402, ``), isQuota},
		"402 Hugging Face":                     {status(402, `{"error":"You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to get 20x more monthly included credits."}`), isQuota},
		"402 OpenRouter":                       {status(402, `{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 0.","code":402}}`), isQuota},
		"401 Perplexity":                       {status(401, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":401}}`), isQuota},
		"412 Fireworks":                        {status(412, `{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices. Please go to https://fireworks.ai/account/billing for more information.","param":null,"code":"PRECONDITION_FAILED","type":"error"}}`), isQuota},
		"412 Portkey, no more than the status": {status(412, ``), isQuota},
		"429 Helicone":                         {status(429, `{"success":false,"error":{"code":"request_failed","message":"Insufficient credits","details":[{"type":"insufficient_credit_limit","message":"Insufficient balance for escrow. Available: 0 cents, needed: 1.03 cents","statusCode":429}]}}`), isQuota},
		"429 CloudBase":                        {status(429, `{"code":"EXCEED_TOKEN_QUOTA_LIMIT","message":"Token usage exceeded quota limit."}`), isQuota},
		"429 Google, of what is not free":      {status(429, `[{"error":{"code":429,"message":"You exceeded your current quota.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-3.1-pro\nPlease retry in 56.4s.","status":"RESOURCE_EXHAUSTED"}}]`), isQuota},
		"400 OpenAI, a hard limit":             {status(400, `{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","code":null}}`), isQuota},
		"400 LiteLLM, the budget":              {status(400, `{"error":{"message":"Budget has been exceeded! Current cost: 10.2, Max budget: 10.0","type":"budget_exceeded","param":null,"code":"400"}}`), isQuota},
		"400 DashScope, unpaid":                {status(400, `{"error":{"message":"Access denied, please make sure your account is in good standing.","type":"Arrearage","param":null,"code":"Arrearage"}}`), isQuota},
		"400 Anthropic, the owner's bound":     {status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC."}}`), isQuota},
		"400 Anthropic, no credit":             {status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`), isQuota},
		"403 Volcengine, overdue":              {status(403, `{"error":{"code":"AccountOverdueError","message":"The request failed because your account has an overdue balance.","type":"Forbidden"}}`), isQuota},
		"403 xAI, no credits":                  {status(403, `{"code":"The caller does not have permission to execute the specified operation","error":"Your newly created team doesn't have any credits or licenses yet. You can purchase those on https://console.x.ai"}`), isQuota},
		"403 SiliconFlow":                      {status(403, `{"code":30001,"message":"Sorry, your account balance is insufficient","data":null}`), isQuota},
		"403 Novita":                           {status(403, `{"code":403,"reason":"NOT_ENOUGH_BALANCE","message":"not enough balance","metadata":{}}`), isQuota},
		"403 OpenRouter, the key's limit":      {status(403, `{"error":{"message":"Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys","code":403}}`), isQuota},
		"403 DashScope, the free tier":         {status(403, `{"error":{"message":"The free tier of the model has been exhausted. If you wish to continue access the model on a paid basis, disable the free tier only mode.","code":"AllocationQuota.FreeTierOnly"}}`), isQuota},
		"403 Ollama, past due":                 {status(403, `{"error":{"message":"your subscription payment is past due. update your payment method","type":"api_error","param":null,"code":null}}`), isQuota},
		"403 Vercel, no card":                  {status(403, `{"error":{"message":"AI Gateway requires a valid credit card on file to service requests.","type":"customer_verification_required"}}`), isQuota},
		"500 a gateway quotes a code":          {status(500, `{"error":{"message":"Error from provider: {\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\"}}","type":"api_error"}}`), isQuota},
		"inside, DeepSeek":                     {inside(`{"error":{"message":"Insufficient Balance"}}`), isQuota},
		"inside, OpenAI's words":               {inside(`{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`), isQuota},
		"inside, with a code":                  {inside(`{"error":{"message":"x","code":"insufficient_quota"}}`), isQuota},

		"not: credits, advertised":          {status(429, `{"error":{"message":"Rate limit reached. Add credits to raise your limits.","code":"rate_limit_exceeded"}}`), isThrottle},
		"not: a plan, advertised":           {status(429, `{"error":{"message":"Rate limited. Sign in to get 1,000 free requests per day."}}`), isThrottle},
		"not: Azure's link":                 {status(429, `{"error":{"code":"429","message":"Requests have exceeded token rate limit of your current AIServices S0 pricing tier. Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."}}`), isThrottle},
		"not: Vertex":                       {status(429, `[{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}]`), isThrottle},
		"not: Google, a minute":             {status(429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 39.1s.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"retryDelay":"39s"}]}}]`), waits(isThrottle, 39100*time.Millisecond)},
		"not: DashScope's minute":           {status(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit","type":"insufficient_quota","code":"insufficient_quota"}}`), isThrottle},
		"not: DashScope's minute, its own":  {status(429, `{"error":{"message":"Allocated quota exceeded, please increase your quota limit.","type":"Throttling.AllocationQuota","code":"Throttling.AllocationQuota"}}`), isThrottle},
		"not: Cohere's trial by the minute": {status(429, `{"message":"You are using a Trial key, which is limited to 40 API calls / minute. You can continue to use the Trial key for free or upgrade to a Production key."}`), isThrottle},
		"not: Groq, a day with a time":      {status(429, `{"error":{"message":"Rate limit reached for model x on tokens per day (TPD): Limit 100000, Used 94976, Requested 5632. Please try again in 8m45.312s. Need more tokens? Upgrade to Dev Tier today","type":"tokens","code":"rate_limit_exceeded"}}`), waits(isThrottle, 8*time.Minute+45312*time.Millisecond)},
		"not: Codex, with a time":           {status(429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":13872}}`), waits(isThrottle, 13872*time.Second)},
		"not: OpenRouter, under way":        {status(402, `{"error":{"code":402,"message":"wait","metadata":{"reason":"in_flight_budget_exhausted"}}}`), isThrottle},
		"not: a 503 that speaks of balance": {status(http.StatusServiceUnavailable, `{"error":{"message":"load balancer: insufficient balance of workers"}}`), isBusy},
		"not: a prompt about it":            {status(400, `{"error":{"message":"bad request {'input': 'my insufficient balance'}"}}`), isRequest},
		"not: a wrong key":                  {status(403, `{"error":{"message":"no access to this model"}}`), isAuth},
	})
}
