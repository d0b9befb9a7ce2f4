package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// ownBreaker: calls wait for our breaker, and the server shows no fault.
func ownBreaker(f *facts) finding {
	n, since := f.in(llmclient.PhaseBreaker)
	if n == 0 || n*2 < len(f.Calls) {
		return refuted("%d of %d calls wait for a breaker", n, len(f.Calls))
	}
	if len(f.quiet) > 0 {
		return refuted("calls that it let through wait as well, for up to %s", short(f.longest(f.quiet)))
	}
	if f.Fault != nil && f.Fault.State.theirs() && !f.headway.After(f.Fault.At) {
		return f.unchanged("and our breaker holds calls back")
	}
	theirs := func(e *Ended) bool { return netFailure(e) && !e.byUs() }
	if failed := f.row(theirs); failed >= 3 && failed >= f.row((*Ended).byUs) {
		return finding{holds: true, state: StateFailing, sure: ConfidenceMedium, since: f.first(theirs),
			facts: []Fact{f.outcome(), f.calls()}}
	} else if failed, _ = f.ended(netFailure); failed >= 3 {
		return refuted("it is open for a reason: %s", f.outcome().Text)
	}
	out := holds(ConfidenceMedium, since, f.calls())
	for _, ep := range f.Endpoints {
		if b := ep.Breaker; b.Since.After(time.Time{}) && !b.Retry.IsZero() {
			out.sure = ConfidenceHigh
			out.facts = append([]Fact{{At: b.Since, Text: fmt.Sprintf("the breaker of %s is %s; its next trial is at %s",
				ep.Name, b.State, b.Retry.Format(time.TimeOnly))}}, out.facts...)
		}
	}
	return out
}

// unchanged is the finding that the last fault is still there: nothing has shown
// that it is over. A server that can be reached again, or has restarted, is
// unproven.
func (f *facts) unchanged(why string) finding {
	was := f.Fault
	out := finding{holds: true, state: was.State, sure: ConfidenceLow, since: was.Since}
	out.facts = []Fact{{At: was.At, Text: fmt.Sprintf("it was last seen to be %q; since then no call was answered, %s",
		was.State, why)}, f.calls()}
	anew := f.renewed(was.At)
	switch {
	case was.State == StateUnreachable:
		out.facts[0].Text = "it can be reached again; no call was answered yet, and our breaker holds calls back"
	case was.State == StateFailing && anew != "":
		out.facts[0].Text = anew + " has restarted; no call was answered yet, and our breaker holds calls back"
	default:
		return out
	}
	out.state = StateUnproven
	return out
}

// ownQueue: calls wait for our pacer, and the server answers those that it let
// through.
func ownQueue(f *facts) finding {
	n, since := f.in(llmclient.PhaseQueue, llmclient.PhaseBackoff)
	if n < 2 || n*2 < len(f.Calls) || f.Now.Sub(since) < quietAfter {
		return refuted("%d of %d calls wait on our side", n, len(f.Calls))
	}
	if why := f.keeps(); why != "" {
		return refuted("%s", why)
	}
	out := holds(ConfidenceMedium, since, f.calls())
	for _, ep := range f.Endpoints {
		if p := ep.Pacer; p.Queued > 0 {
			switch p.WaitingFor {
			case pacer.ReasonLoad:
				return refuted("not by its settings: the pacer holds %d calls back since more would be too much for the server now", p.Queued)
			case pacer.ReasonCoolDown, pacer.ReasonReadmission, pacer.ReasonAllotted:
				return refuted("not by its settings: the pacer holds %d calls back as the server asked it to", p.Queued)
			}
			out.sure = ConfidenceHigh
			text := fmt.Sprintf("the pacer of %s has %d waiting and %d in flight, the longest for %s", ep.Name, p.Queued,
				p.InFlight, short(p.Longest))
			if p.WaitingFor != "" {
				text += fmt.Sprintf(", for %s", p.WaitingFor)
			}
			out.facts = append([]Fact{{At: f.Now, Text: text}}, out.facts...)
		}
	}
	for _, t := range f.engines {
		if t.compared() {
			out.facts = append(out.facts, t.fact("", MetricRunning, MetricWaiting, MetricDecoded, MetricGenerated))
		}
	}
	if !f.hasRoom() {
		out.do = []string{"raise the pacer's limits if the server has room: its metrics would show whether it has"}
	}
	return out
}

