package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// maxDepth bounds the nesting of received JSON, and with it the stack.
const maxDepth = 512

// A cursor reads JSON once, front to back, and lets its user take each value in the
// form in which it comes. A decoder with fixed types would fail on the first server
// that sends a list in place of a string.
//
// Every method expects the cursor at the start of a value and leaves it after that
// value. If the text ends too early, the error matches io.ErrUnexpectedEOF. Errors
// say where the text is broken and do not quote it.
type cursor struct {
	data    []byte
	pos     int
	depth   int
	scratch []byte // the last result of bytes, if it had escapes
}

func (c *cursor) syntax(what string) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", c.pos, what)
}

func (c *cursor) short() error {
	return fmt.Errorf("JSON cut short at byte %d: %w", len(c.data), io.ErrUnexpectedEOF)
}

// kind returns the first byte of the value, a '0' for any number, or an error.
func (c *cursor) kind() (byte, error) {
	c.space()
	if c.pos >= len(c.data) {
		return 0, c.short()
	}
	switch b := c.data[c.pos]; b {
	case '{', '[', '"', 't', 'f', 'n':
		return b, nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0', nil
	default:
		return 0, c.syntax("no value starts so")
	}
}

func (c *cursor) space() {
	if c.pos < len(c.data) && c.data[c.pos] <= ' ' {
		c.spaces()
	}
}

func (c *cursor) spaces() {
	for c.pos < len(c.data) && isSpace(c.data[c.pos]) {
		c.pos++
	}
}

func isSpace(b byte) bool {
	return b == ' ' || b == '\t' || b == '\n' || b == '\r'
}

// end reports an error unless nothing but space is left.
func (c *cursor) end() error {
	if c.space(); c.pos < len(c.data) {
		return c.syntax("more text after the value")
	}
	return nil
}

// members calls fn for each member of the object that follows; fn takes its
// value. The key is valid until fn returns.
func (c *cursor) members(fn func(key []byte) error) error {
	if err := c.enter('{'); err != nil {
		return err
	}
	if c.space(); c.pos < len(c.data) && c.data[c.pos] == '}' {
		c.pos++
		c.depth--
		return nil
	}
	for {
		c.space()
		key, err := c.quoted()
		if err != nil {
			return err
		}
		if c.space(); c.pos >= len(c.data) {
			return c.short()
		} else if c.data[c.pos] != ':' {
			return c.syntax("want a colon after the key")
		}
		c.pos++
		if err := fn(key); err != nil {
			return err
		}
		if more, err := c.more('}'); err != nil || !more {
			return err
		}
	}
}

// elements calls fn for each element of the array that follows; fn takes it.
func (c *cursor) elements(fn func(i int) error) error {
	if err := c.enter('['); err != nil {
		return err
	}
	if c.space(); c.pos < len(c.data) && c.data[c.pos] == ']' {
		c.pos++
		c.depth--
		return nil
	}
	for i := 0; ; i++ {
		if err := fn(i); err != nil {
			return err
		}
		if more, err := c.more(']'); err != nil || !more {
			return err
		}
	}
}

// object calls fn for each member if the value is an object, and steps over other
// values.
func (c *cursor) object(fn func(key []byte) error) error {
	if k, err := c.kind(); err != nil || k != '{' {
		return c.skip()
	}
	return c.members(fn)
}

func (c *cursor) enter(open byte) error {
	if c.space(); c.pos >= len(c.data) {
		return c.short()
	} else if c.data[c.pos] != open {
		return c.syntax("want " + string(rune(open)))
	}
	c.pos++
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("JSON nested deeper than %d levels at byte %d", maxDepth, c.pos)
	}
	return nil
}

// more steps over a comma, or over the closing byte and reports false.
func (c *cursor) more(closing byte) (bool, error) {
	if c.space(); c.pos >= len(c.data) {
		return false, c.short()
	}
	switch c.data[c.pos] {
	case ',':
		c.pos++
		return true, nil
	case closing:
		c.pos++
		c.depth--
		return false, nil
	}
	return false, c.syntax("want a comma or " + string(rune(closing)))
}

