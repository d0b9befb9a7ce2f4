package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A toolCall is one call of a message on its way to its result.
type toolCall struct {
	chat.ToolCall       // as it stands in the history
	tool          *Tool // nil if it must not run
	of            *run
	act           *activity // what the watchdog sees of it

	answered bool
	text     string // the result, as the model will see it
	refused  error  // why it was not run
	ran      bool
	ok       bool
	err      error // what the tool returned
	// uncertain: nobody knows whether the call took effect.
	uncertain bool
	fatal     bool
	// unplayable: the tool cannot catch up with what is recorded.
	unplayable bool
	lost       *loss
	began      time.Time
	took       time.Duration

	// known: it is in the journal. That overrules any reason to refuse it.
	known bool
	// same is an equal call earlier in the same message, or nil.
	same *toolCall
}

// in names the tool in panics, abandonments and labels.
func (c *toolCall) in() string { return "tool " + c.Name }

// within returns the call's activity; nil for no call.
func (c *toolCall) within() *activity {
	if c == nil {
		return nil
	}
	return c.act
}

const wasStopped = "the agent was stopped"

// skip answers the call without running it.
func (c *toolCall) skip(why string) {
	c.answered = true
	c.text = fmt.Sprintf("error: %s was not run: %s.", c.Name, why)
}

// calls runs the calls of one message and appends a result for each, in call
// order, whatever happens. asked are the calls as the model sent them; cut is
// not nil if the message is not whole.
func (r *run) calls(ctx context.Context, calls, asked []chat.ToolCall, cut error) *ending {
	list := make([]toolCall, len(calls))
	for i := range list {
		c := &list[i]
		c.ToolCall, c.of = calls[i], r
		r.admit(c, asked[i].Arguments, cut)
	}
	twins(list)
	fatal := r.waves(ctx, list)

	var stuck *loss
	var why error // of the first that was refused
	var last *toolCall
	progress := false
	for i := range list {
		c := &list[i]
		switch {
		case c.ran:
			last = c
			progress = r.settle(c) || progress
			r.unplayable = r.unplayable || c.unplayable
			if c.lost != nil && c.lost.abandoned {
				stuck = c.lost
			}
		case c.refused == ErrRepeating:
			last = c
		case why == nil:
			why = c.refused
		}
	}
	r.repeats.turn()
	if last != nil && last.ran && r.repeats.near() {
		last.text += "\n\n[note: your last calls brought nothing new. Do something else: going on like this ends your work.]"
		r.emit(Event{Kind: EventWarned, Tool: last.Name, CallID: last.ID})
	}
	for i := range list {
		if list[i].same != nil {
			r.share(&list[i])
		}
		r.hist.result(list[i].ID, chat.ToolResult(list[i].ID, list[i].text))
	}

	switch {
	case r.prog.over():
		return &ending{outcome: Done}
	case fatal != nil:
		return &ending{outcome: Failed, err: hush(ctx, fatal)}
	case ctx.Err() != nil:
		return r.stopped(ctx, stuck)
	case last == nil:
		if b := r.broke(); b != nil && !r.replay.goesOn() { // calls beyond the budget are the end of it
			return &ending{outcome: Exhausted, err: b}
		}
		if why == nil { // played, and not run then either
			return nil
		}
		return r.climb(why, "")
	case progress:
		r.escalation.down()
	}
	if r.repeats.over() {
		return r.impatient(&ending{outcome: Stalled, err: r.repeats.end()})
	}
	return nil
}

// impatient ends the run. An exception is a replayed run that went on at this place:
// then it had more patience, and what came after it counts. Patience begins anew
// there.
func (r *run) impatient(end *ending) *ending {
	if !r.quiet.Load() || r.replay.ends(end.outcome) {
		return end
	}
	r.calm()
	return nil
}

// calm makes patience begin anew.
func (r *run) calm() {
	r.escalation.down()
	r.repeats = newRepeats(r.agent.cfg.Repeats, r.agent.cfg.RepeatWindow)
}

// settle counts a call that ran, and reports whether it is progress.
func (r *run) settle(c *toolCall) bool {
	r.res.ToolCalls++
	if c.lost != nil {
		r.lose(c.in(), c.ID, c.began, c.lost)
	}
	if c.uncertain {
		r.res.Uncertain = append(r.res.Uncertain, Uncertainty{r.name(), c.Name, c.ID, c.Arguments})
		if r.doubtful == nil {
			r.doubtful = make(map[string]bool)
		}
		r.doubtful[c.Name] = true
	} else if c.ok { // that a later one failed says nothing of the one in doubt
		delete(r.doubtful, c.Name)
	}
	if c.tool.Polling {
		return c.ok
	}
	return r.repeats.add(c.Name, json.RawMessage(c.Arguments), c.text, !c.ok) == fresh && c.ok
}

