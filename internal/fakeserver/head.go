package fakeserver

import (
	"net/http"
	"strconv"
	"time"
)

// Header sets a header of the reply. An empty value keeps net/http from
// adding the header by itself. It has no effect once the headers are sent.
func Header(key, value string) Step {
	return Step{"header(" + key + ": " + value + ")", func(t *turn) error {
		if value == "" {
			t.w.Header()[http.CanonicalHeaderKey(key)] = nil
		} else {
			t.w.Header().Set(key, value)
		}
		return nil
	}}
}

// Code sets the status for headers that a later step sends.
func Code(status int) Step {
	status = validStatus(status)
	return Step{"code(" + strconv.Itoa(status) + ")", func(t *turn) error {
		t.code = status
		return nil
	}}
}

// Headers sends the headers now and nothing else.
func Headers() Step {
	return Step{"headers", func(t *turn) error {
		if t.plain {
			return t.begin(typeJSON)
		}
		return t.begin(typeStream)
	}}
}

// Status answers with a status and a body: JSON if it looks like it, else
// plain text. The reply is over with it.
func Status(status int, body string) Step {
	status = validStatus(status)
	return Step{"status(" + strconv.Itoa(status) + ")", func(t *turn) error {
		kind := "text/plain; charset=utf-8"
		if body != "" && (body[0] == '{' || body[0] == '[') {
			kind = typeJSON
		}
		return t.answer(status, kind, []byte(body))
	}}
}

// Error answers with a status and an error as OpenAI words it. An empty code
// is sent as null.
func Error(status int, kind, code, message string) Step {
	return Step{"error(" + strconv.Itoa(validStatus(status)) + " " + kind + ")", func(t *turn) error {
		return t.answer(validStatus(status), typeJSON, encode(map[string]any{
			"error": map[string]any{"message": message, "type": kind, "param": nil, "code": orNull(code)},
		}))
	}}
}

// answer sends a whole answer, which ends the reply.
func (t *turn) answer(status int, kind string, body []byte) error {
	t.code = status
	if err := t.body(kind, body); err != nil {
		return err
	}
	return errOver
}

// JSON answers 200 with the JSON given, valid or not.
func JSON(body string) Step {
	return Step{"json(" + short(body) + ")", func(t *turn) error {
		return t.answer(http.StatusOK, typeJSON, []byte(body))
	}}
}

// HTML answers 200 with a web page, as a proxy in trouble does.
func HTML() Step {
	return Step{"html", func(t *turn) error {
		return t.answer(http.StatusOK, typeHTML,
			[]byte("<!DOCTYPE html>\n<html><head><title>Busy</title></head><body><h1>Please try again later</h1></body></html>\n"))
	}}
}

// ModelList is the healthy answer to a request for the list of models.
func ModelList() Step {
	return Step{"models", func(t *turn) error {
		return t.answer(http.StatusOK, typeJSON,
			[]byte(`{"object":"list","data":[{"id":"fake-model","object":"model","created":0,"owned_by":"fakeserver"}]}`))
	}}
}

// Throttled answers 429 with a throttle's usual error. Put a step before it
// that says when to come back, if any.
func Throttled() Step {
	return Error(http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached. Please try again later.")
}

// OutOfQuota answers 429 with the error of an account that is used up.
func OutOfQuota() Step {
	return Error(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "You exceeded your current quota.")
}

// Unavailable answers 503.
func Unavailable() Step {
	return Error(http.StatusServiceUnavailable, "server_error", "", "The server is overloaded or not ready yet.")
}

// RetryAfter sets Retry-After to seconds, with a fraction if d has one. A
// negative d is sent as it is.
func RetryAfter(d time.Duration) Step {
	return Header("Retry-After", strconv.FormatFloat(d.Seconds(), 'f', -1, 64))
}

// RetryAfterMs sets Retry-After-Ms.
func RetryAfterMs(d time.Duration) Step {
	return Header("Retry-After-Ms", strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64))
}

// RetryAfterDate sets Retry-After to the date that is d from the time of the
// reply; a negative d makes it a date in the past. HTTP dates are in whole
// seconds: fractions are cut off.
func RetryAfterDate(d time.Duration) Step {
	return Step{"header(Retry-After: date " + d.String() + ")", func(t *turn) error {
		t.w.Header().Set("Retry-After", time.Now().Add(d).UTC().Format(http.TimeFormat))
		return nil
	}}
}

// validStatus keeps a status to what can be sent: 200 to 599.
func validStatus(status int) int {
	if status < 200 || status > 599 {
		return http.StatusInternalServerError
	}
	return status
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
