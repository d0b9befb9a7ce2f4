package chat

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A ServerError is a failure as a server words it, in the body of an error
// status or in the middle of an answer.
type ServerError struct {
	// Message is the server's text for people. It is empty if there is none: the JSON
	// of the error is never used instead, since it may repeat the request.
	Message string
	Type    string
	Code    string // even if the server wrote a number
	Param   string

	// Status is the HTTP status that the error itself states, mostly because the real
	// one was 200: by number, or by a type or code that stands for one status only. 0
	// if it states none.
	Status int

	// Raw is the whole error as it came. Be careful where you show it: validation
	// errors repeat the request.
	Raw json.RawMessage
}

// ParseError finds the error in a JSON body or event: under "error" as an
// object or a string, flat with "object":"error" or "type":"error", under
// "errors", "err", "errorMessage", "detail", "message" or "base_resp", under
// the name of an exception as AWS has them, in the first choice or its delta,
// in the "response" of an event, alone or as the first element of a list, and even
// within a JSON string. It returns nil if the text reports no error, or one whose
// members are all empty.
func ParseError(data []byte) *ServerError {
	e := parseError(data, 0)
	if e != nil {
		e.finish(data)
	}
	return e
}

// maxWraps bounds how often an error may be wrapped in lists, strings and
// other errors. Each wrap is read once more.
const maxWraps = 4

func parseError(data []byte, wraps int) *ServerError {
	c := cursor{data: data}
	k, err := c.kind()
	if err != nil || wraps > maxWraps {
		return nil
	}
	switch k {
	case '{':
		return parseErrorObject(&c, wraps)
	case '[':
		var first []byte
		err = c.elements(func(i int) error {
			raw, err := c.raw()
			if i == 0 {
				first = raw
			}
			return err
		})
		if err == nil && c.end() == nil {
			return parseError(first, wraps+1)
		}
	case '"':
		if s, err := c.bytes(); err == nil && c.end() == nil {
			return parseError(s, wraps+1)
		}
	}
	return nil
}

func parseErrorObject(c *cursor, wraps int) *ServerError {
	var nested, detail, list, base, within, named []byte
	var name string // of an exception
	var kind string // beside the error, as TGI has it
	var title string
	var flat ServerError
	var marked, answer bool
	err := c.members(func(key []byte) (err error) {
		switch string(key) {
		case "error":
			nested, err = c.raw()
		case "errors":
			list, err = c.raw()
		case "detail":
			detail, err = c.raw()
		case "base_resp":
			base, err = c.raw()
		case "choices":
			answer = true
			within, err = choiceError(c)
		case "err":
			named, err = c.raw()
			name = ""
		case "response":
			var raw []byte
			if raw, err = c.raw(); saysWithin(errorWithin(raw), nil) {
				named, name = errorWithin(raw), ""
			}
		case "object":
			var s []byte
			s, err = c.bytes()
			marked = marked || string(s) == "error"
		case "errorType", "error_type":
			var s string
			s, err = c.text()
			flat.Type = firstOf(flat.Type, s)
			kind = firstOf(kind, s)
		case "title": // of a problem, RFC 9457
			title, err = c.text()
		default:
			if isException(key) {
				name = string(key)
				named, err = c.raw()
				break
			}
			err = flat.member(c, key, wraps)
			marked = marked || string(key) == "type" && (flat.Type == "error" || flat.Type == "response.failed")
		}
		return err
	})
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil
	}
	var e *ServerError
	switch {
	case string(nested) == "true":
		flat.Message = firstOf(flat.Message, title)
		return &flat
	case saysWithin(nested, nil):
		e = errorValue(nested, wraps+1)
	case baseFailed(base):
		e = errorValue(base, wraps+1)
	case saysWithin(within, nil):
		e = errorValue(within, wraps+1)
	case answer:
		return nil
	case saysWithin(named, nil):
		e = errorValue(named, wraps+1)
		e.Type = firstOf(e.Type, name)
	case saysWithin(list, nil):
		e = errorValue(list, wraps+1)
	case marked || flat.Message != "":
		if flat.Message == "" {
			flat.Message = words(detail, wraps)
		}
		return &flat
	case saysWithin(detail, nil):
		e = errorValue(detail, wraps+1)
	case title != "" && flat.Status != 0:
		flat.Message = title
		return &flat
	default:
		return nil
	}
	e.fill(&flat)
	e.Type = firstOf(e.Type, kind)
	return e
}

// isException reports whether a member is named like AWS's exceptions, of which
// an event of Bedrock is one: {"throttlingException":{"message":…}}.
func isException(key []byte) bool { return bytes.HasSuffix(key, []byte("Exception")) }

// choiceError returns the error that the first choice or its delta has in the
// place of an answer, if any.
func choiceError(c *cursor) (found []byte, err error) {
	member := func(key []byte) error {
		raw, err := c.raw()
		switch {
		case string(key) == "delta":
			raw = errorWithin(raw)
		case string(key) != "error":
			return err
		}
		if saysWithin(raw, nil) {
			found = raw
		}
		return err
	}
	if k, err := c.kind(); err != nil || k != '[' {
		return found, c.object(member)
	}
	err = c.elements(func(i int) error {
		if i > 0 {
			return c.skip()
		}
		return c.object(member)
	})
	return found, err
}

