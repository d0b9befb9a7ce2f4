package agentloop

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// inJournal names the code that writes journals: a disk can hang as well as a
// server.
const inJournal = "journal"

// openTape opens the agent's log, and begins a new stretch of it.
func (r *run) openTape(ctx context.Context) *ending {
	j := r.group.cfg.Journal
	if j == nil || r.inside() {
		return nil
	}
	type opened struct {
		tape *tape
		err  error
	}
	conversation := conversationID(r.agent.start)
	defer r.pulse.aside(nil, "opening the journal", usual)()
	began := time.Now()
	got, lost := guarded(ctx, r, inJournal, func(context.Context) opened {
		name := "agents/" + journal.Escape(r.name())
		log, lines, err := j.Log(name)
		if err != nil {
			return opened{err: err}
		}
		entries, err := readEntries(lines, r.name(), conversation)
		if err != nil {
			_ = log.Close()
			return opened{err: fmt.Errorf("journal %s: %w", name, err)}
		}
		t := newTape(log, entries)
		if !t.finished {
			err = log.Append(&entry{
				Kind: entryBegin, Time: time.Now(), Version: journalVersion, Agent: r.name(), Conversation: conversation, PID: os.Getpid(),
			})
		}
		if err != nil {
			_ = log.Close()
			return opened{err: err}
		}
		return opened{tape: t}
	})
	if lost != nil {
		r.lose(inJournal, "", began, lost)
		got.err = lost.err
	}
	if got.err != nil {
		return &ending{outcome: Failed, err: unopened(got.err)}
	}
	r.tape = got.tape
	r.quiet.Store(r.tape.ahead > 0)
	return nil
}

// keep has an entry written with the next one. If the process ends before, it
// is as if there had been no answer.
func (r *run) keep(e *answerLine) {
	t := r.tape
	t.answered++
	t.at, e.Number, t.now = t.answered, t.answered, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, e)
}

// flush writes what was kept.
func (r *run) flush(ctx context.Context) error {
	if r.tape == nil {
		return nil
	}
	r.tape.mu.Lock()
	some := len(r.tape.kept) > 0
	r.tape.mu.Unlock()
	if !some {
		return nil
	}
	return r.write(ctx, nil, nil, false)
}

// put is write for entries that are rare, with the time.
func (r *run) put(ctx context.Context, e *entry, sure bool) error {
	e.Time = time.Now()
	return r.write(ctx, e, nil, sure)
}

// write appends an entry, which may be nil, to the agent's log, behind what was
// kept, and returns why it could not. If sure it is on the disk then. c is the
// call that it is about, or nil.
func (r *run) write(ctx context.Context, e any, c *toolCall, sure bool) error {
	if r.tape == nil {
		return nil
	}
	id := ""
	if c != nil {
		id = c.ID
	}
	defer r.pulse.aside(c.within(), "writing the journal", usual)() // a disk can hang
	began := time.Now()
	err, lost := guarded(ctx, r, inJournal, func(context.Context) error {
		err := r.tape.append(e)
		if err == nil && sure {
			err = r.tape.log.Sync()
		}
		return err
	})
	if lost != nil {
		r.leaveBehind(inJournal, id, began, lost)
		return lost.err
	}
	return err
}

// closeTape writes the end down and closes the log.
func (r *run) closeTape(ctx context.Context) {
	t := r.tape
	if t == nil {
		return
	}
	res := &r.res
	e := &entry{
		Kind: entryEnd, Outcome: res.Outcome, Steps: res.Steps, Missing: res.Missing, Rounds: res.Rounds, Draft: res.Draft,
	}
	if res.Err != nil {
		e.Error = res.Err.Error()
	}
	limit := max(min(r.group.cfg.DraftDeadline, r.group.left(time.Hour)-r.grace()), time.Millisecond)
	ctx, stop, _ := withLimit(context.WithoutCancel(ctx), inJournal, limit, 0)
	defer stop()
	if !t.finished {
		res.JournalErr = r.put(ctx, e, true)
	}
	_, lost := guarded(ctx, r, inJournal, func(context.Context) error { return t.log.Close() })
	if lost != nil && res.JournalErr == nil {
		res.JournalErr = lost.err
	}
	if res.JournalErr != nil {
		res.JournalErr = fmt.Errorf("agentloop: agent %q: %w", r.name(), res.JournalErr)
	}
}

// wake ends the quiet of what is played: from here on it is new.
func (r *run) wake() {
	if r.quiet.CompareAndSwap(true, false) {
		e := Event{Kind: EventResumed, Text: fmt.Sprintf("%d answers and %d results from the journal", r.tape.answers, r.tape.results.Load())}
		if n := len(r.prog.taken); n > 0 {
			e.Step = r.prog.taken[n-1]
		}
		r.emit(e)
	}
}

