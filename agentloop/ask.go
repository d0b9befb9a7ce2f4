package agentloop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// ask gets the next answer. Passing faults are waited out; nothing of them
// enters the history, so each try goes on from the last completed round.
func (r *run) ask(ctx context.Context) (*chat.Response, *ending) {
	r.round.Store(int32(r.res.Rounds + 1))
	r.asked = time.Now()
	var refused error // what came of a request with tool_choice
	for {
		req, step := r.request()
		r.emit(Event{Kind: EventRound})
		forces := req.ToolChoice != chat.ToolChoice{}
		if forces {
			r.res.Forced++
			r.emit(Event{Kind: EventForced, Step: step.Name})
		}
		ans, lost := r.consult(ctx, req)
		switch {
		case lost != nil && ctx.Err() != nil:
			return nil, r.stopped(ctx, lost)
		case lost != nil:
			return nil, &ending{outcome: Failed, err: lost.err}
		case ctx.Err() != nil:
			return nil, r.stopped(ctx, nil)
		case ans.err == nil:
			return ans.resp, nil
		case !ans.retryable && forces && !ans.denied:
			// Some servers refuse to be told what to call, mostly when the
			// model reasons. The offer stays narrowed to the step's tools.
			r.noChoice, refused = true, ans.err
			continue
		case !ans.retryable && refused != nil:
			ans.err = fmt.Errorf("%w (before that, with tool_choice: %w)", hush(ctx, ans.err), hush(ctx, refused))
			return nil, r.failed(ctx, &ans, "")
		case !ans.retryable:
			return nil, r.failed(ctx, &ans, "")
		}
		if end := r.pause(ctx, &ans); end != nil {
			return nil, end
		}
	}
}

// request returns the next request, and the step that it demands, if any. It
// is a new one each time: a model that was left behind may still read the last.
func (r *run) request() (*chat.Request, *Step) {
	req := r.agent.cfg.Request
	req.Messages = r.hist.view()
	req.Tools = r.agent.offer
	req.OnOutput = r.beat
	if also := r.agent.cfg.Request.OnOutput; also != nil {
		req.OnOutput = func() { r.beat(); also() }
	}
	step := r.prog.next()
	if !r.force || step == nil {
		return &req, nil
	}
	req.Tools = nil
	for _, t := range r.agent.offer {
		if slices.Contains(step.Tools, t.Name) {
			req.Tools = append(req.Tools, t)
		}
	}
	switch {
	case r.noChoice:
	case len(req.Tools) == 1:
		req.ToolChoice = chat.ForceTool(req.Tools[0].Name)
	default:
		req.ToolChoice = chat.ToolChoiceRequired
	}
	return &req, step
}

// consult makes one model call.
func (r *run) consult(ctx context.Context, req *chat.Request) (reply, *loss) {
	r.does("waiting for the model", model)
	began := time.Now()
	ans, lost := guarded(ctx, r.name(), inModel, r.grace(), func(ctx context.Context) reply {
		return consult(ctx, r.agent.cfg.Model, req)
	})
	took := time.Since(began)
	if lost != nil {
		r.lose(inModel, "", began, lost)
		return ans, lost
	}
	r.beat()
	if ans.err == nil {
		r.group.answeredIn(took)
		r.count(ans.resp.Usage)
		r.emit(Event{Kind: EventAnswered, Text: textOf(&ans.resp.Message), After: took})
	}
	return ans, nil
}

func (r *run) count(u *chat.Usage) {
	if u == nil {
		return
	}
	sum := &r.res.Usage
	sum.PromptTokens += u.PromptTokens
	sum.CompletionTokens += u.CompletionTokens
	sum.TotalTokens += u.TotalTokens
	sum.CachedTokens += u.CachedTokens
	sum.ReasoningTokens += u.ReasoningTokens
}
