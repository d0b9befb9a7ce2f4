package agentloop

import (
	"bytes"
	"encoding/json"
	"strings"
)

// parseArguments returns the arguments of a call as a JSON object, or false.
// It takes two liberties that lose nothing: absent arguments are an empty
// object, and an object that was encoded twice is unwrapped.
func parseArguments(text string) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return json.RawMessage("{}"), true
	}
	if text[0] == '"' {
		var inner string
		if json.Unmarshal([]byte(text), &inner) != nil {
			return nil, false
		}
		text = strings.TrimSpace(inner)
	}
	if text == "" || text[0] != '{' {
		return nil, false
	}
	raw := json.RawMessage(text)
	return raw, json.Valid(raw)
}

// canonical returns a form of a JSON value in which equal values have equal
// bytes: keys sorted, no space, numbers as written.
func canonical(raw json.RawMessage) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}