// admit decides what can be decided before any call runs. Calls that the journal
// knows were decided then, even if the agent has other tools now: a missing tool is
// replaced by one that has only its name.
func (r *run) admit(c *toolCall, sent string, cut error) {
	t := r.agent.tools[c.Name]
	c.known = r.replay.knows(c.ID)
	switch {
	case c.known && t == nil:
		c.tool = &Tool{Name: c.Name}
	case c.known:
		c.tool = t
	case errors.Is(cut, ErrTruncated):
		r.refuse(c, cut, "your message was cut off by the token limit before it was complete. Make smaller calls, for example several with a part of the text each")
	case cut != nil:
		r.refuse(c, cut, "your message was cut by a content filter. Say it in another way")
	case t == nil:
		r.refuse(c, ErrUnknownTool, "there is no tool of that name. Available: "+r.agent.toolNames())
	default:
		if _, ok := parseArguments(sent); !ok {
			r.refuse(c, ErrBadArguments, "its arguments are not a JSON object: "+explainArguments(sent))
			return
		}
		c.tool = t
	}
}

// twins finds calls that equal an earlier call of the same message: models that write
// many calls at once repeat some. A call that changes something is made once. It is
// no twin if a call of another tool stands between the two, which may be the reason
// to repeat it (save, append, save), or, for a Sequential tool, any other call.
func twins(list []toolCall) {
	if len(list) < 2 {
		return
	}
	first := make(map[string]*toolCall, len(list))
	before := ""
	for i := range list {
		c := &list[i]
		if c.answered || c.tool.Effect == EffectNone || c.tool.Polling {
			continue
		}
		if c.Name != before {
			clear(first)
		}
		before = c.Name
		args := string(canonical(json.RawMessage(c.Arguments)))
		if was := first[args]; was != nil && !c.known {
			c.same = was
			continue
		}
		if c.tool.Sequential {
			clear(first)
		}
		first[args] = c
	}
}

// share gives a call the result of its equal.
func (r *run) share(c *toolCall) {
	c.answered, c.refused, c.text = true, c.same.refused, c.same.text
	if c.same.ran {
		c.text += fmt.Sprintf("\n[the same call as %s of this message, made once]", c.same.ID)
		r.emit(Event{Kind: EventToolRefused, Tool: c.Name, CallID: c.ID, Err: fmt.Errorf("%w: %s", errSameCall, c.same.ID)})
	}
}

func (r *run) refuse(c *toolCall, why error, text string) {
	c.refused = why
	c.skip(text)
	r.emit(Event{Kind: EventToolRefused, Tool: c.Name, CallID: c.ID, Err: why})
}

// waves runs the calls, in parallel where that is allowed. A call waits for all calls
// before it in three cases: one of them or it is Sequential; its step is not due yet
// and they may take the step before; or it would complete the work, since what is
// saved must hold what was appended. After a call that may complete the work, the
// next ones wait for its result. waves returns the error of a tool that declared it
// fatal.
func (r *run) waves(ctx context.Context, list []toolCall) (fatal error) {
	for i := 0; i < len(list); {
		var wave []*toolCall
		then := r.prog.clone() // as it will be if the wave succeeds
		last := false
		for ; i < len(list) && !last; i++ {
			c := &list[i]
			if c.answered || c.same != nil {
				continue
			}
			before, blocked := r.prog.blocked(c.Name)
			blocked = blocked && !c.known
			if len(wave) > 0 && (blocked || c.tool.Sequential || wave[0].tool.Sequential) {
				break
			}
			then.take(c.Name)
			if last = then.over(); last && len(wave) > 0 {
				break
			}
			switch {
			case c.known:
				r.admitTool(true)
				wave = append(wave, c)
			case r.prog.over():
				c.skip("the work is complete")
			case ctx.Err() != nil || fatal != nil:
				c.skip(wasStopped)
			case blocked:
				r.refuse(c, ErrOutOfOrder, comesFirst(before))
			case !c.tool.Polling && r.repeats.blocks(c.Name, json.RawMessage(c.Arguments)):
				r.repeats.block()
				r.refuse(c, ErrRepeating, "your last calls brought nothing new, and this is one more of them. "+
					"Do something else: going on like this ends your work")
			case !r.admitTool(false):
				c.skip("the budget of tool calls is used up")
			default:
				wave = append(wave, c)
			}
		}
		if len(wave) == 0 {
			continue
		}
		r.wave(ctx, wave)
		for _, c := range wave {
			if c.fatal && fatal == nil {
				fatal = c.err
			}
			if c.ok {
				step, counts := r.prog.take(c.Name)
				if counts { // one of the times that were asked for, whatever it said
					r.escalation.down()
					r.repeats.round = fresh
				}
				if step != "" {
					r.emit(Event{Kind: EventStep, Tool: c.Name, Step: step})
				}
			}
		}
	}
	return fatal
}

// wave runs calls at the same time, at most MaxParallelTools of them, and returns
// when each has a result. That is bounded: execute does not wait for tools.
func (r *run) wave(ctx context.Context, calls []*toolCall) {
	agents := ctx // ends with the agent, not with the wave
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.does(doing(calls), endsItself)

	width := r.agent.cfg.MaxParallelTools
	if width < 0 {
		width = len(calls)
	}
	slots := make(chan struct{}, width)
	var wg sync.WaitGroup
	for _, c := range calls {
		slots <- struct{}{}
		if ctx.Err() != nil {
			c.skip(wasStopped)
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r.execute(agents, ctx, c)
			if c.fatal {
				stop(c.err)
			}
		})
	}
	wg.Wait()
}
