package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

const noMetrics = "two samples with metrics: how many requests run and wait, and whether tokens are made"

// working reports whether an engine did work between its samples, or why not.
func (f *facts) working() (bad finding, ok bool) {
	switch {
	case !f.told():
		return untold(noMetrics), false
	case !f.moved():
		return refuted("no tokens were made between the last two samples"), false
	}
	return finding{}, true
}

// load returns metrics of all engines as facts, and that of the calls.
func (f *facts) load(ms ...Metric) []Fact {
	var out []Fact
	for _, t := range f.engines {
		out = append(out, t.fact("", ms...))
	}
	return append(out, f.calls())
}

// queued is how many requests waited in engines in both samples.
func (f *facts) queued() float64 {
	return f.both(MetricWaiting, MetricPutOff, MetricPrealloc, MetricBootstrap)
}

// routerFull: the queue is the router's, and the engine has room.
func routerFull(f *facts) finding {
	r := f.router
	refusals, _ := f.ended(full)
	switch {
	case r == nil:
		return finding{}
	case !r.compared() || !f.told():
		return untold("two samples each of the router and the engines with their metrics")
	case f.queued() > 0:
		return refuted("the engine has a queue of its own of %s", number(f.queued()))
	}
	for _, t := range f.engines {
		if t.both(MetricKVUsage) >= 0.9 {
			return refuted("the memory of %s is full", t.name)
		}
	}
	inRouter := min(r.was.Readings[MetricConnections]-r.was.Readings[MetricActive],
		r.now.Readings[MetricConnections]-r.now.Readings[MetricActive])
	// Only if some calls are served as well, refusals come from a full queue.
	shut := f.row(full) > 0 || !f.servedAmid(full)
	if inRouter < 2 && (refusals < 3 || shut) {
		return refuted("the router had no queue at both moments")
	}
	if inRouter >= 2 && !f.moved() && refusals == 0 {
		return refuted("the engine makes no tokens")
	}
	facts := []Fact{r.fact(fmt.Sprintf("%s requests wait in it", number(max(inRouter, 0))), MetricConnections,
		MetricActive, MetricErrors)}
	return holds(ConfidenceHigh, time.Time{}, append(facts,
		append(f.load(MetricRunning, MetricWaiting, MetricDecoded, MetricGenerated), f.outcome())...)...)
}

// servedAmid reports whether in the last minute a call was sent and answered after
// an attempt of some kind had ended.
func (f *facts) servedAmid(is func(*Ended) bool) bool {
	var first time.Time
	for i := range f.lately {
		switch e := &f.lately[i]; {
		case first.IsZero() && is(e):
			first = e.At
		case !first.IsZero() && e.ok() && e.Started.After(first):
			return true
		}
	}
	return false
}

// ownAborts: calls that we gave up keep the server busy.
func ownAborts(f *facts) finding {
	const span = 20 * time.Second
	n := f.endedSince(span, func(e *Ended) bool {
		// Calls that we gave up while the server stood still are not the cause.
		stood := f.Fault != nil && f.Fault.State.theirs() && f.Fault.State != StateOwnAborts && !e.Started.After(f.Fault.At)
		return e.byUs() && !stood
	})
	taken := f.endedSince(span, func(e *Ended) bool { return !full(e) })
	if n < 5 || n*10 < taken*4 {
		return refuted("%d of %d calls that the server took and that ended in the last %s were given up by us", n, taken,
			short(span))
	}
	if f.wellAgain() {
		return refuted("the last calls were all answered")
	}
	// Aborted requests may hold all slots. Then there is a queue, and a scheduler
	// that lives and computes nothing.
	if bad, ok := f.working(); !ok && !(f.told() && f.stirred() && f.both(MetricWaiting) > 0) {
		return bad
	}
	if d := f.decode; d.compared() && !d.moved {
		return refuted("the decode side makes no tokens")
	}
	aborted, told := 0.0, false
	for _, t := range f.engines {
		if _, has := t.get(MetricAborted); has {
			told = true
			aborted += t.grown(MetricAborted, f.Now.Add(-lately))
		}
	}
	if told && aborted == 0 {
		return refuted("the server has aborted nothing in the last minute")
	}
	sure := ConfidenceMedium
	if told && aborted*2 >= float64(n) {
		sure = ConfidenceHigh
	}
	out := holds(sure, f.first((*Ended).byUs),
		Fact{At: f.Now, Text: fmt.Sprintf("%d of the %d calls that the server took and that ended in the last %s were given up by us; it counts %s aborted in a minute", n, taken, short(span), number(aborted))}, f.outcome())
	out.facts = append(out.facts, f.load(MetricRunning, MetricWaiting, MetricAborted, MetricDecoded, MetricGenerated)...)
	return out
}

// wellAgain reports whether the last calls that ended were all answered.
func (f *facts) wellAgain() bool {
	const row = 5
	for i := range row {
		if n := len(f.Recent) - 1 - i; n < 0 || !f.Recent[n].ok() {
			return false
		}
	}
	return true
}