// skip steps over a value.
func (c *cursor) skip() error {
	k, err := c.kind()
	if err != nil {
		return err
	}
	switch k {
	case '{':
		return c.members(func([]byte) error { return c.skip() })
	case '[':
		return c.elements(func(int) error { return c.skip() })
	case '"':
		_, _, err := c.body()
		return err
	case '0':
		return c.number()
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	default:
		return c.literal("null")
	}
}

// raw returns the bytes of a value. They share the cursor's memory.
func (c *cursor) raw() ([]byte, error) {
	c.space()
	start := c.pos
	if err := c.skip(); err != nil {
		return nil, err
	}
	return c.data[start:c.pos], nil
}

// keep returns a copy of the bytes of a value, or nil for null.
func (c *cursor) keep() (json.RawMessage, error) {
	b, err := c.raw()
	if err != nil || string(b) == "null" {
		return nil, err
	}
	return append(json.RawMessage(nil), b...), nil
}

// text returns a string, or "" for another value, which is no reason to fail the
// answer.
func (c *cursor) text() (string, error) { return c.textOr("") }

// textOr is text that returns old, without allocating, if the text is the
// same.
func (c *cursor) textOr(old string) (string, error) {
	b, err := c.bytes()
	if string(b) == old {
		return old, err
	}
	return string(b), err
}

// bytes is text that is valid until its next call.
func (c *cursor) bytes() ([]byte, error) {
	if k, err := c.kind(); err != nil || k != '"' {
		return nil, c.skip()
	}
	body, plain, err := c.body()
	if err != nil || plain {
		return body, err
	}
	c.scratch = unescape(c.scratch[:0], body)
	return c.scratch, nil
}

// scalar returns a string, or the JSON text of a number or boolean.
func (c *cursor) scalar() (string, error) { return c.scalarOr("") }

// scalarOr is scalar in the manner of textOr.
func (c *cursor) scalarOr(old string) (string, error) {
	if k, err := c.kind(); err == nil && (k == '0' || k == 't' || k == 'f') {
		b, err := c.raw()
		return string(b), err
	}
	return c.textOr(old)
}

// integer returns a whole number, even if it is written as a string or with a
// fraction of zero; ok is false if the value is something else.
func (c *cursor) integer() (n int64, ok bool, err error) {
	k, err := c.kind()
	if err != nil {
		return 0, false, err
	}
	var b []byte
	switch k {
	case '0':
		b, err = c.raw()
	case '"':
		b, err = c.quoted()
	default:
		err = c.skip()
	}
	if err != nil || len(b) == 0 {
		return 0, false, err
	}
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		return n, true, nil
	}
	// Up to 2^53 a float is a whole number if it looks like one.
	f, bad := strconv.ParseFloat(string(b), 64)
	if bad == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
		return int64(f), true, nil
	}
	return 0, false, nil
}

func (c *cursor) literal(want string) error {
	for i := range len(want) {
		if c.pos >= len(c.data) {
			return c.short()
		}
		if c.data[c.pos] != want[i] {
			return c.syntax("want " + want)
		}
		c.pos++
	}
	return nil
}

func (c *cursor) number() error {
	if c.data[c.pos] == '-' {
		c.pos++
	}
	first := c.pos
	n, err := c.digits()
	if err != nil {
		return err
	}
	if n > 1 && c.data[first] == '0' {
		c.pos = first + 1
		return c.syntax("a number with a leading zero")
	}
	if c.pos < len(c.data) && c.data[c.pos] == '.' {
		c.pos++
		if _, err := c.digits(); err != nil {
			return err
		}
	}
	if c.pos < len(c.data) && (c.data[c.pos] == 'e' || c.data[c.pos] == 'E') {
		c.pos++
		if c.pos < len(c.data) && (c.data[c.pos] == '+' || c.data[c.pos] == '-') {
			c.pos++
		}
		if _, err := c.digits(); err != nil {
			return err
		}
	}
	return nil
}

// digits steps over at least one digit and returns how many there were.
func (c *cursor) digits() (int, error) {
	start := c.pos
	for c.pos < len(c.data) && c.data[c.pos] >= '0' && c.data[c.pos] <= '9' {
		c.pos++
	}
	switch {
	case c.pos > start:
		return c.pos - start, nil
	case c.pos >= len(c.data):
		return 0, c.short()
	}
	return 0, c.syntax("want a digit")
}
