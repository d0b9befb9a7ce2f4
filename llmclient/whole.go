package llmclient

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
)

// whole checks an answer that has ended. It returns io.EOF if it is whole.
func (a *attempt) whole() error {
	a.resp = a.answer.asm.Response()
	a.resp.Endpoint = a.at.ep.name
	r, end := a.resp, a.resp.FinishReason
	said := !r.Empty() || r.Message.Reasoning != ""
	switch {
	case end.Failed():
		return &badAnswer{kind: ErrAborted, text: fmt.Sprintf("the server gave up on the answer (finish reason %q)", bounded(string(end), 60))}
	case len(r.Message.ToolCalls) > 0 && (cutCalls(r) || a.usedUp(r)):
		return &badAnswer{kind: ErrTruncated, text: fmt.Sprintf("the answer was cut inside its tool calls (finish reason %q); if a token limit did it, raise MaxTokens", bounded(string(end), 60))}
	case end != "":
		return io.EOF
	case !said && a.answer.odd != nil:
		return &insideError{a.answer.odd}
	case !said && a.answer.noise != "":
		return &badAnswer{kind: ErrMalformed, text: "the response is no chat completion: " + a.kindOfBody() + a.answer.noise}
	case !said:
		return &badAnswer{kind: ErrEmpty, text: "the answer was empty: " + a.kindOfBody() + "no finish reason and no output"}
	case a.answer.json && !a.answer.lines:
		return io.EOF // the JSON is whole, and some servers leave the reason out
	case a.answer.odd != nil:
		return &insideError{a.answer.odd} // what came last was no piece of an answer
	case a.answer.done && a.answer.strange:
		return &badAnswer{kind: ErrIncomplete, text: "the answer ended without a finish reason, and with something else in it: " + a.answer.noise}
	case a.answer.done && !a.at.ep.ends():
		return io.EOF // an endpoint that has never sent a reason, and said [DONE]
	case a.answer.done && len(r.Message.ToolCalls) > 0 && !breaksOff(r.Message.ToolCalls):
		return io.EOF // some send a reason with texts only; these calls are whole
	case a.answer.done:
		return &badAnswer{kind: ErrIncomplete, text: "the answer ended without a finish reason, which this endpoint otherwise sends"}
	}
	return &badAnswer{kind: ErrIncomplete, text: "the answer broke off: the stream ended without a finish reason"}
}

// cutCalls reports whether the tool calls of an answer are not as the model meant
// them: a limit or a filter ended the answer, or arguments break off although the
// finish reason names neither.
func cutCalls(r *chat.Response) bool {
	end := r.FinishReason
	switch {
	case end.Limited(), end.Filtered():
		return true
	case end == chat.FinishStop, end == chat.FinishToolCalls, end == chat.FinishFunctionCall, end == "":
		return false // the model wrote broken arguments, which the agent answers
	}
	return breaksOff(r.Message.ToolCalls)
}

// breaksOff reports whether the arguments of some call do not end.
func breaksOff(calls []chat.ToolCall) bool {
	return slices.ContainsFunc(calls, func(c chat.ToolCall) bool { return c.Cut() })
}

// usedUp reports whether a call breaks off in an answer that has used all the
// tokens it was allowed. Some servers give tool_calls as the finish reason then.
func (a *attempt) usedUp(r *chat.Response) bool {
	req := a.call.req
	return req != nil && req.MaxTokens > 0 && r.Usage != nil && r.Usage.CompletionTokens >= int64(req.MaxTokens) &&
		breaksOff(r.Message.ToolCalls)
}

// leave settles an attempt whose reader has left, if the model had finished: the
// reader has missed the usage at most. Otherwise it reports false.
func (a *attempt) leave() bool {
	if a.answer == nil || !a.answer.finished || a.whole() != io.EOF {
		return false
	}
	a.settle(nil, breaker.Success, time.Now())
	return true
}

// kindOfBody describes the answer's body for messages.
func (a *attempt) kindOfBody() string {
	kind := a.out.header.Get("Content-Type")
	if kind == "" {
		kind = "no content type"
	}
	if how := a.out.header.Get("Content-Encoding"); how != "" {
		kind += ", encoded as " + how + " without being asked to" // net/http undoes what it has asked for
	}
	return fmt.Sprintf("status %d, %s: ", a.out.status, bounded(kind, 100))
}
