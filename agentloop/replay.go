package agentloop

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/neverhang/neverhang/agentloop/journal"
)

// A replay is the log of one agent. First it plays what is recorded there: the loop
// runs as it did then, with recorded answers in the place of the model and recorded
// results in the place of tools. So it comes to where it was, with its history, its
// steps, its budgets and its patience. From there on it records.
//
// A nil *replay has nothing to play and records nothing.
type replay struct {
	log      *journal.Log
	todo     []entry                 // to be played yet: answers, refusals, restarts, ends
	ahead    int                     // of them, not ends
	calls    map[int]map[string]call // by the number of the answer that asks for them
	now      map[string]call         // those of the answer that was played last
	finished bool                    // the agent was done: nothing more is to happen
	answers  int                     // played
	results  atomic.Int32

	answered int // answers in the log, to which numbers are given in their order
	at       int // the number of the one whose calls are run

	turn chan struct{} // holds a token while somebody writes
	mu   sync.Mutex
	kept []any // entries to be written before the next
}

// A call is what a log knows of a tool call.
type call struct {
	begun  bool
	result *entry
}

// newReplay returns the replay of a log's entries.
func newReplay(log *journal.Log, entries []entry) *replay {
	t := &replay{log: log, turn: make(chan struct{}, 1), calls: make(map[int]map[string]call)}
	before := 0 // the number of the answer right before, for want of one in the entry
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case entryAnswer:
			t.answered++
			before, e.Number = t.answered, t.answered
			t.calls[before] = make(map[string]call)
			t.todo = append(t.todo, *e)
		case entryRefused, entryAgain:
			before = 0
			t.todo = append(t.todo, *e)
		case entryEnd: // of several in a row one counts: nothing was done between them
			if n := len(t.todo); n > 0 && t.todo[n-1].Kind != entryEnd {
				t.todo = append(t.todo, *e)
			}
		case entryIntent, entryResult:
			number := e.Number
			if number == 0 {
				number = before
			}
			of := t.calls[number]
			if of == nil {
				continue
			}
			c := of[e.ID]
			if e.Kind == entryIntent {
				c.begun = true
			} else if c.result == nil { // the first is what the model has seen
				c.result = e
			}
			of[e.ID] = c
		}
		t.finished = e.Kind == entryEnd && e.Outcome == Done
	}
	for i := range t.todo {
		if t.todo[i].Kind != entryEnd {
			t.ahead++
		}
	}
	return t
}

// answer returns the recorded answer to a request, or its refusal, or nil. Recorded
// requests that the agent no longer makes, since it was set up in another way, are
// skipped.
func (t *replay) answer(summary, forces bool) *entry {
	for t != nil && len(t.todo) > 0 {
		e := &t.todo[0]
		switch {
		case e.Kind == entryEnd: // it was stopped, and asks anew
			t.take()
		case e.Kind == entryAgain, summary && !e.Summary:
			return nil
		case e.Summary != summary, e.Kind == entryRefused && !e.Overflow && !forces && !summary:
			t.take()
		default:
			t.take()
			if e.Kind == entryAnswer && !summary {
				t.answers++
			}
			return e
		}
	}
	return nil
}

// take removes the next entry.
func (t *replay) take() {
	e := &t.todo[0]
	t.now = nil
	if e.Kind != entryEnd {
		t.ahead--
	}
	if e.Kind == entryAnswer {
		t.now, t.at = t.calls[e.Number], e.Number
		delete(t.calls, e.Number)
	}
	t.todo = t.todo[1:]
}

// again returns the recorded restart, if that is the next entry, and leaves it there.
func (t *replay) again() *entry {
	if t == nil || len(t.todo) == 0 || t.todo[0].Kind != entryAgain {
		return nil
	}
	return &t.todo[0]
}

// stops reports whether the next entry is an end or a restart.
func (t *replay) stops() bool {
	return t != nil && len(t.todo) > 0 && (t.todo[0].Kind == entryEnd || t.todo[0].Kind == entryAgain)
}

// goesOn reports whether more was recorded here: the agent went on then, whatever
// would end it now.
func (t *replay) goesOn() bool { return !t.live() && !t.stops() }

// ends reports whether the agent ended here with the outcome.
func (t *replay) ends(as Outcome) bool { return t.stops() && t.todo[0].Outcome == as }

// knows reports whether a call of the answer that was played last has a result, or
// was begun.
func (t *replay) knows(id string) bool {
	if t == nil {
		return false
	}
	_, known := t.now[id]
	return known
}

// live reports whether the replay is over, so that new things may happen.
func (t *replay) live() bool { return t == nil || !t.finished && t.ahead == 0 }

// append writes entries into the log, after the kept ones. Calls of one message do so
// at the same time, and none may come before the message.
func (t *replay) append(e any) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.mu.Lock()
	kept := len(t.kept)
	entries := slices.Clone(t.kept)
	t.mu.Unlock()
	if e != nil {
		entries = append(entries, e)
	}
	if err := t.log.Append(entries...); err != nil {
		return err // what was kept is still to come before anything else
	}
	t.mu.Lock()
	t.kept = t.kept[kept:]
	t.mu.Unlock()
	return nil
}
