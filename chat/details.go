package chat

import (
	"bytes"
	"encoding/json"
)

// The fields in which OpenRouter and LiteLLM send reasoning in its original form,
// signed or encrypted. They expect it back unchanged, in the form of a plain answer.
const (
	detailsKey = "reasoning_details"
	blocksKey  = "thinking_blocks"
)

// details joins such a field of a stream. A block of text comes in many pieces, and the
// signature of the whole text in the last one. The index does not tell blocks apart,
// since it may be 0 for all: a piece continues the block before it if both are of the
// same type.
//
// Only the last block can be continued. Those before it are kept as JSON text, so that
// a list of many small ones takes no more than its bytes.
type details struct {
	before []byte // the blocks before the last, as the elements of a list
	last   detail
	some   bool // there is a last one
}

// detail is one block.
type detail struct {
	raw    json.RawMessage // as it came; nil once more was joined to it
	kind   string
	index  string
	id     string
	signed bool
	text   []byte                     // loose
	rest   map[string]json.RawMessage // other members, once more was joined
}

// add appends a list of pieces. It reports false if raw is to be kept as it is,
// because it is no list or is whole.
func (a *details) add(raw json.RawMessage, whole bool) bool {
	if whole {
		*a = details{}
		return false
	}
	c := cursor{data: raw}
	if k, err := c.kind(); err != nil || k != '[' {
		return false
	}
	return c.elements(func(int) error {
		raw, err := c.raw()
		if err != nil {
			return err
		}
		d := readDetail(raw)
		switch {
		case a.some && a.last.takes(&d):
			a.last.join(&d)
			return nil
		case a.some:
			a.before = a.last.append(a.before)
		}
		a.last, a.some = d, true
		return nil
	}) == nil
}

func readDetail(raw json.RawMessage) detail {
	d := detail{raw: raw}
	c := cursor{data: raw}
	label := func() (string, error) {
		raw, err := c.raw()
		if string(raw) == "null" {
			return "", err
		}
		return string(raw), err
	}
	_ = c.object(func(key []byte) (err error) {
		switch string(key) {
		case "type":
			d.kind, err = c.text()
		case "text", "summary", "thinking":
			var s []byte
			s, _, err = c.looseBytes()
			d.text = append(d.text, s...)
		case "index":
			d.index, err = label()
		case "id":
			d.id, err = label()
		case "signature":
			var sig string
			sig, err = label()
			d.signed = sig != ""
		default:
			err = c.skip()
		}
		return err
	})
	return d
}

// takes reports whether the piece p continues the block d.
func (d *detail) takes(p *detail) bool {
	return d.textKey() != "" && p.kind == d.kind && p.index == d.index &&
		(p.id == "" || d.id == "" || p.id == d.id) &&
		(!d.signed || len(p.text) == 0)
}

// textKey returns the member that holds the block's text, or "" if it is not
// one of text.
func (d *detail) textKey() string {
	switch d.kind {
	case "reasoning.text":
		return "text"
	case "reasoning.summary":
		return "summary"
	case "thinking":
		return "thinking"
	}
	return ""
}

func (d *detail) join(p *detail) {
	if d.raw != nil {
		d.others(d.raw)
		d.raw = nil
	}
	d.others(p.raw)
	d.text = append(d.text, p.text...)
	d.id, d.signed = firstOf(d.id, p.id), d.signed || p.signed
}

// others keeps the members that are not the block's text; members that are there
// already are not replaced.
func (d *detail) others(raw json.RawMessage) {
	c := cursor{data: raw}
	_ = c.object(func(key []byte) error {
		switch string(key) {
		case "type", "text", "summary", "thinking":
			return c.skip()
		}
		if _, there := d.rest[string(key)]; there {
			return c.skip()
		}
		return put(&c, &d.rest, key)
	})
}

// append writes the block as a further element of a list.
func (d *detail) append(list []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	if d.raw != nil {
		return append(list, d.raw...)
	}
	o := object{buf: append(list, '{')}
	o.str("type", d.kind)
	o.key(d.textKey())
	text, _ := tidy(string(d.text))
	o.buf = appendString(o.buf, text)
	o.extra(d.rest)
	return append(o.buf, '}')
}

// json returns the list, or nil if there is none.
func (a *details) json() json.RawMessage {
	if !a.some {
		return nil
	}
	list := a.last.append(bytes.Clone(a.before))
	return append(append([]byte{'['}, list...), ']')
}

// detailsText returns what a person can read of the details.
func detailsText(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '[' {
		return ""
	}
	return joined(raw)
}
