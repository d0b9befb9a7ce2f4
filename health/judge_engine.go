package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

const (
	// longStep is how long a step of a healthy scheduler may take.
	longStep = 8 * time.Second

	// A prompt may take patience, and patiencePerByte for each of its bytes, before
	// its first token, even on a slow server.
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
	has := t.both(MetricRunning) + t.both(MetricWaiting) + t.both(MetricPutOff)
	switch {
	case t.moved:
		return refuted("%s did work between the last two samples (%s)", t.name,
			t.tells(MetricDecoded, MetricGenerated, MetricComputed, MetricPromptTokens))
	case t.stirred:
		return refuted("the scheduler of %s is at work: its gauges change", t.name)
	case has == 0:
		return refuted("%s had nothing to do at both moments", t.name)
	}
	// A step of the scheduler may take seconds. At rest the gauges keep their last
	// values, even those of aborted requests, so only time with calls counts.
	still := f.attended(t.quiet, t.now.At)
	need := max(longStep, 3*t.stride)
	if !f.stopped() && !t.last.stalled() {
		need = max(need, 2*longStep)
	}
	if still < need {
		return untold(fmt.Sprintf("%s: whether it stays like this for %s more", t.name, short(need-still)))
	}
	if t.both(MetricRunning) == 0 && t.both(MetricWaiting) > 0 && t.both(MetricKVUsage) >= 0.9 {
		// Memory is given back by requests that run, and none does.
		out := holds(ConfidenceHigh, t.quiet, t.fact("nothing runs, and its memory is full all the same: it is not given back", MetricKVUsage, MetricRunning, MetricWaiting, MetricAborted, MetricGenerated), f.calls())
		out.state = StateMemoryFull
		return out
	}
	fact := t.fact("it has requests and computes nothing", MetricRunning, MetricWaiting, MetricDecoded, MetricGenerated,
		MetricComputed, MetricPromptTokens, MetricThroughput)
	switch {
	case t.last.stalled():
		return holds(ConfidenceHigh, t.quiet, fact, t.schedulerFact(), f.calls())
	case t.role == RoleDecode || t.now.Readings.has(MetricComputed):
		return holds(ConfidenceHigh, t.quiet, fact, f.calls())
	}
	// These counters do not move while a prompt is computed. So this may be a long
	// prompt, unless an answer under way has stopped.
	if f.stopped() {
		return holds(ConfidenceHigh, t.quiet, fact, Fact{At: f.Now, Text: "answers that were coming have stopped"}, f.calls())
	}
	if allowed := f.longPrompt(); still < allowed {
		return untold(fmt.Sprintf("%s: whether it stays like this for %s; until then it may be a long prompt", t.name,
			short(allowed-still)))
	}
	return holds(ConfidenceMedium, t.quiet, fact, f.calls())
}

// longPrompt is how long the longest prompt among our calls may take.
func (f *facts) longPrompt() time.Duration {
	d := patience
	for _, c := range f.sent {
		d = max(d, patience+time.Duration(c.PromptBytes)*patiencePerByte)
	}
	return d
}

// stopped reports whether an answer under way has been without progress for
// longStep.
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

// frontEndAlone: the front end answers, and the engine behind it does not. Its
// gauges keep their last values.
func frontEndAlone(f *facts) finding {
	asked, needs := false, ""
	for _, t := range f.trails {
		if t.last == nil || t.last.Reach != ReachAnswered {
			continue
		}
		asked = asked || t.last.Scheduler != ReachUnasked
		if !t.last.stalled() {
			continue
		}
		switch {
		case t.compared() && (t.moved || t.stirred):
			continue
		case !t.last.EngineDead && t.compared() && t.now.At.Sub(t.quiet) < longStep,
			!t.last.EngineDead && t.now == nil && t.deaf() < 2,
			t.kind == KindLlamaCPP && f.Now.Sub(t.deafSince()) < f.longPrompt():
			// The scheduler may be in a long step.
			needs = t.name + ": whether its scheduler goes on not to answer"
			continue
		}
		sure := ConfidenceHigh
		if !t.last.EngineDead && len(f.quiet) == 0 {
			sure = ConfidenceMedium
		}
		return holds(sure, f.headway, t.schedulerFact(), t.fact("", MetricRunning, MetricWaiting, MetricDecoded,
			MetricGenerated), f.calls())
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
