// Package ratelimit reads what model servers say in their headers about what is
// left of their rate limits, and puts it into the words of package pacer:
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
//   - It knows the headers of OpenAI, Azure, Groq, Anthropic (also those of
//     subscriptions), Mistral, Together and OpenRouter, and the RateLimit headers
//     of the IETF drafts, old and new. It tells them apart by themselves: nobody
//     has to say which server it is.
//   - A value that was not sent is not made up. A number of less than zero, a
//     time in the past, a date that is none, and a count without the time when
//     it is renewed are as good as not sent.
//   - There is one answer at most for requests and one for tokens: the tighter
//     one, where a server counts in several ways.
package ratelimit
