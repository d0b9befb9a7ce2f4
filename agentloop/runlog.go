package agentloop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// openJournal opens the log of the run, or ends the group before any agent has begun.
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
		g.halt(unsavedError(got.err))
		return
	}
	// It has room for all entries that can come: nobody waits for this log.
	g.notes = make(chan *entry, len(names)+1)
	go keepNotes(got.log, g.notes)
}

// keepNotes writes the log of the run, up to its end. Its errors are ignored: all
// that is needed to go on is in the logs of the agents.
func keepNotes(log *journal.Log, notes <-chan *entry) {
	for e := range notes {
		_ = log.Append(e)
		if e.Kind == entryRunOver {
			_ = log.Close()
			close(e.written)
			return
		}
	}
}

// note queues an entry for the log of the run.
func (g *groupRun) note(e *entry) {
	if g.notes != nil {
		e.Time = time.Now()
		g.notes <- e
	}
}

// closeJournal writes the end of the run and closes its log, if the disk is fast
// enough.
func (g *groupRun) closeJournal(rep *Report) {
	if g.notes == nil {
		return
	}
	e := &entry{Kind: entryRunOver, Counts: rep.Counts, Stalls: rep.Stalls, Said: rep.Explanations, Error: textOfErr(rep.Err), written: make(chan struct{})}
	g.note(e)
	t := time.NewTimer(g.left(g.cfg.DraftTimeout))
	defer t.Stop()
	select {
	case <-e.written:
	case <-t.C:
	}
}

func textOfErr(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkRun checks the first line of the log of a run.
func checkRun(lines []json.RawMessage) error {
	for i, line := range lines {
		var head struct {
			K string
			V int
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return fmt.Errorf("journal run: line %d: %w", i+1, err)
		}
		if head.K == entryRun && (head.V < 1 || head.V > journalVersion) || i == 0 && head.K != entryRun {
			return fmt.Errorf("journal run: line %d: %w: an entry %q of version %d, this program knows up to %d", i+1, ErrJournalVersion, head.K, head.V, journalVersion)
		}
	}
	return nil
}
