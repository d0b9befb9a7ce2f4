package chat

import (
	"bytes"
	"encoding/json"
)

const logprobsKey = "logprobs"

// logprobs joins the log probabilities of a stream: two lists, one of the
// content's tokens and one of the refusal's.
type logprobs struct {
	content, refusal []byte // the lists' elements
	some             bool
}

// add appends the lists of one chunk. It reports false if raw is to be kept as
// it is: because it has another form, or is whole.
func (a *logprobs) add(raw json.RawMessage, whole bool) bool {
	if whole {
		*a = logprobs{}
		return false
	}
	var content, refusal []byte
	c := cursor{data: raw}
	if k, err := c.kind(); err != nil || k != '{' {
		return false
	}
	known := true
	err := c.members(func(key []byte) error {
		value, err := c.raw()
		switch {
		case string(key) == "content":
			content = value
		case string(key) == "refusal":
			refusal = value
		default:
			known = false
		}
		return err
	})
	if err != nil || !known || !isList(content) || !isList(refusal) {
		return false
	}
	a.some = true
	a.content = appendElements(a.content, content)
	a.refusal = appendElements(a.refusal, refusal)
	return true
}

// isList reports whether raw is a list, or says nothing.
func isList(raw []byte) bool { return !says(raw) || raw[0] == '[' }

func appendElements(to, list []byte) []byte {
	if !says(list) {
		return to
	}
	if len(to) > 0 {
		to = append(to, ',')
	}
	return append(to, bytes.TrimSpace(list[1:len(list)-1])...)
}

// json returns the lists in the form of a plain answer, or nil.
func (a *logprobs) json() json.RawMessage {
	if !a.some {
		return nil
	}
	buf := appendList([]byte(`{"content":`), a.content)
	return append(appendList(append(buf, `,"refusal":`...), a.refusal), '}')
}

func appendList(buf, elements []byte) []byte {
	if len(elements) == 0 {
		return append(buf, "null"...)
	}
	return append(append(append(buf, '['), elements...), ']')
}