// errorWithin returns the error member of an object, or nil.
func errorWithin(raw []byte) (found []byte) {
	c := cursor{data: raw}
	_ = c.object(func(key []byte) (err error) {
		if string(key) == "error" {
			found, err = c.raw()
			return err
		}
		return c.skip()
	})
	return found
}

// fill takes fields that e lacks from the object around it.
func (e *ServerError) fill(outer *ServerError) {
	e.Message = firstOf(e.Message, outer.Message)
	e.Code = firstOf(e.Code, outer.Code)
	if e.Status == 0 {
		e.Status = outer.Status
	}
}

// finish makes e a whole error, of which raw is the text.
func (e *ServerError) finish(raw []byte) {
	raw = bytes.TrimSpace(raw)
	e.Raw = bytes.Clone(raw)
	e.Status = statusOf(e)
}

// baseFailed reports whether MiniMax's base_resp is one of a failure.
func baseFailed(raw []byte) bool {
	failed := false
	c := cursor{data: raw}
	_ = c.object(func(key []byte) error {
		if string(key) != "status_code" {
			return c.skip()
		}
		n, ok, err := c.integer()
		failed = ok && n != 0
		return err
	})
	return failed
}

// errorValue reads the value of an error member, valid JSON.
func errorValue(raw []byte, wraps int) *ServerError {
	c := cursor{data: raw}
	k, _ := c.kind()
	switch {
	case k == '"':
		s, _ := c.text()
		text := []byte(s)
		if !isJSON(text) {
			return &ServerError{Message: s}
		}
		if wraps < maxWraps {
			return errorValue(text, wraps+1) // some proxies put a JSON error into a string
		}
	case k == '{' && wraps <= maxWraps:
		return errorObject(&c, wraps)
	case k == '[' && wraps <= maxWraps:
		return errorList(&c, wraps)
	case k != '{' && k != '[':
		s, _ := c.scalar()
		return &ServerError{Message: s}
	}
	return &ServerError{}
}

func errorObject(c *cursor, wraps int) *ServerError {
	e := &ServerError{}
	var inner, detail []byte
	_ = c.members(func(key []byte) (err error) {
		switch string(key) {
		case "error":
			inner, err = c.raw()
		case "detail", "errors":
			detail, err = c.raw()
		case "metadata":
			err = e.metadata(c)
		default:
			err = e.member(c, key, wraps)
		}
		return err
	})
	switch {
	case saysWithin(inner, nil):
		in := errorValue(inner, wraps+1)
		in.fill(e)
		return in
	case e.Message == "" && saysWithin(detail, nil):
		in := errorValue(detail, wraps+1)
		e.fill(in)
		e.Type = firstOf(e.Type, in.Type)
	}
	return e
}

// isJSON reports whether text is an object, a list or a string, as JSON.
func isJSON(text []byte) bool {
	c := cursor{data: text}
	k, err := c.kind()
	return err == nil && (k == '{' || k == '[' || k == '"') && c.skip() == nil && c.end() == nil
}

// words returns the text for people in a value.
func words(raw []byte, wraps int) string {
	if !saysWithin(raw, nil) {
		return ""
	}
	return errorValue(raw, wraps+1).Message
}

// errorList reads several errors: the first one's kind, the messages of all.
// FastAPI lists what it did not like: [{"loc":…,"msg":…}].
func errorList(c *cursor, wraps int) *ServerError {
	e := &ServerError{}
	var all []string
	_ = c.elements(func(i int) error {
		raw, err := c.raw()
		if err != nil {
			return err
		}
		in := errorValue(raw, wraps+1)
		if i == 0 {
			e.Type, e.Code, e.Param, e.Status = in.Type, in.Code, in.Param, in.Status
		}
		if in.Message != "" {
			all = append(all, in.Message)
		}
		return nil
	})
	e.Message = strings.Join(all, "; ")
	return e
}

// metadata looks for the kind of error in OpenRouter's metadata.
func (e *ServerError) metadata(c *cursor) error {
	return c.object(func(key []byte) error {
		if string(key) != "error_type" {
			return c.skip()
		}
		s, err := c.text()
		e.Type = firstOf(e.Type, s)
		return err
	})
}

func (e *ServerError) member(c *cursor, key []byte, wraps int) (err error) {
	var s string
	switch string(key) {
	case "message", "msg", "status_msg", "errorMessage", "Message":
		var raw []byte
		if raw, err = c.raw(); err == nil && e.Message == "" {
			e.Message = words(raw, wraps)
		}
	case "type":
		if s, err = c.scalar(); s != "" {
			e.Type = s
		}
	case "__type": // AWS, with the name of a schema before it at times
		if s, err = c.text(); s != "" {
			e.Type = s[strings.LastIndexByte(s, '#')+1:]
		}
	case "code", "error_code":
		s, err = c.scalar()
		e.Code = firstOf(s, e.Code)
	case "param":
		e.Param, err = c.scalar()
	case "status", "status_code", "statusCode", "originalStatusCode":
		if s, err = c.scalar(); s == "" {
			return err
		}
		n, bad := strconv.Atoi(s)
		switch {
		case bad != nil:
			e.Type = firstOf(e.Type, s) // Google: "status":"RESOURCE_EXHAUSTED"
		case isStatus(n):
			e.Status = n
		default:
			e.Code = firstOf(e.Code, s) // MiniMax: "status_code":1008
		}
	default:
		err = c.skip()
	}
	return err
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
