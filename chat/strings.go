package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plainByte has the bytes that stand for themselves in a JSON string: ASCII without
// quote, backslash and control characters.
var plainByte = func() (table [256]bool) {
	for b := 0x20; b < utf8.RuneSelf; b++ {
		table[b] = b != '"' && b != '\\'
	}
	return table
}()

// quoted returns the string that follows, decoded. It shares the cursor's
// memory if the string has no escapes.
func (c *cursor) quoted() ([]byte, error) {
	body, plain, err := c.body()
	if err != nil || plain {
		return body, err
	}
	return unescape(nil, body), nil
}

// body steps over a string and returns what is between its quotes. plain is
// true if that is the string's value as it stands.
func (c *cursor) body() (body []byte, plain bool, err error) {
	if c.pos >= len(c.data) {
		return nil, false, c.short()
	}
	if c.data[c.pos] != '"' {
		return nil, false, c.syntax("want a string")
	}
	c.pos++
	start, escaped, ascii := c.pos, false, true
	for {
		data, i := c.data, c.pos
		for i < len(data) && plainByte[data[i]] {
			i++
		}
		c.pos = i
		if i == len(data) {
			return nil, false, c.short()
		}
		switch b := data[i]; {
		case b == '"':
			body = data[start:i]
			c.pos++
			return body, !escaped && (ascii || utf8.Valid(body)), nil
		case b == '\\':
			escaped = true
			if err := c.escape(); err != nil {
				return nil, false, err
			}
		case b < 0x20:
			return nil, false, c.syntax("a control character in a string")
		default:
			ascii = false
			c.pos++
		}
	}
}

// escape steps over a backslash and what belongs to it.
func (c *cursor) escape() error {
	if c.pos+1 >= len(c.data) {
		return c.short()
	}
	switch c.data[c.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.pos += 2
		return nil
	case 'u':
		for i := c.pos + 2; i < c.pos+6; i++ {
			if i >= len(c.data) {
				return c.short()
			}
			if unhex(c.data[i]) < 0 {
				return c.syntax("want four hex digits after \\u")
			}
		}
		c.pos += 6
		return nil
	}
	return c.syntax("an unknown escape in a string")
}

// unescape appends the inside of a string that body has checked, decoded. Lone
// surrogates and bytes that are not UTF-8 become U+FFFD.
func unescape(out, s []byte) []byte {
	out = slices.Grow(out, len(s))
	for i := 0; i < len(s); {
		b := s[i]
		switch {
		case b >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(s[i:])
			out = utf8.AppendRune(out, r)
			i += size
		case b != '\\':
			out = append(out, b)
			i++
		case s[i+1] == 'u':
			r := rune4(s[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
					low = rune4(s[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, unescaped(s[i+1]))
			i += 2
		}
	}
	return out
}

// escapeAt returns how long the escape at s[i] is, a surrogate pair being one, and
// whether it is half of such a pair and without the other. s is valid JSON.
func escapeAt[T string | json.RawMessage](s T, i int) (n int, half bool) {
	if s[i+1] != 'u' {
		return 2, false
	}
	switch r := rune4(s[i+2:]); {
	case !utf16.IsSurrogate(r):
	case isHigh(r) && i+12 <= len(s) && s[i+6] == '\\' && s[i+7] == 'u' && isLow(rune4(s[i+8:])):
		return 12, false
	default:
		return 6, true
	}
	return 6, false
}

// wholeEscape stands in the place of half an escape.
const wholeEscape = `\ufffd`

// wholeEscapes returns valid JSON without halves of escapes.
func wholeEscapes(s string) string {
	if !strings.Contains(s, `\ud`) && !strings.Contains(s, `\uD`) {
		return s // as it is nearly always
	}
	var b strings.Builder
	start := 0
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			i++
			continue
		}
		n, half := escapeAt(s, i)
		if half {
			b.WriteString(s[start:i])
			b.WriteString(wholeEscape)
			start = i + n
		}
		i += n
	}
	b.WriteString(s[start:])
	return b.String()
}

func unescaped(b byte) byte {
	switch b {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return b // a quote, a backslash or a slash
}

func rune4[T string | []byte | json.RawMessage](s T) rune {
	return rune(unhex(s[0])<<12 | unhex(s[1])<<8 | unhex(s[2])<<4 | unhex(s[3]))
}

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Unlike encoding/json it leaves <,
// > and & alone: they are common in code and need no escape outside HTML.
// Bytes that are not UTF-8 become U+FFFD, as there.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plainByte[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