// serialised: the engine computes one answer at a time, and others wait.
func serialised(f *facts) finding {
	bad, ok := f.working()
	if !ok {
		return bad
	}
	for _, t := range f.engines {
		if t.role == RolePrefill {
			continue
		}
		line := t.both(MetricWaiting) + t.both(MetricPutOff) + t.both(MetricPrealloc)
		if len(f.sent) > 1 {
			line += float64(f.heldBack()) // they would wait there, had our pacer not adapted
		}
		switch {
		case t.now.Readings[MetricRunning] != 1 || t.was.Readings[MetricRunning] != 1:
			return refuted("%s computes %s answers at a time", t.name, number(t.now.Readings[MetricRunning]))
		case line < 2:
			return refuted("%s has no line of requests", t.name)
		case t.both(MetricKVUsage) >= 0.9:
			return refuted("the memory of %s is full", t.name)
		}
		sure, since := ConfidenceMedium, t.was.At
		for i, seen := len(t.all)-1, 0; i >= 0 && t.all[i].told() && t.all[i].Readings[MetricRunning] == 1; i-- {
			since = t.all[i].At
			if seen++; seen >= 3 {
				sure = ConfidenceHigh
			}
		}
		return holds(sure, since, t.fact("it computes one answer at a time", MetricRunning, MetricWaiting, MetricPrealloc,
			MetricKVUsage, MetricDecoded, MetricGenerated), f.calls())
	}
	return finding{}
}

// memoryFull: there is no memory left for keys and values.
func memoryFull(f *facts) finding {
	bad, ok := f.working()
	if !ok {
		return bad
	}
	var most float64
	for _, t := range f.engines {
		use := max(t.now.Readings[MetricKVUsage], t.was.Readings[MetricKVUsage])
		most = max(most, use)
		line := t.both(MetricWaiting) + t.both(MetricPutOff) + t.both(MetricPrealloc)
		putOff := t.grown(MetricPreempted, f.Now.Add(-lately/2))
		if t.both(MetricKVUsage) >= 0.9 && line > 0 || use >= 0.7 && putOff >= 1 {
			return holds(ConfidenceHigh, t.was.At, append([]Fact{t.fact("its memory is full, and requests wait for it or are put off", MetricKVUsage, MetricPreempted, MetricPutOff, MetricRunning, MetricWaiting)}, f.calls())...)
		}
	}
	return refuted("the memory for keys and values was used to %.0f%% at most", 100*most)
}

// prefillBound: nearly all that is computed are tokens of prompts.
func prefillBound(f *facts) finding {
	bad, ok := f.working()
	if !ok {
		return bad
	}
	var prompts, made float64
	for _, t := range f.engines {
		if t.role != RoleDecode {
			if t.now.Readings.has(MetricComputed) {
				prompts += t.delta(MetricComputed)
			} else {
				prompts += t.delta(MetricPromptTokens)
			}
		}
		if t.role != RolePrefill {
			made += max(t.delta(MetricDecoded), t.delta(MetricGenerated))
		}
	}
	first := 0
	for _, c := range f.sent {
		if c.Phase == llmclient.PhaseFirstOutput {
			first++
		}
	}
	if p := f.prefill; p.compared() && p.now.Readings[MetricRunning]+p.now.Readings[MetricWaiting] == 0 {
		return refuted("the prefill side has nothing to do")
	}
	switch {
	case prompts < 20*(made+1) || prompts < 1000:
		return refuted("%s tokens of prompts were computed and %s of answers", number(prompts), number(made))
	case len(f.quiet) == 0 && f.both(MetricWaiting, MetricBootstrap) == 0 && f.heldBack() == 0 || first*2 < len(f.sent):
		return refuted("%d of %d calls wait for their first output", first, len(f.sent))
	}
	cause := Fact{At: f.Now, Text: fmt.Sprintf("%s tokens of prompts were computed for %s of answers, and %d of %d calls wait for their first", number(prompts), number(made), first, len(f.sent))}
	return holds(ConfidenceHigh, time.Time{}, append([]Fact{cause},
		f.load(MetricRunning, MetricWaiting, MetricComputed, MetricPromptTokens, MetricDecoded, MetricGenerated)...)...)
}

// saturated: the engine works at its limit, and there is a queue.
func saturated(f *facts) finding {
	bad, ok := f.working()
	if !ok {
		return bad
	}
	if held := f.heldBack(); f.queued() == 0 && held == 0 {
		return refuted("the engine had no queue at both moments")
	} else if held > 0 {
		return holds(ConfidenceHigh, time.Time{}, append([]Fact{{At: f.Now,
			Text: fmt.Sprintf("our pacer holds %d calls back since more would be too much for it", held)}},
			f.load(MetricRunning, MetricWaiting, MetricPrealloc, MetricKVUsage, MetricDecoded, MetricGenerated)...)...)
	}
	cause := Fact{At: f.Now, Text: fmt.Sprintf("it works as much as it can, and at least %s requests waited in it all the time", number(f.queued()))}
	return holds(ConfidenceHigh, time.Time{}, append([]Fact{cause},
		append(f.load(MetricRunning, MetricWaiting, MetricPrealloc, MetricKVUsage, MetricRejected, MetricDecoded,
			MetricGenerated), f.outcome())...)...)
}

