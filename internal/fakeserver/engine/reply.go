package engine

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A reply is what a client gets to read.
type reply struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	cfg   *ServerConfig
	text  answer
	usage bool
	model string
	key   uint64
	now   time.Time

	begun  bool
	sent   int
	head   []byte // of each chunk, up to the delta
	buffer []byte
}

func (r *reply) headers(call *Call, kind string) {
	h := r.w.Header()
	r.cfg.Engine.Limits.Format.write(h, call.Rates(), time.Now())
	h.Set("Content-Type", kind)
	h.Set("X-Request-Id", "req-"+strconv.FormatUint(r.key, 16))
}

// begin sends the headers of a stream.
func (r *reply) begin(call *Call) {
	if r.begun {
		return
	}
	r.begun = true
	r.headers(call, "text/event-stream")
	r.w.Header().Set("Cache-Control", "no-cache")
	r.w.WriteHeader(http.StatusOK)
	r.head = append(r.head, "data: "...)
	r.head = r.envelope(r.head, "chat.completion.chunk")
	r.head = append(r.head, `,"choices":[{"index":0,"delta":`...)
}

func (r *reply) envelope(b []byte, object string) []byte {
	b = append(b, `{"id":"chatcmpl-`...)
	b = strconv.AppendUint(b, r.key, 16)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, r.now.Unix(), 10)
	b = append(b, `,"model":`...)
	model := r.model
	if model == "" {
		model = r.cfg.Engine.Model
	}
	return appendString(b, model)
}

// more writes what has come of a stream, in one write. early has the headers
// sent although nothing has.
func (r *reply) more(call *Call, h heard, early bool) {
	if h.fresh == 0 && h.end == "" && !early {
		return
	}
	first := !r.begun
	r.begin(call)
	b := r.buffer[:0]
	if h.fresh > 0 && r.sent == 0 {
		b = append(b, r.head...)
		b = append(b, `{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"...)
	}
	for range h.fresh {
		b = append(b, r.head...)
		b = r.text.delta(b, r.sent)
		b = append(b, `,"finish_reason":null}]}`+"\n\n"...)
		r.sent++
	}
	if h.end != "" {
		b = append(b, r.head...)
		b = append(b, `{},"finish_reason":`...)
		b = appendString(b, r.text.finish(h.end))
		b = append(b, "}]}\n\n"...)
		if r.usage {
			b = append(b, "data: "...)
			b = r.envelope(b, "chat.completion.chunk")
			b = append(b, `,"choices":[],"usage":`...)
			b = appendUsage(b, call, r.sent)
			b = append(b, "}\n\n"...)
		}
		b = append(b, "data: [DONE]\n\n"...)
	}
	r.buffer = b
	if len(b) > 0 {
		r.write(b)
	}
	if len(b) > 0 && h.end == "" || first && len(b) == 0 {
		r.flush()
	}
}

func (r *reply) write(b []byte) {
	if _, err := r.w.Write(b); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (r *reply) flush() {
	if r.ctl.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
}

// whole writes a plain answer.
func (r *reply) whole(call *Call, end Result) {
	b := r.envelope(nil, "chat.completion")
	b = append(b, `,"choices":[{"index":0,"message":`...)
	b = r.text.message(b, call.Made())
	b = append(b, `,"finish_reason":`...)
	b = appendString(b, r.text.finish(end))
	b = append(b, `}],"usage":`...)
	b = appendUsage(b, call, call.Made())
	b = append(b, '}')
	r.headers(call, "application/json")
	r.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	r.write(b)
}

func appendUsage(b []byte, call *Call, made int) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(call.PromptTokens()), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(made), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(call.PromptTokens()+made), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(call.Cached()), 10)
	return append(b, "}}"...)
}

// fail tells of a request that got no whole answer.
func (r *reply) fail(how Result, call *Call, stream bool) {
	status, kind, code, message := http.StatusInternalServerError, "server_error", "", "The request failed."
	switch how {
	case Refused:
		status, kind, message = http.StatusServiceUnavailable, "service_unavailable_error", "The request queue is full."
		code = "server_is_overloaded"
	case Unready:
		status, kind, message = http.StatusServiceUnavailable, "service_unavailable_error", "No worker is available."
	case Limited:
		status, kind, code = http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"
		message = "Rate limit reached for " + call.Rates().Of + ". Please try again in " + call.Rates().RetryAfter.Round(time.Millisecond).String() + "."
	case NoQuota:
		status, kind, code = http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"
		message = "You exceeded your current quota, please check your plan and billing details."
	case TooLong:
		status, kind, code = http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"
		message = "The prompt has " + strconv.Itoa(call.PromptTokens()) + " tokens, more than fit."
	case Broken:
		if r.cfg.Engine.Router == nil {
			panic(http.ErrAbortHandler)
		}
		status, kind, message = http.StatusBadGateway, "server_error", "The worker went away."
	case Failed:
		message = "KV transfer failed."
	}
	if r.begun {
		b := append(r.buffer[:0], `data: {"error":`...)
		b = appendError(b, "INTERNAL_SERVER_ERROR", strconv.Itoa(status), message)
		b = append(b, "}\n\ndata: [DONE]\n\n"...)
		r.write(b)
		return
	}
	h := r.w.Header()
	if wait := r.cfg.Engine.RetryAfter; wait > 0 && (how == Refused || how == Unready) {
		h.Set("Retry-After", wholeSeconds(wait))
	}
	r.headers(call, "application/json")
	if r.cfg.Engine.Limits.Format == Anthropic {
		sendRaw(r.w, status, []byte(`{"type":"error","error":{"type":"`+anthropicType(how, kind)+`","message":`+string(appendString(nil, message))+`}}`))
		return
	}
	sendError(r.w, status, kind, code, message)
}

func anthropicType(how Result, kind string) string {
	switch how {
	case Refused, Unready:
		return "overloaded_error"
	case Limited, NoQuota:
		return "rate_limit_error"
	case Failed, Broken:
		return "api_error"
	}
	return kind
}

// appendError writes an error object as OpenAI words it. A code of digits is
// sent as a number, an empty one as null.
func appendError(b []byte, kind, code, message string) []byte {
	b = append(b, `{"message":`...)
	b = appendString(b, message)
	b = append(b, `,"type":`...)
	b = appendString(b, kind)
	b = append(b, `,"param":null,"code":`...)
	switch {
	case code == "":
		b = append(b, "null"...)
	case strings.Trim(code, "0123456789") == "":
		b = append(b, code...)
	default:
		b = appendString(b, code)
	}
	return append(b, '}')
}

func sendError(w http.ResponseWriter, status int, kind, code, message string) {
	b := appendError([]byte(`{"error":`), kind, code, message)
	sendRaw(w, status, append(b, '}'))
}

func sendRaw(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// appendString writes a text as JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always has one
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
