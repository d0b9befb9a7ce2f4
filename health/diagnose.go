package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A finding is what a hypothesis comes to.
type finding struct {
	holds bool
	sure  Confidence
	since time.Time
	facts []Fact
	not   string   // the fact that refutes it
	need  string   // what would tell, if nothing does; with neither it does not apply
	note  string   // for the advice, such as an address
	state State    // if it is another than the hypothesis'
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

// hypotheses are all of them, the most telling first: one that holds explains
// what those below it would see as well. A server that answers nobody also
// serves nobody, and one that is full also makes calls wait.
var hypotheses = []hypothesis{
	{Unreachable, unreachable},
	{OutOfQuota, outOfQuota},
	{Throttled, throttled},
	{PartialRestart, pairwise(partialRestart)},
	{WedgedHandshake, wedgedHandshake},
	{WedgedTransfer, pairwise(wedgedTransfer)},
	{LongContext, longContext},
	{WedgedEngine, wedgedEngine},
	{FrontEndAlone, frontEndAlone},
	{Runaway, runaway},
	{Lost, lost},
	{RouterFull, routerFull},
	{OwnAborts, ownAborts},
	{Failing, failing},
	{Serialised, serialised},
	{MemoryFull, memoryFull},
	{StuckPrefill, stuckPrefill},
	{PrefillBound, prefillBound},
	{Saturated, saturated},
	{OwnBreaker, ownBreaker},
	{OwnQueue, ownQueue},
	{OneCaller, oneCaller},
	{StuckTool, stuckTool},
	{Recovered, recovered},
	{Healthy, healthy},
	{Busy, busy},
	{Unproven, unproven},
	{Idle, idle},
}

// Diagnose makes a verdict of both views. It asks nobody and keeps nothing: the
// same facts give the same verdict. The samples may be of several targets, in
// any order; those of one target should cover some minutes.
func Diagnose(v View, samples []Sample) Verdict { return gather(v, samples).diagnose() }

func (f *facts) diagnose() Verdict {
	out := Verdict{State: CannotTell, Confidence: Low, At: f.Now, Uniform: f.uniform}
	var needs []string
	var open bool // the last fault is neither seen nor ruled out
	for _, h := range hypotheses {
		got := h.test(f)
		if f.Fault != nil && h.state == f.Fault.State {
			open = !got.holds && got.not == ""
		}
		switch {
		case got.holds:
			if out.State == CannotTell {
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
	if out.State == CannotTell && open && f.Fault.State.theirs() && !f.headway.After(f.Fault.At) && !f.mixed() {
		got := f.unchanged("and nothing shows that it is not so any more")
		out.State, out.Confidence, out.Since, out.Evidence = got.state, got.sure, got.since, got.facts
		out.Do = advise(got.state, "")
	}
	if out.State == CannotTell {
		out.Evidence = []Fact{f.calls(), f.outcome()}
		if !f.uniform.Since.IsZero() && f.uniform.Systemic {
			out.Since = f.uniform.Since
		}
		out.WouldTell = append(f.missing(), needs...)
	} else if out.Confidence < High {
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

// missing says what would tell more, for want of which little can be told.
func (f *facts) missing() []string {
	var out []string
	if len(f.trails) == 0 {
		out = append(out, "samples of the server: give the Monitor its address as a Target")
	}
	for _, t := range f.trails {
		switch {
		case t.last == nil:
			out = append(out, t.name+": a sample that is not older than "+short(staleAfter))
		case t.last.Reach != Reached:
			out = append(out, t.name+": that it can be reached from here")
		case t.mixed:
			out = append(out, t.name+": a Target for each server behind that address: their metrics come in turns, and their counters go back and forth")
		case t.frozen:
			out = append(out, t.name+": metrics that are renewed: answers come, and they stand still")
		case t.last.Readings == nil && t.kind == SGLang:
			out = append(out, t.name+": its metrics, which --enable-metrics turns on")
		case t.last.Readings == nil && t.kind == LlamaCPP:
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
		out = append(out, "what became of calls: give the client OnEvent: monitor.Note")
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
