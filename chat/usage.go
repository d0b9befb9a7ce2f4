package chat

// usage reads the server's usage, or nil if it counted nothing: null and an empty
// object do not mean zero tokens.
func (c *cursor) usage() (*Usage, error) {
	raw, err := c.keep()
	if err != nil || len(raw) == 0 || raw[0] != '{' {
		return nil, err
	}
	u := &Usage{Raw: raw}
	in := cursor{data: raw}
	counted, prompted := false, false
	var read, written int64 // from and to a cache, as Anthropic counts them: beside the input
	number := func(to *int64) error {
		n, ok, err := in.integer()
		if ok && n >= 0 && n <= maxTokens {
			*to = n
		}
		return err
	}
	detail := func(name string, to *int64) error {
		return in.object(func(key []byte) error {
			if string(key) != name {
				return in.skip()
			}
			return number(to)
		})
	}
	err = in.members(func(key []byte) error {
		switch string(key) {
		case "prompt_tokens":
			counted, prompted = true, true
			return number(&u.PromptTokens)
		case "input_tokens":
			if counted = true; prompted { // both: the other one is the sum, where they differ
				return in.skip()
			}
			return number(&u.PromptTokens)
		case "completion_tokens", "output_tokens":
			counted = true
			return number(&u.CompletionTokens)
		case "total_tokens":
			return number(&u.TotalTokens)
		case "prompt_tokens_details", "input_tokens_details":
			return detail("cached_tokens", &u.CachedTokens)
		case "completion_tokens_details", "output_tokens_details":
			return detail("reasoning_tokens", &u.ReasoningTokens)
		case "prompt_cache_hit_tokens": // DeepSeek
			return number(&u.CachedTokens)
		case "cache_read_input_tokens":
			return number(&read)
		case "cache_creation_input_tokens":
			return number(&written)
		}
		return in.skip()
	})
	if err != nil || !counted && u.TotalTokens == 0 {
		return nil, err
	}
	u.addCache(prompted, read, written)
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u, nil
}

// maxTokens is larger than any real count. Sums of larger ones would overflow, here or
// in a caller that adds up the usage of a day.
const maxTokens = 1_000_000_000_000

// addCache adds the tokens that were read from and written to a cache. Input tokens
// never include them. Prompt tokens do at most gateways: they are added only if there
// are more of them than prompt tokens, or if the total shows that they are missing.
func (u *Usage) addCache(prompted bool, read, written int64) {
	u.CachedTokens = max(u.CachedTokens, read)
	cache := read + written
	if cache <= 0 || prompted && cache <= u.PromptTokens && u.TotalTokens != u.PromptTokens+cache+u.CompletionTokens {
		return
	}
	if u.TotalTokens == u.PromptTokens+u.CompletionTokens {
		u.TotalTokens = 0 // of the same, and so too small
	}
	u.PromptTokens += cache
	if u.TotalTokens < u.PromptTokens {
		u.TotalTokens = 0
	}
}

// counts reports whether anything was counted. Some servers end with zeros.
func (u *Usage) counts() bool {
	return u.PromptTokens > 0 || u.CompletionTokens > 0 || u.TotalTokens > 0
}
