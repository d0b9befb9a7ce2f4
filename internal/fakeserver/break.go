package fakeserver

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Pause waits. The client's leaving ends it early.
func Pause(d time.Duration) Step {
	return Step{"pause(" + d.String() + ")", func(t *turn) error { return t.sleep(d) }}
}

// Deaf waits too, but does not notice that the client leaves: a server that
// generates on for nobody. Only Close ends it early.
func Deaf(d time.Duration) Step {
	return Step{"deaf(" + d.String() + ")", func(t *turn) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return t.alive()
		case <-t.srv.ctx.Done():
			return errGone
		}
	}}
}

// Hang says nothing more, until the client goes away.
func Hang() Step {
	return Step{"hang", func(t *turn) error {
		<-t.ctx.Done()
		return errGone
	}}
}

// Reset breaks the connection with a reset.
func Reset() Step {
	return Step{"reset", func(t *turn) error {
		t.conn.reset()
		return errBroken
	}}
}

// Cut ends the body cleanly, here and now. A plain answer is cut in half, and
// its length says that this was all.
func Cut() Step {
	return Step{"cut", func(t *turn) error {
		if t.plain && t.said {
			b := t.encodeWhole()
			if err := t.body(typeJSON, b[:len(b)/2]); err != nil {
				return err
			}
			return errOver
		}
		if err := t.finish(); err != nil {
			return err
		}
		return errOver
	}}
}

// Abrupt closes the connection in the middle of a chunk of the body.
func Abrupt() Step {
	return Step{"abrupt", func(t *turn) error {
		half := `data: {"choices":[{"index":0,"delta":{"conte`
		switch {
		case t.plain:
			b := t.encodeWhole()
			t.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			if err := t.write1(typeJSON, string(b[:len(b)/2])); err != nil {
				return err
			}
		case t.req.Proto == "HTTP/1.1":
			if err := t.begin(typeStream); err != nil {
				return err
			}
			// Below net/http, which writes whole chunks only.
			if _, err := t.conn.Write([]byte(strconv.FormatInt(int64(len(half)+40), 16) + "\r\n" + half)); err != nil {
				return errGone
			}
		default:
			if err := t.write1(typeStream, half); err != nil {
				return err
			}
			return errBroken // on HTTP/2 this ends the stream only
		}
		_ = t.conn.Close()
		return errBroken
	}}
}

// Short sends a body under a Content-Length that promises more, and closes.
func Short(body string) Step {
	return Step{"short(" + short(body) + ")", func(t *turn) error {
		if !t.begun {
			t.w.Header().Set("Content-Length", strconv.Itoa(len(body)+100))
		}
		kind := typeStream
		if t.plain {
			kind = typeJSON
		}
		if err := t.write1(kind, body); err != nil {
			return err
		}
		return errBroken
	}}
}

// Malformed sends an event whose JSON is broken, as it comes from a proxy
// that cuts at the wrong place.
func Malformed() Step {
	return Step{"malformed", Chunk(`{"choices":[{"index":0,"delta":{"content":"oo`).run}
}

// Bomb answers with a compressed body that has size bytes once unpacked.
func Bomb(size int) Step {
	return Step{"bomb(" + strconv.Itoa(size) + ")", func(t *turn) error {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, `data: {"choices":[{"index":0,"delta":{"content":"`)
		block := bytes.Repeat([]byte("x"), 64<<10)
		for left := size; left > 0; left -= len(block) {
			_, _ = z.Write(block[:min(left, len(block))])
		}
		_, _ = io.WriteString(z, "\"}}]}\n\n")
		_ = z.Close()
		t.w.Header().Set("Content-Encoding", "gzip")
		return t.write1(typeStream, b.String())
	}}
}

// An ErrorForm is a way in which servers report a failure inside a 200.
type ErrorForm string

// The forms of an error inside a 200.
const (
	ErrorOpenAI    ErrorForm = "openai"    // {"error":{…}}, then [DONE]
	ErrorFlat      ErrorForm = "flat"      // {"object":"error",…}, then [DONE]
	ErrorNamed     ErrorForm = "named"     // SGLang: the type is the status's name
	ErrorChoice    ErrorForm = "choice"    // OpenRouter: beside a choice that finishes with error
	ErrorAnthropic ErrorForm = "anthropic" // event: error
	ErrorText      ErrorForm = "text"      // {"error":"…"}
	ErrorLine      ErrorForm = "line"      // old llama.cpp: a line error: {…}, which is no event
)

// ErrorForms returns all forms.
func ErrorForms() []ErrorForm {
	return []ErrorForm{ErrorOpenAI, ErrorFlat, ErrorNamed, ErrorChoice, ErrorAnthropic, ErrorText, ErrorLine}
}

// ErrorInside reports a failure inside the stream, in place of the rest of
// the answer. A plain answer is the error alone. What follows in the reply is
// still sent.
func ErrorInside(form ErrorForm, status int, message string) Step {
	return Step{"error-inside(" + string(form) + " " + strconv.Itoa(status) + ")", func(t *turn) error {
		object := func(kind any, code any) map[string]any {
			return map[string]any{"message": message, "type": kind, "param": nil, "code": code}
		}
		nested := func(kind string) string {
			return string(encode(map[string]any{"error": object(kind, status)}))
		}
		if t.plain {
			t.said = false
			return t.write1(typeJSON, nested("server_error"))
		}
		const end = "\n\ndata: [DONE]\n\n"
		switch form {
		case ErrorFlat:
			flat := object("server_error", status)
			flat["object"] = "error"
			return t.event("data: " + string(encode(flat)) + end)
		case ErrorNamed:
			return t.event("data: " + nested(statusName(status)) + "\n\n")
		case ErrorChoice:
			obj := t.envelope("chat.completion.chunk")
			obj["error"] = map[string]any{"code": status, "message": message}
			obj["choices"] = []any{map[string]any{
				"index": 0, "delta": map[string]any{"content": ""}, "finish_reason": "error",
			}}
			return t.event("data: " + string(encode(obj)) + "\n\n")
		case ErrorAnthropic:
			data := encode(map[string]any{"type": "error", "error": map[string]any{
				"type": "overloaded_error", "message": message,
			}})
			return t.event("event: error\ndata: " + string(data) + "\n\n")
		case ErrorText:
			return t.event("data: " + string(encode(map[string]any{"error": message})) + "\n\n")
		case ErrorLine:
			return t.event("error: " + string(encode(object("server_error", status))) + end)
		default:
			return t.event("data: " + nested("server_error") + end)
		}
	}}
}

// statusName returns the name of a status as SGLang spells it, such as
// SERVICE_UNAVAILABLE.
func statusName(status int) string {
	b := []byte(http.StatusText(status))
	for i, c := range b {
		switch {
		case c >= 'a' && c <= 'z':
			b[i] = c - 'a' + 'A'
		case c == ' ' || c == '-':
			b[i] = '_'
		}
	}
	return string(b)
}
