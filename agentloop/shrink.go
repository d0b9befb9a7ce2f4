package agentloop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// room returns how many tokens the conversation may take, or 0 if that is not known.
func (r *run) room() int64 {
	c := &r.agent.cfg
	window := int64(c.Window)
	if window <= 0 {
		if r.tokens.ceiling > 0 {
			return r.tokens.ceiling * 9 / 10
		}
		return 0
	}
	answer := int64(max(c.Request.MaxTokens, c.Request.MaxCompletionTokens))
	if answer == 0 {
		answer = min(window/8, 4096)
	}
	window = max(window/4, window-answer)
	if r.tokens.ceiling > 0 {
		window = min(window, r.tokens.ceiling*9/10)
	}
	return window
}

// fit makes the next request fit into the model's context window, as far as that is
// known. It shrinks old results of tools first; then, if allowed, the model sums up
// older rounds; then the newest results are cut. If the request is still too large,
// the run ends before it is sent.
func (r *run) fit(ctx context.Context, refusal error) *ending {
	room := r.room()
	if room <= 0 || r.size() <= room {
		return nil
	}
	goal := int64(ample * float64(room))
	before := r.hist.bytes
	var did []string
	if n := r.hist.cutResults(func() bool { return r.size() <= goal }); n > 0 {
		did = append(did, fmt.Sprintf("%d old results cut", n))
	}
	if r.size() > goal && r.agent.cfg.Summarize {
		if end := r.summarize(ctx, room); end != nil {
			return end
		}
		if r.summed {
			did, r.summed = append(did, "older rounds summed up"), false
		}
	}
	if r.size() > room && !r.tokens.wonders(r.sent()) {
		if n := r.hist.cutNewest(r.sent() - r.tokens.bytesFor(room) + 1); n > 0 {
			did = append(did, fmt.Sprintf("%d new results cut", n))
		}
	}
	if len(did) > 0 {
		r.repeats.fade()
		r.res.Shrinks++
		r.emit(Event{Kind: EventShrunk, Text: fmt.Sprintf("%s: %d of %d bytes left", strings.Join(did, ", "), r.hist.bytes, before)})
	}
	if size := r.size(); size > room && !r.replay.goesOn() && !r.tokens.wonders(r.sent()) {
		return &ending{outcome: Exhausted, err: &ContextError{Tokens: size, Window: room, Err: refusal}}
	}
	return nil
}

// size estimates the next request, in tokens.
func (r *run) size() int64 { return r.tokens.size(r.sent()) }

// sent is how many bytes the next request has.
func (r *run) sent() int { return r.hist.bytes + r.agent.offerBytes }

// overflown deals with a request that the model refused as too large: the next one is
// smaller, or the run ends.
func (r *run) overflown(ctx context.Context, refusal error) *ending {
	r.shrinks++
	bytes := r.sent()
	r.tokens.refused(bytes, int64(r.agent.cfg.Window))
	if r.shrinks > maxShrinks && !r.replay.goesOn() {
		return &ending{outcome: Exhausted, err: &ContextError{Tokens: r.size(), Window: r.room(), Err: refusal}}
	}
	if end := r.fit(ctx, refusal); end != nil {
		return end
	}
	if r.sent() >= bytes && !r.replay.goesOn() {
		return &ending{outcome: Exhausted, err: &ContextError{Tokens: r.size(), Window: r.room(), Err: refusal}}
	}
	return nil
}

// summarize lets the model sum up all but the last rounds. If that fails the run need
// not end: the conversation may fit without.
func (r *run) summarize(ctx context.Context, room int64) *ending {
	from, to := r.hist.behind()
	if from >= to {
		return nil
	}
	text := r.hist.transcript(from, to, int(ample*float64(room)/r.tokens.slope(true)))
	if r.hist.summary != "" {
		text = "## summary of what was before\n" + r.hist.summary + "\n" + text
	}
	req := r.agent.cfg.Request
	req.Messages = []chat.Message{chat.User(summaryTask(text))}
	req.ResponseFormat, req.Stop = nil, nil // they shape the agent's answers
	req.Finishing = req.Finishing || r.prog.finishing()
	began := time.Now()
	q := question{sent: messageBytes(&req.Messages[0]), doing: "having the work so far summed up", summary: true}
	faults, first := r.faults, r.first // of the request that this is for
	ans, lost := r.consult(ctx, &req, q)
	for tries := max(0, r.group.cfg.Restarts); lost == nil && ctx.Err() == nil && ans.err != nil && ans.retryable && tries > 0; tries-- {
		if end := r.pause(ctx, &ans); end != nil {
			return end
		}
		again := req // the one before may still be read
		again.Restart = true
		ans, lost = r.consult(ctx, &again, q)
	}
	if r.faults, r.first = faults, first; lost == nil && ans.err == nil {
		r.faults, r.first = 0, nil
	}
	switch {
	case lost != nil && ctx.Err() != nil:
		return r.stopped(ctx, lost)
	case ctx.Err() != nil:
		return r.stopped(ctx, nil)
	case ans.unsaved != nil:
		return &ending{outcome: Failed, err: unsavedError(ans.unsaved)}
	case ans.finished:
		return nil
	case lost != nil || ans.err != nil:
		if end := r.refused(ctx, &ans, true); end != nil {
			return end
		}
		r.emit(Event{Kind: EventSummarized, Err: errOf(ans.err, lost), After: time.Since(began)})
		return nil
	}
	summary := behindThoughts(strings.TrimSpace(textOf(&ans.resp.Message)))
	behind := 0
	for i := from; i < to; i++ {
		behind += messageBytes(&r.hist.msgs[i])
	}
	if wordless(summary) || thoughtOnly(summary) || len(summary) >= behind {
		r.emit(Event{Kind: EventSummarized, Err: ErrEmpty, After: time.Since(began)})
		return nil
	}
	r.hist.sumUp(from, to, summary)
	r.summed = true
	r.emit(Event{Kind: EventSummarized, Text: summary, After: time.Since(began)})
	return nil
}

func errOf(err error, lost *loss) error {
	if lost != nil {
		return lost.err
	}
	return err
}
