package main

import (
	"errors"
	"sync"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/llmclient"
)

// A tally counts what happens to the agents, from the events of the client and
// of the group. It is safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	agents  map[string]*count
	retries int
	causes  map[string]int // of all restarts so far
}

// A count is one agent's part of a tally.
type count struct {
	attempts int            // requests sent, or failed on their way
	failed   int            // attempts that failed since the last answer
	survived int            // failed attempts that an answer came after
	restarts map[string]int // how often, by cause
	phase    string
}

// The phases of an agent, as progress lines name them, in order.
const (
	phaseWaiting = "waiting" // for its turn
	phaseReading = "reading"
	phaseWriting = "writing"
	phaseSaving  = "saving"
)

// phaseAfter maps the step an agent took last to the phase it is in then.
func phaseAfter(step string) string {
	switch step {
	case stepRead:
		return phaseWriting
	case stepWrite:
		return phaseSaving
	}
	return phaseReading
}

func newTally(plan []article) *tally {
	t := &tally{agents: make(map[string]*count), causes: make(map[string]int)}
	for _, a := range plan {
		t.agents[a.name()] = &count{phase: phaseWaiting, restarts: make(map[string]int)}
	}
	return t
}

// called gets the events of the client. An attempt belongs to the agent that the
// request names as its caller.
func (t *tally) called(e llmclient.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == llmclient.EventRetry {
		t.retries++
	}
	c := t.agents[e.Caller]
	if c == nil {
		return
	}
	switch e.Kind {
	case llmclient.EventAttempt:
		c.attempts++
	case llmclient.EventFailed:
		if !errors.Is(e.Err, llmclient.ErrTruncated) { // the model's mistake, no fault
			c.failed++
		}
	case llmclient.EventDone:
		if e.Err == nil {
			c.survived += c.failed
			c.failed = 0
		}
	}
}

// acted gets the events of the group.
func (t *tally) acted(e agentloop.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.agents[e.Agent]
	if c == nil {
		return
	}
	switch e.Kind {
	case agentloop.EventStarted:
		c.phase = phaseReading
	case agentloop.EventRestart:
		why := firstOf(kindOf(e.Err), "other")
		c.restarts[why]++
		t.causes[why]++
	case agentloop.EventStep, agentloop.EventResumed:
		c.phase = phaseAfter(e.Step)
	case agentloop.EventEnded:
		c.phase = string(e.Outcome)
	}
}

// fill puts the agent's counts into its report, and the causes of its restarts beside
// its error.
func (t *tally) fill(a *agentReport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.agents[a.Name]; c != nil {
		a.Attempts, a.Survived = c.attempts, c.survived
		if a.Error != nil && len(c.restarts) > 0 {
			a.Error = orNull(*a.Error + "; restarted before: " + counts(c.restarts))
		}
	}
}

// restarts counts the restarts so far by cause, in one line.
func (t *tally) restarts() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return counts(t.causes)
}

// phases counts the agents in each phase, and the retries so far.
func (t *tally) phases() (byPhase map[string]int, retries int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byPhase = make(map[string]int)
	for _, c := range t.agents {
		byPhase[c.phase]++
	}
	return byPhase, t.retries
}