// keeps says why calls wait for the server, even if others wait for our pacer or
// breaker: an engine has requests and computed nothing, or no call of ours that is
// with it makes progress. It is empty if neither is so.
func (f *facts) keeps() string {
	for _, t := range f.engines {
		if t.compared() && !t.moved && t.both(MetricRunning)+t.both(MetricWaiting)+t.both(MetricPutOff) > 0 &&
			f.attended(t.was.At, t.now.At) > 0 {
			return fmt.Sprintf("%s has requests, and computed nothing of them in %s", t.name, short(t.span))
		}
	}
	// A call that has taken as long as others did proves nothing, and neither does
	// one that was just sent.
	failed := slices.ContainsFunc(f.lately, func(e Ended) bool { return !e.ok() && e.At.After(f.headway) })
	pause := f.pause()
	if len(f.sent) == 0 || f.longest(f.sent) < pause && !failed || f.Now.Sub(f.headway) < pause {
		return ""
	}
	if f.headway.IsZero() {
		return fmt.Sprintf("the calls that are with it get nowhere, for up to %s", short(f.longest(f.sent)))
	}
	return "the calls that are with it get nowhere, since " + f.headway.Format(time.TimeOnly)
}

// pause is for how long all of our calls may be without progress on a healthy
// server: as long as the longest answer of the last minute took, within 2 s and 8 s
// or the longest wait for a first output.
func (f *facts) pause() time.Duration {
	const least = 2 * time.Second
	var whole time.Duration
	for i := range f.lately {
		if e := &f.lately[i]; e.ok() {
			whole = max(whole, e.At.Sub(e.Started))
		}
	}
	if whole == 0 {
		whole = quietAfter
	}
	return max(least, min(whole, max(quietAfter, f.typical())))
}

// hasRoom reports whether the metrics of all engines show room: no queue, free
// memory, and work on the requests that they have.
func (f *facts) hasRoom() bool {
	if !f.told() || f.queued() > 0 {
		return false
	}
	for _, t := range f.engines {
		if t.both(MetricKVUsage) >= 0.9 || !t.moved && t.both(MetricRunning) > 0 {
			return false
		}
	}
	return true
}

// in counts the calls in some phases, and returns since when the oldest of them is.
func (f *facts) in(phases ...llmclient.Phase) (n int, since time.Time) {
	for _, c := range f.Calls {
		for _, p := range phases {
			if c.Phase == p {
				n++
				if since.IsZero() || c.Since.Before(since) {
					since = c.Since
				}
			}
		}
	}
	return n, since
}

// stuckTool: an agent has been in a tool for 2 minutes, and no call waits.
func stuckTool(f *facts) finding {
	const long = 2 * time.Minute
	var stuck []Activity
	for _, a := range f.Local {
		if f.Now.Sub(a.Since) >= long {
			stuck = append(stuck, a)
		}
	}
	switch {
	case len(stuck) == 0 && f.Local == nil:
		return finding{}
	case len(stuck) == 0:
		return refuted("no tool call under way is older than %s", short(long))
	case len(f.quiet) > 0:
		return refuted("%d calls wait for the server as well", len(f.quiet))
	}
	out := holds(ConfidenceHigh, stuck[0].Since)
	for i, a := range stuck {
		if i == 5 {
			out.facts = append(out.facts, Fact{At: f.Now, Text: fmt.Sprintf("and %d more", len(stuck)-i)})
			break
		}
		if a.Since.Before(out.since) {
			out.since = a.Since
		}
		out.facts = append(out.facts, Fact{At: f.Now, Text: fmt.Sprintf("%s is in %s for %s", a.Caller, a.What,
			short(f.Now.Sub(a.Since)))})
	}
	out.facts = append(out.facts, f.calls())
	return out
}

// oneCaller: one caller waits, and others are served.
func oneCaller(f *facts) finding {
	if len(f.quiet) == 0 {
		return refuted("no call has waited for %s", short(quietAfter))
	}
	who := f.quiet[0].Caller
	for _, c := range f.quiet {
		if c.Caller != who || who == "" {
			return refuted("several callers wait")
		}
	}
	since := f.oldest(f.quiet)
	others := make(map[string]bool)
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.Caller != who && e.Started.After(since) {
			others[e.Caller] = true
		}
	}
	wait := f.longest(f.quiet)
	switch {
	case len(others) < 3:
		return refuted("%d other callers were served since", len(others))
	case wait < max(30*time.Second, 5*f.typical()):
		return refuted("it has waited for %s only", short(wait))
	}
	return holds(ConfidenceMedium, since, Fact{At: f.Now,
		Text: fmt.Sprintf("only %s waits, for %s, with a request of %d bytes; %d others were served since", who,
			short(wait), f.quiet[0].PromptBytes, len(others))}, f.calls())
}
