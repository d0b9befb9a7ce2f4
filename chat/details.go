package chat

import "encoding/json"

// The fields in which OpenRouter and LiteLLM have reasoning in its original
// form, signed or encrypted. They want it back unchanged, in the form that a
// plain answer has.
const (
	detailsKey = "reasoning_details"
	blocksKey  = "thinking_blocks"
)

// details joins such a field of a stream. There one block of text comes in
// many pieces, and its signature, which holds for the whole text, in a last
// one. Blocks cannot be told apart by their index, which may be 0 for all: a
// piece continues the block before it if both are of the same type.
type details struct {
	list []detail
}

// detail is one block.
type detail struct {
	raw    json.RawMessage // as it came; nil once more was joined to it
	kind   string
	index  string
	id     string
	signed bool
	text   []byte
	rest   map[string]json.RawMessage // other members
}

// add appends a list of pieces. It reports false if raw is to be kept as it is:
// because it is no list, or whole.
func (a *details) add(raw json.RawMessage, whole bool) bool {
	if whole {
		a.list = nil
		return false
	}
	c := cursor{data: raw}
	if k, err := c.kind(); err != nil || k != '[' {
		return false
	}
	return c.elements(func(int) error {
		c.space()
		start := c.pos
		d, err := readDetail(&c)
		if err != nil {
			return err
		}
		if n := len(a.list); n > 0 && a.list[n-1].takes(&d) {
			a.list[n-1].join(&d)
			return nil
		}
		d.raw = c.data[start:c.pos]
		a.list = append(a.list, d)
		return nil
	}) == nil
}

func readDetail(c *cursor) (detail, error) {
	var d detail
	err := c.object(func(key []byte) (err error) {
		switch string(key) {
		case "type":
			d.kind, err = c.text()
		case "text", "summary", "thinking":
			var s []byte
			s, err = c.bytes()
			d.text = append(d.text, s...)
		default:
			if err = put(c, &d.rest, key); err == nil {
				switch string(key) {
				case "index":
					d.index = string(d.rest["index"])
				case "id":
					d.id = string(d.rest["id"])
				case "signature":
					d.signed = d.rest["signature"] != nil
				}
			}
		}
		return err
	})
	return d, err
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
	d.raw = nil
	d.text = append(d.text, p.text...)
	d.id, d.signed = firstOf(d.id, p.id), d.signed || p.signed
	for name, raw := range p.rest {
		if _, there := d.rest[name]; !there {
			set(&d.rest, name, raw)
		}
	}
}

// json returns the list, or nil if there is none.
func (a *details) json() json.RawMessage {
	if len(a.list) == 0 {
		return nil
	}
	buf := []byte{'['}
	for i := range a.list {
		if i > 0 {
			buf = append(buf, ',')
		}
		d := &a.list[i]
		if d.raw != nil {
			buf = append(buf, d.raw...)
			continue
		}
		o := object{buf: append(buf, '{')}
		o.str("type", d.kind)
		o.key(d.textKey())
		o.buf = appendString(o.buf, string(d.text))
		o.extra(d.rest)
		buf = append(o.buf, '}')
	}
	return append(buf, ']')
}

// detailsText returns what a person can read of the details.
func detailsText(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '[' {
		return ""
	}
	return joined(raw)
}
