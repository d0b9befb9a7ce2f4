package chat

import (
	"bytes"
	"errors"
)

// says reports whether raw JSON has content: it is not null, false or empty.
func says(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return false
	}
	if raw[0] != '{' && raw[0] != '[' {
		return true
	}
	return len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0
}

// saysWithin is says that looks into objects and lists: {"message":null,"code":0} has
// no content. Members for which label is true do not count; label may be nil.
func saysWithin(raw []byte, label func(key []byte) bool) bool {
	c := cursor{data: raw}
	return c.saysWithin(label)
}

var errSaid = errors.New("it says something")

func (c *cursor) saysWithin(label func(key []byte) bool) bool {
	value := func() error {
		if c.saysWithin(label) {
			return errSaid // the rest makes no difference
		}
		return nil
	}
	k, err := c.kind()
	if err != nil {
		return false
	}
	switch k {
	case '{':
		err = c.members(func(key []byte) error {
			if label != nil && label(key) {
				return c.skip()
			}
			return value()
		})
	case '[':
		err = c.elements(func(int) error { return value() })
	default:
		var raw []byte
		raw, err = c.raw()
		return err == nil && says(raw)
	}
	return err == errSaid
}

// replaces reports whether a value can replace an earlier one: they are equal, or the
// later begins with the earlier, or neither is a text or a list. Otherwise they are
// pieces. It compares the members of objects, down to the given number of levels.
func replaces(raw, old []byte, levels int) bool {
	if levels == 0 || len(raw) == 0 || len(old) == 0 || raw[0] != old[0] || bytes.Equal(raw, old) {
		return true
	}
	switch raw[0] {
	case '"', '[':
		return bytes.HasPrefix(raw, bytes.TrimSpace(old[:len(old)-1]))
	case '{':
		had := membersOf(old)
		for name, value := range membersOf(raw) {
			if before, there := had[name]; there && !replaces(value, before, levels-1) {
				return false
			}
		}
	}
	return true
}

// membersOf returns the members of an object.
func membersOf(raw []byte) map[string][]byte {
	all := make(map[string][]byte)
	c := cursor{data: raw}
	_ = c.object(func(key []byte) (err error) {
		all[string(key)], err = c.raw()
		return err
	})
	return all
}
