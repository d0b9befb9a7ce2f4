package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

const (
	// longStep is what a step of a scheduler may take.
	longStep = 8 * time.Second

	// patience is what a prompt may take before its first token, and for each of
	// its bytes so much more, even on a slow server.
	patience        = 10 * time.Second
	patiencePerByte = 2500 * time.Microsecond
)

// wedgedEngine: it has requests and computes nothing.
func wedgedEngine(f *facts) finding {
	if len(f.engines) == 0 {
		return untold("two samples of the engine with its metrics")
	}
	var worst finding
	for _, t := range f.engines {
		got := wedgedTrail(f, t)
		if got.holds {
			return got
		}
		if worst.not == "" {
			worst = got
		}
	}
	return worst
}

func wedgedTrail(f *facts, t *trail) finding {
	if !t.compared() {
		return untold(t.name + ": two samples with its metrics")
	}
	has := t.both(Running) + t.both(Waiting) + t.both(PutOff)
	switch {
	case t.moved:
		return refuted("%s did work between the last two samples (%s)", t.name, t.tells(Decoded, Generated, Computed, PromptTokens))
	case t.stirred:
		return refuted("the scheduler of %s is at work: its gauges change", t.name)
	case has == 0:
		return refuted("%s had nothing to do at both moments", t.name)
	}
	// A step of the scheduler may take seconds, all of them in a long prompt. What
	// its gauges say at rest is what they said last: those of aborted requests
	// stand until the next one comes.
	still := f.attended(t.quiet, t.now.At)
	need := max(longStep, 3*t.stride)
	if !f.stopped() && !t.last.stalled() {
		need = max(need, 2*longStep)
	}
	if still < need {
		return untold(fmt.Sprintf("%s: whether it stays like this for %s more", t.name, short(need-still)))
	}
	if t.both(Running) == 0 && t.both(Waiting) > 0 && t.both(KVUsage) >= 0.9 {
		// What runs would give memory back. Nothing does.
		out := holds(High, t.quiet, t.fact("nothing runs, and its memory is full all the same: it is not given back", KVUsage, Running, Waiting, Aborted, Generated), f.calls())
		out.state = MemoryFull
		return out
	}
	fact := t.fact("it has requests and computes nothing", Running, Waiting, Decoded, Generated, Computed, PromptTokens, Throughput)
	switch {
	case t.last.stalled():
		return holds(High, t.quiet, fact, t.schedulerFact(), f.calls())
	case t.role == RoleDecode || t.now.Readings.has(Computed):
		return holds(High, t.quiet, fact, f.calls())
	}
	// Its counters do not move while a prompt is computed, so a long prompt
	// looks just like this, unless an answer that was coming has stopped.
	if f.stopped() {
		return holds(High, t.quiet, fact, Fact{At: f.Now, Text: "answers that were coming have stopped"}, f.calls())
	}
	if allowed := f.longPrompt(); still < allowed {
		return untold(fmt.Sprintf("%s: whether it stays like this for %s; until then it may be a long prompt", t.name, short(allowed-still)))
	}
	return holds(Medium, t.quiet, fact, f.calls())
}

// longPrompt is what a prompt among those that are there may take.
func (f *facts) longPrompt() time.Duration {
	d := patience
	for _, c := range f.sent {
		d = max(d, patience+time.Duration(c.PromptBytes)*patiencePerByte)
	}
	return d
}

// stopped reports whether an answer that was coming comes no more.
func (f *facts) stopped() bool {
	for _, c := range f.sent {
		if c.Phase == llmclient.PhaseOutput && f.waited(c) >= longStep {
			return true
		}
	}
	return false
}

func (t *trail) tells(ms ...Metric) string {
	for _, m := range ms {
		if t.delta(m) > 0 {
			return t.tell(m)
		}
	}
	return t.tell(ms[0])
}

func (t *trail) schedulerFact() Fact {
	text := "the front end answers, and a question that needs the scheduler was not answered"
	if t.last.EngineDead {
		text = "the front end says itself that the engine is dead"
	}
	at := t.last.AskedAt
	if at.IsZero() {
		at = t.last.At
	}
	return Fact{At: at, Of: t.name, Text: text}
}

// frontEndAlone: the front end answers, and there is no engine behind it that
// does. Its gauges stand as they stood.
func frontEndAlone(f *facts) finding {
	asked, needs := false, ""
	for _, t := range f.trails {
		if t.last == nil || t.last.Reach != Reached {
			continue
		}
		asked = asked || t.last.Scheduler != Unasked
		if !t.last.stalled() {
			continue
		}
		switch {
		case t.compared() && (t.moved || t.stirred):
			continue
		case !t.last.EngineDead && t.compared() && t.now.At.Sub(t.quiet) < longStep,
			!t.last.EngineDead && t.now == nil && t.deaf() < 2,
			t.kind == LlamaCPP && f.Now.Sub(t.deafSince()) < f.longPrompt():
			// It may be in the middle of a long step.
			needs = t.name + ": whether its scheduler goes on not to answer"
			continue
		}
		sure := High
		if !t.last.EngineDead && len(f.quiet) == 0 {
			sure = Medium
		}
		return holds(sure, f.headway, t.schedulerFact(), t.fact("", Running, Waiting, Decoded, Generated), f.calls())
	}
	if needs != "" {
		return untold(needs)
	}
	if asked {
		return refuted("the scheduler answers")
	}
	if f.moved() {
		return refuted("the engine works")
	}
	return finding{}
}
