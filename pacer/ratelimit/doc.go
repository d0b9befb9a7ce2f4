// Package ratelimit reads from the headers of model servers what is left of their
// rate limits, for package pacer:
//
//	resp, err := client.Do(req)
//	if err == nil {
//		p.Heed(permit, ratelimit.Parse(resp.Header, time.Now())...)
//	}
//
// so that a pacer slows down before the server refuses.
//
// # Promises
//
//   - It knows the headers of OpenAI, Azure, Groq, Anthropic (with those of
//     subscriptions), Mistral, Together and OpenRouter, and the RateLimit headers
//     of the IETF drafts, old and new. It detects which ones a server uses.
//   - Values are not made up. Negative numbers, times in the past, invalid dates,
//     and counts without a time of renewal are ignored.
//   - It returns at most one allowance for requests and one for tokens: the
//     tightest, if a server has several limits.
package ratelimit
