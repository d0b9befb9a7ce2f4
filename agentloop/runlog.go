package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// unopenedError is the cause of the end of a group whose journal cannot be
// written.
type unopenedError struct{ err error }

func (e *unopenedError) Error() string { return unsavedError(e.err).Error() }
func (e *unopenedError) Unwrap() error { return unsavedError(e.err) }

// openJournal begins a stretch of the log of the run, or ends the group before
// any agent has done anything.
func (g *groupRun) openJournal() {
	j := g.cfg.Journal
	if j == nil {
		return
	}
	names := make([]string, len(g.cfg.Agents))
	for i, a := range g.cfg.Agents {
		names[i] = a.cfg.Name
	}
	me := &run{agent: &Agent{}, group: g}
	type opened struct {
		log *journal.Log
		err error
	}
	got, lost := guarded(g.ctx, me, inJournal, func(context.Context) opened {
		log, lines, err := j.Log("run")
		if err != nil {
			return opened{err: err}
		}
		if err = checkRun(lines); err == nil {
			err = log.Append(&entry{Kind: entryRun, Time: time.Now(), Version: journalVersion, PID: os.Getpid(), Agents: names})
		}
		if err == nil {
			err = log.Sync()
		}
		if err != nil {
			_ = log.Close()
			return opened{err: err}
		}
		return opened{log: log}
	})
	if lost != nil {
		got.err = lost.err
	}
	if got.err != nil {
		g.cancel(&unopenedError{got.err})
		return
	}
	me.tape = newTape(got.log, nil)
	g.journal = me
}

// note writes an entry into the log of the run. That it cannot is no harm: what
// counts is in the logs of the agents.
func (g *groupRun) note(ctx context.Context, e *entry) {
	if g.journal != nil {
		_ = g.journal.put(ctx, e, false)
	}
}

// closeJournal ends the stretch, if the disk lets it in time.
func (g *groupRun) closeJournal(rep *Report) {
	if g.journal == nil {
		return
	}
	log := g.journal.tape.log
	e := &entry{Kind: entryRunOver, Time: time.Now(), Counts: rep.Counts, Error: textOfErr(rep.Err)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = log.Append(e)
		_ = log.Close()
	}()
	t := time.NewTimer(g.left(g.cfg.DraftDeadline))
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func textOfErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkRun looks at what the log of a run begins with.
func checkRun(lines []json.RawMessage) error {
	for i, line := range lines {
		var head struct {
			K string
			V int
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return fmt.Errorf("journal run: line %d: %w", i+1, err)
		}
		if head.K == entryRun && head.V != journalVersion || i == 0 && head.K != entryRun {
			return fmt.Errorf("journal run: line %d: %w: an entry %q of version %d, this program knows version %d", i+1, ErrJournalVersion, head.K, head.V, journalVersion)
		}
	}
	return nil
}