// busy: the engine works, and calls of ours are with it.
func busy(f *facts) finding {
	bad, ok := f.working()
	if !ok {
		return bad
	}
	if len(f.sent) == 0 {
		return refuted("no call of ours is with it")
	}
	return holds(ConfidenceHigh, time.Time{}, f.load(MetricRunning, MetricWaiting, MetricComputed, MetricDecoded,
		MetricGenerated)...)
}

// healthy: calls are answered, and none waits for long.
func healthy(f *facts) finding {
	ok, last := f.succeeded()
	switch {
	case ok == 0:
		return refuted("no call was answered in the last minute")
	case ok*10 < len(f.lately)*9:
		return refuted("%d of %d calls of the last minute were answered", ok, len(f.lately))
	case f.row(func(e *Ended) bool { return !e.ok() }) >= 3:
		return refuted("the last %d calls that ended were not answered", f.row(func(e *Ended) bool { return !e.ok() }))
	case len(f.quiet) > 0 && f.longest(f.quiet) > max(quietAfter, 4*f.usual()):
		return refuted("a call has got nowhere for %s", short(f.longest(f.quiet)))
	case f.nowadays() > max(2*time.Second, 5*f.usual()):
		return refuted("answers begin after %s, where %s was usual", short(f.nowadays()), short(f.usual()))
	}
	// The last minute was well, but the calls of this moment may not be.
	if why := f.keeps(); why != "" {
		return refuted("%s", why)
	}
	sure := ConfidenceHigh
	if ok < 3 {
		sure = ConfidenceMedium
	}
	return holds(sure, time.Time{}, f.outcome(), Fact{At: last, Text: "the last answer"}, f.calls())
}

// usual is the median time to the first output before the last minute, or in it if
// fewer than 5 are known from before.
func (f *facts) usual() time.Duration {
	if before := f.firsts(f.Recent[:len(f.Recent)-len(f.lately)]); len(before) >= 5 {
		return before[len(before)/2]
	}
	return f.nowadays()
}

// nowadays is the median of the last minute, 0 if there were fewer than 5.
func (f *facts) nowadays() time.Duration {
	d := f.firsts(f.lately)
	if len(d) < 5 {
		return 0
	}
	return d[len(d)/2]
}

// firsts are the times to the first output, sorted, without those of prompts twice
// as long as the median.
func (f *facts) firsts(list []Ended) []time.Duration {
	var sizes []int
	for i := range f.Recent {
		sizes = append(sizes, f.Recent[i].PromptBytes)
	}
	slices.Sort(sizes)
	var d []time.Duration
	for i := range list {
		if e := &list[i]; e.ok() && e.FirstOutput > 0 && e.PromptBytes <= 2*sizes[len(sizes)/2] {
			d = append(d, e.FirstOutput)
		}
	}
	slices.Sort(d)
	return d
}

// typical is the longest time to the first output in the last minute.
func (f *facts) typical() (d time.Duration) {
	for i := range f.lately {
		d = max(d, f.lately[i].FirstOutput)
	}
	return d
}

// recovered: calls are answered again after a fault.
func recovered(f *facts) finding {
	if f.Fault == nil {
		return refuted("there was no fault")
	}
	n, total := 0, 0
	for i := range f.Recent {
		if e := &f.Recent[i]; e.Started.After(f.Fault.At) {
			total++
			if e.ok() {
				n++
			}
		}
	}
	if n < 3 || n*10 < total*9 || len(f.quiet) > 0 {
		return refuted("%d of %d calls that were sent since %s (%s) were answered", n, total,
			f.Fault.At.Format(time.TimeOnly), f.Fault.State)
	}
	return holds(ConfidenceHigh, f.Fault.At, Fact{At: f.Now,
		Text: fmt.Sprintf("%d of %d calls that were sent since it was last %q, at %s, were answered", n, total,
			f.Fault.State, f.Fault.At.Format(time.TimeOnly))}, f.calls())
}

// unproven: no call is with the server since a fault.
func unproven(f *facts) finding {
	if f.Fault == nil {
		return refuted("there was no fault")
	}
	if len(f.sent) > 0 {
		return refuted("calls are with the server")
	}
	return holds(ConfidenceHigh, f.Fault.At, Fact{At: f.Fault.At,
		Text: fmt.Sprintf("it was last %q, and fewer than 3 calls were answered since", f.Fault.State)}, f.calls())
}

// idle: no call is with the server, or none has waited for long.
func idle(f *facts) finding {
	if len(f.quiet) > 0 || len(f.sent) > 0 && len(f.lately) > 0 {
		return refuted("%d calls are with the server", len(f.sent))
	}
	if ok, _ := f.succeeded(); len(f.lately) > ok {
		return refuted("calls have failed in the last minute")
	}
	text := "no call is in flight; at rest a healthy server and one that is about to hang look the same"
	if len(f.Calls) > 0 {
		text = "no call has waited for long yet"
	}
	return holds(ConfidenceHigh, time.Time{}, Fact{At: f.Now, Text: text})
}
