package llmclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
)

// describe writes the error's text: what happened, where, and what to do.
func (a *attempt) describe(e *Error, m *meter) {
	cl := a.call
	host := cl.at.ep.host
	if said := a.out.server; said != nil {
		redact := cl.at.redact
		e.Code = bounded(redact(said.Code), 100)
		if e.Code == "" {
			e.Code = bounded(redact(said.Type), 100)
		}
		e.Message = bounded(redact(said.Message), 300)
	}
	e.RequestID = cl.at.redact(requestID(a.out.header))
	switch {
	case e.Clock != "":
		e.text = a.expiryText(e, m)
	case a.out.inside:
		e.text = fmt.Sprintf("the endpoint reported an error inside its answer%s", saying(e))
		e.text += advice(e, cl)
	case a.out.err == nil:
		e.text = a.statusText(e)
	default:
		e.text = a.failureText(e, host)
	}
	e.text = cl.at.redact(e.text)
}

// expiryText describes a clock that ran out.
func (a *attempt) expiryText(e *Error, m *meter) string {
	host := a.at.ep.host
	var text string
	switch e.Clock {
	case ClockConnect:
		text = fmt.Sprintf("no connection to %s within %v; is the address right, and does a firewall drop it?", host, e.Bound)
	case ClockSend:
		text = fmt.Sprintf("%s has not read on in the request for %v", host, e.Bound)
	case ClockFirstOutput:
		text = fmt.Sprintf("%s took the request and gave no output for %v", host, e.Bound)
		switch {
		case m.pings > 0:
			text += fmt.Sprintf(", only %d pings", m.pings)
		case a.out.status != 0:
			text += fmt.Sprintf(", only the head of an answer (status %d)", a.out.status)
		default:
			text += ", not even the head of an answer"
		}
	case ClockGap:
		text = fmt.Sprintf("the answer stopped: no output for %v, after %d pieces", e.Bound, m.outputs)
		if m.pings > 0 {
			text += fmt.Sprintf(", only %d pings", m.pings)
		}
	case ClockSilence:
		text = fmt.Sprintf("%s went silent: not a byte for %v", host, e.Bound)
	case ClockAttempt:
		text = fmt.Sprintf("no whole answer from %s within %v", host, e.Bound)
	case ClockCall:
		text = fmt.Sprintf("no answer from %s within %v, the last of it in phase %s", host, e.Bound, e.Phase)
	default:
		text = fmt.Sprintf("waited %v", e.Bound)
	}
	if e.Evidence != "" {
		text += ", and " + e.Evidence
	}
	return text + " (clock " + string(e.Clock) + ")"
}

// statusText describes an error status.
func (a *attempt) statusText(e *Error) string {
	cl := a.call
	if e.Status >= 300 && e.Status < 400 {
		return fmt.Sprintf("%s redirects elsewhere (status %d%s), and neither key nor prompt follows; set BaseURL to where the model is",
			cl.at.ep.name, e.Status, location(a.out.header))
	}
	return fmt.Sprintf("%s answered %d%s%s%s", cl.at.ep.name, e.Status, name(e.Status), saying(e), advice(e, cl))
}

// advice says how to fix a refusal.
func advice(e *Error, cl *call) string {
	switch e.Kind {
	case ErrAuth:
		switch {
		case e.Status == http.StatusProxyAuthRequired:
			return "; it is a proxy on the way that wants a name and a password: put them into its URL"
		case cl.passed != nil:
			return "; check the key that the SDK sends, and what it may do"
		case !cl.at.ep.secrets.keyed:
			return "; no key was sent: set APIKey"
		}
		return "; check APIKey, and what it may do"
	case ErrNotFound:
		words := strings.ToLower(e.Message + " " + e.Code)
		if strings.Contains(words, "model") {
			return fmt.Sprintf("; check the model's name, %q: GET %s/models lists what there is", cl.at.model, cl.at.ep.base)
		}
		return "; check BaseURL: it is the part before /chat/completions, mostly ending in /v1"
	case ErrQuota:
		return "; the account has nothing left, and trying again does not help"
	case ErrContextLength:
		return "; shorten the conversation"
	}
	return ""
}

// failureText describes exchanges and answers that broke.
func (a *attempt) failureText(e *Error, host string) string {
	var bad *badAnswer
	var large *sse.TooLargeError
	var runaway *runawayError
	var body *bodyError
	err := a.out.err
	limits := a.call.client.cfg.Limits
	switch {
	case errors.As(err, &body):
		return body.Error()
	case errors.As(err, &bad):
		return bad.text
	case errors.As(err, &large):
		return fmt.Sprintf("one event of the answer is larger than %d bytes (Limits.EventBytes)", limits.EventBytes)
	case errors.Is(err, errAnswerTooLarge):
		return fmt.Sprintf("the answer is larger than %d bytes (Limits.AnswerBytes)", limits.AnswerBytes)
	case errors.Is(err, errTooManyCalls):
		return fmt.Sprintf("the answer calls more than %d tools", chat.MaxToolCalls)
	case errors.As(err, &runaway):
		return runaway.text
	}
	if given := a.call.client.cfg.HTTPClient; given != nil && given.Timeout > 0 {
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			return fmt.Sprintf("HTTPClient.Timeout of %v ended the exchange with %s; leave it zero and set Clocks", given.Timeout, host)
		}
	}
	if e.Kind == ErrIncomplete {
		return "the answer broke off: the connection to " + host + " was lost"
	}
	return netText(err, host)
}

// saying returns the provider's words, to be appended to a statement.
func saying(e *Error) string {
	switch {
	case e.Message != "" && e.Code != "":
		return fmt.Sprintf(": %s (%s)", e.Message, e.Code)
	case e.Message != "":
		return ": " + e.Message
	case e.Code != "":
		return ": " + e.Code
	}
	return ""
}

func name(status int) string {
	if s := http.StatusText(status); s != "" {
		return " " + s
	}
	return ""
}

func location(h http.Header) string {
	if to := h.Get("Location"); to != "" {
		to, _, _ = strings.Cut(to, "?")
		return ", to " + bounded(to, 120)
	}
	return ""
}

// requestID returns the provider's name for a request.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Generation-Id", "Apim-Request-Id", "Cf-Ray"} {
		if id := h.Get(name); id != "" {
			return bounded(id, 100)
		}
	}
	return ""
}
