package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A finding is the result of a hypothesis. If it neither holds nor names a fact or
// a need, the hypothesis does not apply.
type finding struct {
	holds bool
	sure  Confidence
	since time.Time
	facts []Fact
	not   string   // the fact that rules it out
	need  string   // the fact that is missing
	note  string   // for the advice, such as an address
	state State    // if it differs from the hypothesis'
	do    []string // instead of the state's advice
}

func holds(sure Confidence, since time.Time, facts ...Fact) finding {
	return finding{holds: true, sure: sure, since: since, facts: facts}
}

func refuted(format string, args ...any) finding { return finding{not: fmt.Sprintf(format, args...)} }

func untold(need string) finding { return finding{need: need} }

// A hypothesis is a state and the test of whether the service is in it.
type hypothesis struct {
	state State
	test  func(*facts) finding
}

// hypotheses are in order: the first that holds is the verdict, since it explains
// what those below it would see as well. An unreachable server answers no call, and
// a full one makes calls wait.
var hypotheses = []hypothesis{
	{StateUnreachable, unreachable},
	{StateOutOfQuota, outOfQuota},
	{StateThrottled, throttled},
	{StatePartialRestart, pairwise(partialRestart)},
	{StateWedgedHandshake, wedgedHandshake},
	{StateWedgedTransfer, pairwise(wedgedTransfer)},
	{StateLongContext, longContext},
	{StateWedgedEngine, wedgedEngine},
	{StateFrontEndAlone, frontEndAlone},
	{StateRunaway, runaway},
	{StateLost, lost},
	{StateRouterFull, routerFull},
	{StateOwnAborts, ownAborts},
	{StateFailing, failing},
	{StateSerialised, serialised},
	{StateMemoryFull, memoryFull},
	{StateStuckPrefill, stuckPrefill},
	{StatePrefillBound, prefillBound},
	{StateSaturated, saturated},
	{StateOwnBreaker, ownBreaker},
	{StateOwnQueue, ownQueue},
	{StateOneCaller, oneCaller},
	{StateStuckTool, stuckTool},
	{StateRecovered, recovered},
	{StateHealthy, healthy},
	{StateBusy, busy},
	{StateUnproven, unproven},
	{StateIdle, idle},
}

// Diagnose makes a verdict of what the client knows and of samples of the servers.
// It asks no server and keeps nothing: the same facts give the same verdict. The
// samples may be of several targets, in any order. Those of one target should cover
// some minutes.
func Diagnose(v View, samples []Sample) Verdict { return gather(v, samples).diagnose() }

func (f *facts) diagnose() Verdict {
	out := Verdict{State: StateCannotTell, Confidence: ConfidenceLow, At: f.Now, Uniform: f.uniform}
	var needs []string
	var open bool // the last fault neither holds nor is ruled out
	for _, h := range hypotheses {
		got := h.test(f)
		if f.Fault != nil && h.state == f.Fault.State {
			open = !got.holds && got.not == ""
		}
		switch {
		case got.holds:
			if out.State == StateCannotTell {
				if got.state == "" {
					got.state = h.state
				}
				out.State, out.Confidence, out.Since, out.Evidence = got.state, got.sure, got.since, got.facts
				if out.Do = got.do; out.Do == nil {
					out.Do = advise(got.state, got.note)
				}
			}
		case got.not != "":
			out.RuledOut = append(out.RuledOut, Exclusion{h.state, got.not})
		case got.need != "":
			needs = append(needs, got.need)
		}
	}
	if out.State == StateCannotTell && open && f.Fault.State.theirs() && !f.headway.After(f.Fault.At) && !f.mixed() {
		got := f.unchanged("and nothing shows that it is not so any more")
		out.State, out.Confidence, out.Since, out.Evidence = got.state, got.sure, got.since, got.facts
		out.Do = advise(got.state, "")
	}
	if out.State == StateCannotTell {
		out.Evidence = []Fact{f.calls(), f.outcome()}
		if !f.uniform.Since.IsZero() && f.uniform.Systemic {
			out.Since = f.uniform.Since
		}
		out.WouldTell = append(f.missing(), needs...)
	} else if out.Confidence < ConfidenceHigh {
		out.WouldTell = append(f.missing(), needs...)
	}
	out.WouldTell = distinct(out.WouldTell)
	out.Evidence = slices.DeleteFunc(out.Evidence, func(f Fact) bool { return f.Text == "" })
	if f.uniform.Systemic && out.State.Fault() && (out.Since.IsZero() || f.uniform.Since.Before(out.Since)) {
		out.Since = f.uniform.Since
	}
	out.sheet = newSheet(f)
	return out
}

func advise(s State, note string) []string {
	var out []string
	for _, a := range advice[s] {
		if strings.Contains(a, "%s") {
			if note == "" {
				a = strings.TrimSuffix(a, ": %s")
			} else {
				a = fmt.Sprintf(a, note)
			}
		}
		out = append(out, a)
	}
	return out
}

// missing lists the facts that are missing, and how to get them.
func (f *facts) missing() []string {
	var out []string
	if len(f.trails) == 0 {
		out = append(out, "samples of the server: give the Monitor its address as a Target")
	}
	for _, t := range f.trails {
		switch {
		case t.last == nil:
			out = append(out, t.name+": a sample that is not older than "+short(staleAfter))
		case t.last.Reach != ReachAnswered:
			out = append(out, t.name+": that it can be reached from here")
		case t.mixed:
			out = append(out, t.name+": a Target for each server behind that address: their metrics come in turns, and their counters go back and forth")
		case t.frozen:
			out = append(out, t.name+": metrics that are renewed: answers come, and they stand still")
		case t.last.Readings == nil && t.kind == KindSGLang:
			out = append(out, t.name+": its metrics, which --enable-metrics turns on")
		case t.last.Readings == nil && t.kind == KindLlamaCPP:
			out = append(out, t.name+": its metrics, which --metrics turns on")
		case t.last.Readings == nil:
			out = append(out, t.name+": its metrics")
		case t.was == nil:
			out = append(out, t.name+": a second sample")
		}
	}
	if f.told() && f.partial() {
		out = append(out, "a Target for each server of the service: more calls were answered than those that are watched count")
	}
	if len(f.Recent) == 0 && len(f.Calls) > 0 {
		out = append(out, "what became of calls: pass the client's Config to Monitor.Attach")
	}
	return out
}

func distinct(in []string) []string {
	var out []string
	seen := make(map[string]bool)
	for _, s := range in {
		if s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
