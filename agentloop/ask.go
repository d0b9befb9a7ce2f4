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
	r.shrinks = 0
	var refused error // what came of a request with tool_choice
	for {
		if end := r.fit(ctx, nil); end != nil {
			return nil, end
		}
		req, step := r.request()
		r.emit(Event{Kind: EventRound})
		forces := req.ToolChoice != chat.ToolChoice{}
		switch {
		case forces:
			r.res.Forced++
			r.emit(Event{Kind: EventForced, Step: step.Name})
		case step != nil:
			r.emit(Event{Kind: EventNarrowed, Step: step.Name})
		}
		r.does("waiting for the model", model)
		asked := time.Now()
		ans, lost := r.consult(ctx, req, r.sent())
		switch {
		case lost != nil && ctx.Err() != nil:
			return nil, r.stopped(ctx, lost)
		case lost != nil:
			return nil, &ending{outcome: Failed, err: lost.err}
		case ctx.Err() != nil:
			return nil, r.stopped(ctx, nil)
		case ans.err == nil:
			if u := ans.resp.Usage; u != nil {
				r.gauge.counted(u.PromptTokens, r.sent())
			}
			r.emit(Event{Kind: EventAnswered, Text: textOf(&ans.resp.Message), After: time.Since(asked)})
			return ans.resp, nil
		case ans.overflow:
			if end := r.overflown(ctx, hush(ctx, ans.err)); end != nil {
				return nil, end
			}
			continue
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
	press := r.ladder.pressure()
	if press == advised || step == nil {
		return &req, nil
	}
	req.Tools = nil
	for _, t := range r.agent.offer {
		if slices.Contains(step.Tools, t.Name) {
			req.Tools = append(req.Tools, t)
		}
	}
	switch {
	case r.noChoice || press == narrowed:
	case len(req.Tools) == 1:
		req.ToolChoice = chat.ForceTool(req.Tools[0].Name)
	default:
		req.ToolChoice = chat.ToolChoiceRequired
	}
	return &req, step
}

// consult makes one model call, of a request of so many bytes, and pays for it.
func (r *run) consult(ctx context.Context, req *chat.Request, sent int) (reply, *loss) {
	began := time.Now()
	ans, lost := guarded(ctx, r.name(), inModel, r.grace(), func(ctx context.Context) reply {
		ans := question(ctx, r.agent.cfg.Model, req)
		if ans.err == nil {
			ans.bill = r.agent.cfg.billOf(ans.resp, sent)
		}
		return ans
	})
	if lost != nil {
		r.lose(inModel, "", began, lost)
		return ans, lost
	}
	r.beat()
	if ans.err == nil {
		r.group.answeredIn(time.Since(began))
		r.count(ans.resp.Usage, ans.bill)
	}
	return ans, nil
}

func (r *run) count(u *chat.Usage, b bill) {
	r.pay(b.tokens, b.cost)
	r.res.Cost += b.cost
	if b.guessed {
		r.res.EstimatedTokens += b.tokens
	}
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
