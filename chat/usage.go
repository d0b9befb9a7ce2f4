package chat

// usage reads what the server counted, or nil if it counted nothing: neither
// null nor an empty object is zero tokens.
func (c *cursor) usage() (*Usage, error) {
	raw, err := c.keep()
	if err != nil || len(raw) == 0 || raw[0] != '{' {
		return nil, err
	}
	u := &Usage{Raw: raw}
	in := cursor{data: raw}
	counted := false
	number := func(to *int64) error {
		n, ok, err := in.integer()
		if ok && n >= 0 {
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
		case "prompt_tokens", "input_tokens":
			counted = true
			return number(&u.PromptTokens)
		case "completion_tokens", "output_tokens":
			counted = true
			return number(&u.CompletionTokens)
		case "total_tokens":
			return number(&u.TotalTokens)
		case "prompt_tokens_details":
			return detail("cached_tokens", &u.CachedTokens)
		case "completion_tokens_details":
			return detail("reasoning_tokens", &u.ReasoningTokens)
		case "prompt_cache_hit_tokens": // DeepSeek
			return number(&u.CachedTokens)
		}
		return in.skip()
	})
	if err != nil || !counted && u.TotalTokens == 0 {
		return nil, err
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u, nil
}

// counts reports whether anything was counted. Some servers end with zeros.
func (u *Usage) counts() bool {
	return u.PromptTokens > 0 || u.CompletionTokens > 0 || u.TotalTokens > 0
}
