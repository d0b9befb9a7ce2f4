package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// object writes the members of a JSON object whose brace is already there.
type object struct {
	buf   []byte
	taken map[string]json.RawMessage // members that Extra writes instead
	some  bool                       // a member has been written
	err   error                      // the first failure

	form *Form  // leaves members out; nil if it leaves none
	of   level  // and what this is there
	kind string // its type, if it has one
}

func (o *object) key(name string) {
	if o.some {
		o.buf = append(o.buf, ',')
	}
	o.some = true
	o.buf = append(appendString(o.buf, name), ':')
}

// want writes the key and reports true, unless Extra has the member or the form
// leaves it out.
func (o *object) want(name string) bool {
	if _, there := o.taken[name]; there || o.omits(name) {
		return false
	}
	o.key(name)
	return true
}

func (o *object) str(name, value string) {
	if value != "" && o.want(name) {
		o.buf = appendString(o.buf, value)
	}
}

func (o *object) int(name string, value int) {
	if value != 0 && o.want(name) {
		o.buf = strconv.AppendInt(o.buf, int64(value), 10)
	}
}

func (o *object) bool(name string, value *bool) {
	if value != nil && o.want(name) {
		o.buf = strconv.AppendBool(o.buf, *value)
	}
}

func (o *object) float(name string, value *float64) {
	if value == nil || !o.want(name) {
		return
	}
	if math.IsNaN(*value) || math.IsInf(*value, 0) {
		o.fail(fmt.Errorf("%s is %v, want a finite number", name, *value))
		return
	}
	o.buf = strconv.AppendFloat(o.buf, *value, 'g', -1, 64)
}

func (o *object) strings(list []string) {
	o.buf = append(o.buf, '[')
	for i, s := range list {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = appendString(o.buf, s)
	}
	o.buf = append(o.buf, ']')
}

// raw writes raw JSON; errors use name for it.
func (o *object) raw(name string, value json.RawMessage) {
	buf, err := appendRaw(o.buf, value)
	if err != nil {
		o.fail(fmt.Errorf("%s is not valid JSON: %w", name, err))
		return
	}
	o.buf = buf
}

// extra writes the members of m in a fixed order, so that equal requests are
// equal bytes and prefix caches see them as such.
func (o *object) extra(m map[string]json.RawMessage, except ...string) {
	if len(m) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if len(m[name]) > 0 && !slices.Contains(except, name) && !o.omits(name) {
			o.key(name)
			o.raw(name, m[name])
		}
	}
}

func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// open begins an object within o, and close ends it, as element i of the
// list with the given name. In between o is not used.
func (o *object) open(extra map[string]json.RawMessage, of level, kind string) object {
	return object{buf: append(o.buf, '{'), taken: extra, form: o.form, of: of, kind: kind}
}

func (o *object) close(in *object, extra map[string]json.RawMessage, list string, i int) {
	in.taken = nil
	in.extra(extra)
	o.buf = append(in.buf, '}')
	if in.err != nil {
		o.fail(fmt.Errorf("%s[%d].%w", list, i, in.err))
	}
}

// appendRaw appends raw JSON without the space around its tokens: a body or an
// event has it on one line. Bytes that are not UTF-8 become U+FFFD, and so do
// escapes that are half of a character: some servers refuse every request with one.
func appendRaw(dst []byte, raw json.RawMessage) ([]byte, error) {
	c := cursor{data: raw}
	err := c.skip()
	if err == nil {
		err = c.end()
	}
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("cut short at byte %d", len(raw))
		}
		return nil, err
	}
	start, quoted := 0, false
	valid := utf8.Valid(raw)
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			n, half := escapeAt(raw, i)
			if half {
				dst = append(append(dst, raw[start:i]...), wholeEscape...)
				start = i + n
			}
			i += n - 1
		case b == '"':
			quoted = !quoted
		case !quoted && isSpace(b):
			dst = append(dst, raw[start:i]...)
			start = i + 1
		case !valid && b >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, raw[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size - 1
		}
	}
	return append(dst, raw[start:]...), nil
}
