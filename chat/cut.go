package chat

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Servers that cut text by tokens cut characters in two: a piece ends with the
// first half of a surrogate pair, as an escape, or with the first bytes of a
// character, and the next piece begins with the rest. Text in which such
// halves are kept is called loose here: a surrogate stands in it as the three
// bytes that it would have as a character of its own, bytes stand for
// themselves. Loose texts that are joined and tidied give whole characters.

// The texts of a chunk that may be cut.
const (
	cutContent = iota
	cutReasoning
	cutRefusal
	cutTexts // how many there are
)

// note keeps the loose form of a text, if it has one.
func (ch *Chunk) note(text int, loose string) {
	if ch.cut == nil {
		if loose == "" {
			return
		}
		ch.cut = new([cutTexts]string)
	}
	ch.cut[text] = loose
}

// loose returns the loose form of a text, or "" if no character is cut.
func (ch *Chunk) loose(text int) string {
	if ch.cut == nil || ch.Whole {
		return ""
	}
	return ch.cut[text]
}

// piece returns a string and, if it begins or ends within a character, its
// loose form. Of a value that is no string both are empty.
func (c *cursor) piece() (text, loose string, err error) {
	b, cut, err := c.looseBytes()
	if !cut {
		return string(b), "", err
	}
	return string(appendTidy(nil, b)), string(b), nil
}

// looseBytes is bytes that keeps the halves of characters at both ends; cut
// tells whether there are any.
func (c *cursor) looseBytes() (b []byte, cut bool, err error) {
	if k, err := c.kind(); err != nil || k != '"' {
		return nil, false, c.skip()
	}
	body, plain, err := c.body()
	if err != nil || plain {
		return body, false, err
	}
	head, tail := halves(body)
	end := len(body) - tail
	out := appendHalf(c.scratch[:0], body[:head])
	out = unescape(out, body[head:end])
	c.scratch = appendHalf(out, body[end:])
	return c.scratch, head+tail > 0, nil
}

// halves tells how much of the inside of a string, as it is on the wire, is the
// second half of a character at its beginning and the first half of one at its
// end.
func halves(s []byte) (head, tail int) {
	if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' && isLow(rune4(s[2:])) {
		head = 6
	}
	for head < min(len(s), utf8.UTFMax-1) && isContinuation(s[head]) {
		head++
	}
	s = s[head:]
	if n := len(s) - 6; n >= 0 && s[n] == '\\' && s[n+1] == 'u' && isHigh(rune4(s[n+2:])) {
		before := bytes.TrimRight(s[:n], `\`)
		if (n-len(before))%2 == 0 {
			return head, 6
		}
	}
	return head, firstBytes(s)
}

// firstBytes tells how many bytes at the end of s begin a character that does
// not end there.
func firstBytes[T string | []byte](s T) int {
	for n := 1; n <= min(len(s), utf8.UTFMax-1); n++ {
		b := s[len(s)-n]
		switch {
		case b < utf8.RuneSelf:
			return 0
		case !isContinuation(b):
			if utf8.FullRune([]byte(s[len(s)-n:])) {
				return 0
			}
			return n
		}
	}
	return 0
}

// appendHalf appends what halves has found.
func appendHalf(out, half []byte) []byte {
	if len(half) == 0 || half[0] != '\\' {
		return append(out, half...)
	}
	r := rune4(half[2:])
	return append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
}

// tidy returns a text without halves, and its loose form if it had some.
func tidy(s string) (text, loose string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return string(appendTidy(nil, []byte(s))), s
}

// appendTidy appends loose text, with halves that meet joined and U+FFFD for
// those that do not.
func appendTidy(out, s []byte) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			if half, ok := surrogate(s); ok {
				size = 3
				if low, ok := surrogate(s[3:]); ok {
					if pair := utf16.DecodeRune(half, low); pair != utf8.RuneError {
						r, size = pair, 6
					}
				}
			}
		}
		out = utf8.AppendRune(out, r)
		s = s[size:]
	}
	return out
}

// surrogate returns the half of a pair with which loose text begins.
func surrogate[T string | []byte](s T) (rune, bool) {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || !isContinuation(s[2]) {
		return 0, false
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), true
}

// openHalf tells how many bytes at the end of loose text are the first half of
// a character.
func openHalf(s string) int {
	if n := len(s) - 3; n >= 0 {
		if r, ok := surrogate(s[n:]); ok && isHigh(r) {
			return 3
		}
	}
	return firstBytes(s)
}

// closesHalf reports whether loose text begins with the second half of one.
func closesHalf(s string) bool {
	r, ok := surrogate(s)
	return s != "" && isContinuation(s[0]) || ok && isLow(r)
}

func isHigh(r rune) bool         { return r >= 0xD800 && r < 0xDC00 }
func isLow(r rune) bool          { return r >= 0xDC00 && r < 0xE000 }
func isContinuation(b byte) bool { return b&0xC0 == 0x80 }

// A growing text is put together of pieces. It must not be copied.
type growing struct {
	b     strings.Builder
	loose bool
}

// add appends a piece, in its loose form if that is no other text by now. A
// whole text takes the place of the pieces.
func (g *growing) add(s, loose string, whole bool) {
	if whole && s != "" {
		g.reset()
	}
	if loose != "" && string(appendTidy(nil, []byte(loose))) == s {
		s, g.loose = loose, true
	}
	g.b.WriteString(s)
}

func (g *growing) len() int { return g.b.Len() }

func (g *growing) reset() {
	g.b.Reset()
	g.loose = false
}

// text returns what there is. Half a character at its end is U+FFFD.
func (g *growing) text() string {
	if !g.loose {
		return g.b.String()
	}
	return string(appendTidy(nil, []byte(g.b.String())))
}

// settle tidies a text to which nothing will be added, once.
func (g *growing) settle() {
	if g.loose {
		s := g.text()
		g.reset()
		g.b.WriteString(s)
	}
}
