package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/llmclient"
)

// announce says what is about to run.
func (h *harness) announce() {
	o := h.opts
	h.say.line("%q: %d messages, %d articles, up to %d agents in parallel, into %s",
		h.session.Title, len(h.session.Messages), len(h.desks), o.agents, o.out)
	if o.incident != "" {
		h.say.line("the model is an embedded engine with seed %d; %s", o.seed, h.server.befall.announce())
		end := "it ends when all articles are done"
		if o.deadline > 0 {
			end = "the run ends after " + seconds(o.deadline) + " at the latest (-deadline)"
		}
		h.say.line("%s; Ctrl-C ends it with all drafts kept", end)
		return
	}
	if h.server != nil {
		h.say.line("the model is an embedded server with seed %d, %s and %s", o.seed,
			spec("faults", o.faults, defaultFaults()), spec("habits", o.habits, defaultHabits()))
		h.say.line("its clocks are short, so that a hang costs a demo little: %s", clockLine(&h.clocks))
		return
	}
	set := firstOf(clockLine(&h.clocks), "none, the defaults hold")
	h.say.line("the model is %s at %s; limits set: %s", o.model, hideKey(o.baseURL), set)
}

// spec describes a specification. The defaults are long, and in the help.
func spec(what, value, usual string) string {
	if value == usual {
		return "the default " + what
	}
	return what + " " + value
}

// watch prints a line of progress now and then until ctx ends: often at first, later
// less, since a run of two hours must not fill the screen.
func (h *harness) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		elapsed := time.Since(h.started)
		if elapsed > time.Second {
			h.say.line("%s", h.progress(elapsed))
		}
		timer.Reset(pace(elapsed))
	}
}

// pace returns the time to the next line.
func pace(elapsed time.Duration) time.Duration {
	switch {
	case elapsed < time.Second:
		return time.Second
	case elapsed < time.Minute:
		return 2 * time.Second
	case elapsed < 10*time.Minute:
		return 10 * time.Second
	}
	return 30 * time.Second
}

// progress returns a line that tells how things stand.
func (h *harness) progress(elapsed time.Duration) string {
	agents, retries := h.tally.phases()
	saved := 0
	for _, d := range h.desks {
		if file, _ := d.paths(); file != "" {
			saved++
		}
	}
	calls := make(map[string]int)
	flying, oldest := 0, time.Duration(0)
	for _, c := range h.client.InFlight() {
		calls[c.Phase.String()]++
		if c.Phase >= llmclient.PhaseConnect {
			flying++
		}
		oldest = max(oldest, time.Since(c.Started))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%6s  saved %d/%d · agents: %s · in flight %d", seconds(elapsed), saved, len(h.desks), inOrder(agents, agentPhases()), flying)
	if len(calls) > 0 {
		fmt.Fprintf(&b, " · calls: %s, oldest %s", inOrder(calls, callPhases()), seconds(oldest))
	}
	fmt.Fprintf(&b, " · retries %d", retries)
	if restarts := h.tally.restarts(); restarts != "" {
		fmt.Fprintf(&b, " · restarts: %s", restarts)
	}
	fmt.Fprintf(&b, " · breaker %s", h.client.Breaker().State)
	b.WriteString(before(" · the server: ", h.doctor.state()))
	return b.String()
}

func agentPhases() []string {
	return []string{
		phaseWaiting, phaseReading, phaseWriting, phaseSaving,
		string(agentloop.Done), string(agentloop.Stalled), string(agentloop.Exhausted),
		string(agentloop.Failed), string(agentloop.Cancelled), string(agentloop.Abandoned),
	}
}

func callPhases() []string {
	var names []string
	for p := llmclient.PhaseStart; p <= llmclient.PhaseEnd; p++ {
		names = append(names, p.String())
	}
	return names
}

// inOrder writes the counts that are not zero, in the order of names.
func inOrder(m map[string]int, names []string) string {
	var out []string
	for _, name := range names {
		if n := m[name]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(out, ", ")
}
