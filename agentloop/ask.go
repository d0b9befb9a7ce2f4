package agentloop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// ask gets the next answer. Passing faults are waited out; they leave nothing in the
// history, so each try goes on from the last completed round.
func (r *run) ask(ctx context.Context) (*chat.Response, *ending) {
	r.round.Store(int32(r.res.Rounds + 1))
	r.asked = time.Now()
	r.shrinks = 0
	r.crashes, r.trying = 0, false
	for {
		if e := r.replay.again(); e != nil {
			return nil, &ending{outcome: e.Outcome, err: &recordedError{e.Error}}
		}
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
		r.restarted = false
		asked := time.Now()
		ans, lost := r.consult(ctx, req, question{sent: r.sent(), doing: "waiting for the model", forces: forces})
		switch {
		case lost != nil && ctx.Err() != nil:
			return nil, r.stopped(ctx, lost)
		case lost != nil:
			return nil, &ending{outcome: Failed, err: lost.err}
		case ctx.Err() != nil:
			return nil, r.stopped(ctx, nil)
		case ans.finished:
			return nil, &ending{outcome: Done}
		case ans.unsaved != nil:
			return nil, &ending{outcome: Failed, err: unsavedError(ans.unsaved)}
		case ans.err == nil:
			if u := ans.resp.Usage; u != nil {
				r.tokens.counted(u.PromptTokens, r.sent())
			}
			if ans.played {
				r.res.Replayed++
			}
			if r.noChoice != nil && !forces && step != nil {
				r.group.learnNoChoice(r.agent, r.noChoice)
			}
			r.emit(Event{Kind: EventAnswered, Text: textOf(&ans.resp.Message), After: time.Since(asked)})
			return ans.resp, nil
		case ans.overflow:
			if end := r.refused(ctx, &ans, false); end != nil {
				return nil, end
			}
			if end := r.overflown(ctx, hush(ctx, ans.err)); end != nil {
				return nil, end
			}
			continue
		case forces && r.cannotForce(&ans):
			if end := r.refused(ctx, &ans, false); end != nil {
				return nil, end
			}
			continue
		case !ans.retryable && r.noChoice != nil && step != nil:
			ans.err = fmt.Errorf("%w (before that, with tool_choice: %w)", hush(ctx, ans.err), hush(ctx, r.noChoice))
			return nil, r.failed(ctx, &ans, "")
		case !ans.retryable:
			return nil, r.failed(ctx, &ans, "")
		}
		if r.trying && !forces { // that is not it
			r.noChoice, r.trying, r.crashes = nil, false, 0
		}
		if end := r.pause(ctx, &ans); end != nil {
			return nil, end
		}
		r.restarted = true
	}
}

// request returns the next request, and the step that it demands, if any. It
// is a new one each time: a model that was left behind may still read the last.
func (r *run) request() (*chat.Request, *Step) {
	req := r.agent.cfg.Request
	req.Messages = r.hist.view()
	req.Tools = r.agent.offer
	req.Restart = r.restarted
	req.Finishing = req.Finishing || r.prog.finishing()
	step, _ := r.pressing()
	press := r.escalation.pressure()
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
	case press == narrowed || r.noChoice != nil || r.group.noChoice(r.agent) != nil:
	case len(req.Tools) == 1:
		req.ToolChoice = chat.ForceTool(req.Tools[0].Name)
	default:
		req.ToolChoice = chat.ToolChoiceRequired
	}
	return &req, step
}

// A question holds what consult has to know besides the request.
type question struct {
	sent    int    // its bytes
	doing   string // what the agent does meanwhile
	forces  bool   // it has a tool_choice
	summary bool   // it is for a summary
}

// consult makes one model call and books its cost, or plays one from the journal. It
// waits for its turn first, and holds its place only for the call. If ctx ends
// meanwhile there is neither an answer nor a loss.
func (r *run) consult(ctx context.Context, req *chat.Request, q question) (reply, *loss) {
	if e := r.replay.answer(q.summary, q.forces); e != nil {
		ans := e.reply()
		ans.played = true
		if ans.err == nil {
			r.count(ans.resp.Usage, ans.bill)
		}
		return ans, nil
	}
	if !r.replay.live() {
		return reply{err: errDone, finished: true}, nil
	}
	r.wake()
	g := r.group
	if err := r.flush(ctx); err != nil {
		return reply{err: err, unsaved: err}, nil
	}
	if !r.mayCall(ctx) {
		return reply{err: ctx.Err()}, nil
	}
	defer r.leavePlace()
	l := &callSignals{r, r.does(q.doing, modelPace)}
	l.listen(req)
	began := time.Now()
	call, stop := r.stoppable(context.WithValue(ctx, callSignalsKey{}, l), nil, modelPace)
	defer stop(nil)
	ans, lost := guarded(call, r, inModel, func(ctx context.Context) reply {
		ans := put(ctx, r.agent.cfg.Model, req)
		if ans.err == nil {
			ans.bill = r.agent.cfg.billOf(ans.resp, q.sent)
		}
		return ans
	})
	if lost != nil {
		r.lose(inModel, "", began, lost)
	}
	if stall := r.liveness.endedFor(nil, call); stall != nil && ctx.Err() == nil && (lost != nil || ans.err != nil) {
		ans, lost = reply{err: stall, retryable: true}, nil
	}
	switch {
	case lost != nil:
		g.troubles.neutral(r)
		return ans, lost
	case ans.err == nil:
		g.answeredIn(time.Since(began))
		g.troubles.answered(r, began)
		r.count(ans.resp.Usage, ans.bill)
		if r.replay != nil {
			r.keep(answerEntry(&ans, q.summary))
		}
	case ans.retryable && ans.after > parkAfter:
		g.troubles.neutral(r) // it names a time: that is no trouble to look into
	case ans.retryable && ctx.Err() == nil:
		ans.ofAll = g.troubles.fault(r, muted(ans.err), ans.after)
	default:
		g.troubles.neutral(r)
	}
	r.beat(nil)
	return ans, nil
}

func (r *run) count(u *chat.Usage, b bill) {
	r.pay(b.tokens, b.cost)
	r.res.Cost += b.cost
	if b.guessed {
		r.res.EstimatedTokens += b.tokens
	}
	if u == nil || b.guessed {
		return
	}
	sum := &r.res.Usage
	sum.PromptTokens += max(0, u.PromptTokens)
	sum.CompletionTokens += max(0, u.CompletionTokens)
	sum.TotalTokens += max(0, u.TotalTokens)
	sum.CachedTokens += max(0, u.CachedTokens)
	sum.ReasoningTokens += max(0, u.ReasoningTokens)
}