// recorded gives a call the result that it had before, or that it must have
// since nobody knows what came of it. It reports false if the call may run.
func (r *run) recorded(ctx context.Context, c *toolCall) bool {
	t := r.tape
	if t == nil {
		return false
	}
	was := t.now[c.ID]
	switch {
	case was.result != nil:
		c.answered, c.ran = true, true
		c.text, c.ok, c.uncertain = was.result.Text, was.result.OK, was.result.Uncertain
		// If it ended the agent, that is revived, see again; if the process ended
		// before, it is for the model to deal with now.
		c.fatal = was.result.Fatal && t.stops()
		t.results.Add(1)
		if was.result.Error != "" {
			c.err = &recordedError{was.result.Error}
		}
		r.playTool(ctx, c)
		return true
	case was.begun && c.tool.Effect == EffectOnce:
		c.answered, c.ran, c.uncertain = true, true, true
		c.err = ErrUncertain
		c.text = fmt.Sprintf("error: %s was interrupted, and nobody knows whether it took effect. Find out before you repeat it.", c.Name)
		if t.live() { // else it is long past, and nothing is written while that is played
			r.wake()
			r.emit(Event{Kind: EventUncertain, Tool: c.Name, CallID: c.ID, Err: ErrUncertain})
			r.saveResult(ctx, c, true)
		}
		return true
	case !t.live():
		c.skip("it was not run then either")
		return true
	}
	return false
}

// playTool lets a tool catch up with what it did.
func (r *run) playTool(ctx context.Context, c *toolCall) {
	if c.tool.Replay == nil || !c.ok {
		return
	}
	in := c.in()
	ctx, stop, _ := r.bounds(ctx, c)
	defer stop()
	ctx = context.WithValue(ctx, callKey{}, c)
	c.began = time.Now()
	err, lost := guarded(ctx, r, in, func(ctx context.Context) error {
		return foreign(c.tool.Replay(ctx, []byte(c.Arguments), c.text))
	})
	if lost != nil {
		c.lost, err = lost, lost.err
	}
	if err != nil {
		c.fatal, c.unplayable, c.err = true, true, fmt.Errorf("tool %s cannot go on from the journal: %w", c.Name, err)
	}
}

// intend writes down that a call is about to be made. It reports false if that
// is not possible: then it must not be made.
func (r *run) intend(ctx context.Context, c *toolCall) bool {
	if r.tape == nil || c.tool.Effect == EffectNone {
		return true
	}
	if err := r.write(ctx, &intentLine{entryIntent, time.Now(), r.tape.at, c.ID, c.Name}, c, true); err != nil {
		c.skip("the journal cannot be written")
		c.fatal, c.err = true, unsavedError(err)
		return false
	}
	return true
}

// saveResult writes down what a call came to. What a call did not come to since
// its agent was stopped is left open: who goes on with the agent may do better.
func (r *run) saveResult(ctx context.Context, c *toolCall, sure bool) {
	if r.tape == nil || ctx.Err() != nil && !c.ok {
		return
	}
	e := &resultLine{
		Kind: entryResult, Time: time.Now(), Number: r.tape.at, ID: c.ID, Tool: c.Name, Text: c.text, OK: c.ok, Fatal: c.fatal,
		Uncertain: c.uncertain, Took: c.took.Milliseconds(), Error: textOfErr(c.err),
	}
	if err := r.write(ctx, e, c, sure); err != nil {
		c.fatal, c.err = true, unsavedError(err)
	}
}

// An unsaved is what a run ends with whose journal cannot be written. It is known
// by its type: to ask errors for more is a matter of their own code.
type unsaved struct{ err error }

func unsavedError(err error) error { return &unsaved{err} }

func (e *unsaved) Error() string { return ErrJournal.Error() + ": " + e.err.Error() }

func (e *unsaved) Unwrap() []error { return []error{ErrJournal, e.err} }

// unopened is what a run ends with whose journal cannot be opened. That it cannot
// be read, or is another's, is no want of room.
func unopened(err error) error {
	if j, ok := err.(*journal.Error); ok && (j.Op == "write" || j.Op == "sync" || j.Op == "open") {
		return unsavedError(err)
	}
	return err
}

// refused writes down that the model refused a request.
func (r *run) refused(ctx context.Context, ans *reply, summary bool) *ending {
	if ans.played {
		return nil
	}
	e := &entry{Kind: entryRefused, Summary: summary, Overflow: ans.overflow}
	if ans.err != nil {
		e.Error = ans.err.Error()
	}
	if err := r.put(ctx, e, false); err != nil {
		return &ending{outcome: Failed, err: unsavedError(err)}
	}
	return nil
}
