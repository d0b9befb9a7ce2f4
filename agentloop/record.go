package agentloop

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// inJournal labels the code that writes journals: a disk can hang as a server can.
const inJournal = "journal"

// openLog opens the agent's log, and writes that this process begins with it.
func (r *run) openLog(ctx context.Context) *ending {
	j := r.group.cfg.Journal
	if j == nil || r.inside() {
		return nil
	}
	type opened struct {
		replay *replay
		err    error
	}
	conversation := conversationID(r.agent.start)
	defer r.liveness.aside(nil, "opening the journal", stallAfter)()
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
		t := newReplay(log, entries)
		if !t.finished {
			err = log.Append(&entry{
				Kind: entryBegin, Time: time.Now(), Version: journalVersion, Agent: r.name(), Conversation: conversation, PID: os.Getpid(),
			})
		}
		if err != nil {
			_ = log.Close()
			return opened{err: err}
		}
		return opened{replay: t}
	})
	if lost != nil {
		r.lose(inJournal, "", began, lost)
		got.err = lost.err
	}
	if got.err != nil {
		return &ending{outcome: Failed, err: unopened(got.err)}
	}
	r.replay = got.replay
	r.quiet.Store(r.replay.ahead > 0)
	return nil
}

// keep makes an entry wait for the next one, with which it is written. If the process
// ends before, the answer is asked for again.
func (r *run) keep(e *answerLine) {
	t := r.replay
	t.answered++
	t.at, e.Number, t.now = t.answered, t.answered, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, e)
}

// flush writes the kept entries.
func (r *run) flush(ctx context.Context) error {
	if r.replay == nil {
		return nil
	}
	r.replay.mu.Lock()
	some := len(r.replay.kept) > 0
	r.replay.mu.Unlock()
	if !some {
		return nil
	}
	return r.write(ctx, nil, nil, false)
}

// put is write for rare entries; it sets the time.
func (r *run) put(ctx context.Context, e *entry, sure bool) error {
	e.Time = time.Now()
	return r.write(ctx, e, nil, sure)
}

// write appends an entry, which may be nil, to the agent's log, after the kept ones,
// and returns the error if that fails. If sure, the log is synced. c is the call that
// the entry is about, or nil.
func (r *run) write(ctx context.Context, e any, c *toolCall, sure bool) error {
	if r.replay == nil {
		return nil
	}
	id := ""
	if c != nil {
		id = c.ID
	}
	defer r.liveness.aside(c.within(), "writing the journal", stallAfter)() // a disk can hang
	began := time.Now()
	err, lost := guarded(ctx, r, inJournal, func(context.Context) error {
		err := r.replay.append(e)
		if err == nil && sure {
			err = r.replay.log.Sync()
		}
		return err
	})
	if lost != nil {
		r.leaveBehind(inJournal, id, began, lost)
		return lost.err
	}
	return err
}

// closeLog writes the end and closes the log.
func (r *run) closeLog(ctx context.Context) {
	t := r.replay
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
	limit := max(min(r.group.cfg.DraftTimeout, r.group.left(time.Hour)-r.grace()), time.Millisecond)
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

// wake ends the replay: what happens from here on is new.
func (r *run) wake() {
	if r.quiet.CompareAndSwap(true, false) {
		e := Event{Kind: EventResumed, Text: fmt.Sprintf("%d answers and %d results from the journal", r.replay.answers, r.replay.results.Load())}
		if n := len(r.prog.taken); n > 0 {
			e.Step = r.prog.taken[n-1]
		}
		r.emit(e)
	}
}

// recorded gives a call its recorded result, or the result "uncertain" if it was
// interrupted. It reports false if the call may run.
func (r *run) recorded(ctx context.Context, c *toolCall) bool {
	t := r.replay
	if t == nil {
		return false
	}
	was := t.now[c.ID]
	switch {
	case was.result != nil:
		c.answered, c.ran = true, true
		c.text, c.ok, c.uncertain = was.result.Text, was.result.OK, was.result.Uncertain
		// A call that ended the agent ends it again only if a restart is recorded, see
		// again. If the process ended before, the model has to deal with the error.
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

// playTool lets a tool repeat a recorded call in its memory.
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
		return asUserError(c.tool.Replay(ctx, []byte(c.Arguments), c.text))
	})
	if lost != nil {
		c.lost, err = lost, lost.err
	}
	if err != nil {
		c.fatal, c.unplayable, c.err = true, true, fmt.Errorf("tool %s cannot go on from the journal: %w", c.Name, err)
	}
}

// intend records that a call is about to be made. If it reports false, the call must
// not be made.
func (r *run) intend(ctx context.Context, c *toolCall) bool {
	if r.replay == nil || c.tool.Effect == EffectNone {
		return true
	}
	if err := r.write(ctx, &intentLine{entryIntent, time.Now(), r.replay.at, c.ID, c.Name}, c, true); err != nil {
		c.skip("the journal cannot be written")
		c.fatal, c.err = true, unsavedError(err)
		return false
	}
	return true
}

// saveResult records the result of a call. A call that did not succeed after its
// agent was stopped is left without a result, so that a later run may repeat it.
func (r *run) saveResult(ctx context.Context, c *toolCall, sure bool) {
	if r.replay == nil || ctx.Err() != nil && !c.ok {
		return
	}
	e := &resultLine{
		Kind: entryResult, Time: time.Now(), Number: r.replay.at, ID: c.ID, Tool: c.Name, Text: c.text, OK: c.ok, Fatal: c.fatal,
		Uncertain: c.uncertain, Took: c.took.Milliseconds(), Error: textOfErr(c.err),
	}
	if err := r.write(ctx, e, c, sure); err != nil {
		c.fatal, c.err = true, unsavedError(err)
	}
}

// An unsaved is the error of a run whose journal cannot be written. It is recognised
// by its type, since errors.Is would run user code.
type unsaved struct{ err error }

func unsavedError(err error) error { return &unsaved{err} }

func (e *unsaved) Error() string { return ErrJournal.Error() + ": " + e.err.Error() }

func (e *unsaved) Unwrap() []error { return []error{ErrJournal, e.err} }

// unopened is the error of a run whose journal cannot be opened. Only failures of the
// disk match ErrJournal; an unreadable or foreign log does not.
func unopened(err error) error {
	if j, ok := err.(*journal.Error); ok && (j.Op == "write" || j.Op == "sync" || j.Op == "open") {
		return unsavedError(err)
	}
	return err
}

// refused records that the model refused a request.
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
