package agentloop

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
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
	return wholeCharacters(raw), json.Valid(raw)
}

// wholeCharacters replaces each escaped half of a surrogate pair that lacks the other
// half by U+FFFD. A lone half is no text, and strict servers refuse every request
// with it. raw itself is not changed.
func wholeCharacters(raw json.RawMessage) json.RawMessage {
	var mended json.RawMessage
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first := escaped(raw[i:])
		switch {
		case utf16.IsSurrogate(first) && utf16.DecodeRune(first, escaped(raw[i+6:])) != unicode.ReplacementChar:
			i += 11
		case utf16.IsSurrogate(first):
			if mended == nil {
				mended = bytes.Clone(raw)
			}
			copy(mended[i:], `\ufffd`)
			i += 5
		default:
			i++ // what stands behind a backslash begins nothing
		}
	}
	if mended == nil {
		return raw
	}
	return mended
}

// escaped returns the UTF-16 unit that text begins with in the form of \uXXXX, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// wholeExtra is wholeCharacters for all values, in a copy if need be.
func wholeExtra(extra map[string]json.RawMessage) map[string]json.RawMessage {
	var mended map[string]json.RawMessage
	for k, v := range extra {
		if whole := wholeCharacters(v); !bytes.Equal(whole, v) {
			if mended == nil {
				mended = maps.Clone(extra)
			}
			mended[k] = whole
		}
	}
	if mended == nil {
		return extra
	}
	return mended
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
