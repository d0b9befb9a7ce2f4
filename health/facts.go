package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

const (
	// quietAfter is how long a call must be without progress to be suspected.
	quietAfter = 8 * time.Second

	// lately is how old the outcome of a call may be to describe the present.
	lately = time.Minute
)

// facts are a view and samples, and what all hypotheses need to know of them.
type facts struct {
	View
	trails  []*trail
	engines []*trail // all but the router
	router  *trail
	prefill *trail // all prefill engines as one
	decode  *trail // likewise

	sent    []llmclient.InFlight // calls that are with the server
	quiet   []llmclient.InFlight // those of them without progress for quietAfter
	headway time.Time            // when any call last made progress
	uniform Uniformity
	lately  []Ended // of the last minute
}

func gather(v View, samples []Sample) *facts {
	f := &facts{View: v}
	byTarget := make(map[string][]Sample)
	var order []string
	for _, s := range samples {
		if _, there := byTarget[s.Target]; !there {
			order = append(order, s.Target)
		}
		byTarget[s.Target] = append(byTarget[s.Target], s)
	}
	for _, name := range order {
		list := byTarget[name]
		slices.SortStableFunc(list, func(a, b Sample) int { return a.At.Compare(b.At) })
		f.place(follow(list, v.Now))
	}
	f.prefill, f.decode = f.of(RolePrefill), f.of(RoleDecode)
	for i := range v.Recent {
		if e := &v.Recent[i]; v.Now.Sub(e.At) <= lately {
			f.lately = v.Recent[i:]
			break
		}
	}
	f.look()
	f.distrust()
	return f
}

// distrust leaves out metrics that stand still while answers come. The page is not
// renewed, or belongs to another server than the one that answers.
func (f *facts) distrust() {
	if !f.told() || f.moved() || f.stirred() {
		return
	}
	from, until := time.Time{}, f.sampled().Add(-renewed)
	for _, t := range f.engines {
		if at := t.was.At.Add(renewed); at.After(from) {
			from = at
		}
	}
	within := func(at time.Time) bool { return at.After(from) && at.Before(until) }
	came := slices.ContainsFunc(f.Recent, func(e Ended) bool { return e.ok() && within(e.At) }) ||
		slices.ContainsFunc(f.Calls, func(c llmclient.InFlight) bool { return within(c.LastOutput) || within(c.FirstOutput) })
	if !came {
		return
	}
	for _, t := range append([]*trail{f.prefill, f.decode}, f.engines...) {
		if t != nil {
			t.frozen, t.now, t.was = true, nil, nil
		}
	}
}

// renewed is how old gauges may be: servers renew them as they log.
const renewed = 3 * time.Second

func (f *facts) place(t *trail) {
	f.trails = append(f.trails, t)
	if t.role == RoleRouter {
		f.router = t
		return
	}
	f.engines = append(f.engines, t)
}

// of returns the engines of a role as one trail.
func (f *facts) of(r Role) *trail {
	var list []*trail
	for _, t := range f.engines {
		if t.role == r {
			list = append(list, t)
		}
	}
	return together(list, f.Now)
}

// look works out what is known of the calls.
func (f *facts) look() {
	for i := range f.Recent {
		e := &f.Recent[i]
		if e.ok() && e.At.After(f.headway) {
			f.headway = e.At
		}
		if first := e.Started.Add(e.FirstOutput); e.FirstOutput > 0 && first.After(f.headway) {
			f.headway = first
		}
	}
	for _, c := range f.Calls {
		if c.LastOutput.After(f.headway) {
			f.headway = c.LastOutput
		}
		if c.Phase < llmclient.PhaseConnect || c.Phase > llmclient.PhaseOutput {
			continue
		}
		f.sent = append(f.sent, c)
		if f.waited(c) >= quietAfter {
			f.quiet = append(f.quiet, c)
		}
	}
	f.uniform = uniform(&f.View, f.headway)
}

// attended is for how much of the time between two moments any call of ours was
// with the service. Calls that have ended since count as well.
func (f *facts) attended(from, until time.Time) (d time.Duration) {
	type span struct{ from, until time.Time }
	var spans []span
	for _, c := range f.sent {
		spans = append(spans, span{c.Since, until})
	}
	for i := range f.Recent {
		if e := &f.Recent[i]; e.At.After(from) && (e.ok() || e.Phase >= llmclient.PhaseSend) {
			spans = append(spans, span{e.Started, e.At})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range spans {
		if s.from.After(from) {
			from = s.from
		}
		if s.until.After(until) {
			s.until = until
		}
		if s.until.After(from) {
			d += s.until.Sub(from)
			from = s.until
		}
	}
	return d
}

// waited is how long a call has been without progress.
func (f *facts) waited(c llmclient.InFlight) time.Duration {
	since := c.Since
	if c.LastOutput.After(since) {
		since = c.LastOutput
	}
	return f.Now.Sub(since)
}

// longest is the longest time that any of the calls has been without progress.
func (f *facts) longest(calls []llmclient.InFlight) time.Duration {
	var d time.Duration
	for _, c := range calls {
		d = max(d, f.waited(c))
	}
	return d
}

// told reports whether there are two samples to compare of every engine.
func (f *facts) told() bool {
	for _, t := range f.engines {
		if !t.compared() {
			return false
		}
	}
	return len(f.engines) > 0
}

// moved reports whether any engine has done work between the last two samples.
func (f *facts) moved() bool {
	return slices.ContainsFunc(f.engines, func(t *trail) bool { return t.moved })
}

// mixed reports whether several servers answer for one target in turns.
func (f *facts) mixed() bool {
	return slices.ContainsFunc(f.trails, func(t *trail) bool { return t.mixed })
}

// stirred reports whether the gauges of any engine have changed.
func (f *facts) stirred() bool {
	return slices.ContainsFunc(f.engines, func(t *trail) bool { return t.stirred })
}

// both adds up trail.both over all engines and some gauges.
func (f *facts) both(ms ...Metric) (sum float64) {
	for _, t := range f.engines {
		for _, m := range ms {
			sum += t.both(m)
		}
	}
	return sum
}

// held is how many requests all engines and the router's queue had.
func (f *facts) held() (float64, bool) { return f.heldAt(func(t *trail) *Sample { return t.now }) }

// heldAt is held by the samples that of picks.
func (f *facts) heldAt(of func(*trail) *Sample) (n float64, ok bool) {
	for _, t := range f.engines {
		s := of(t)
		if !s.told() {
			return 0, false
		}
		has, told := s.Readings.held()
		if !told {
			return 0, false
		}
		n += has
	}
	if f.router != nil {
		if s := of(f.router); s.told() {
			n += max(0, s.Readings[MetricConnections]-s.Readings[MetricActive])
		}
	}
	return n, len(f.engines) > 0
}

// atRest reports whether all engines had no request in both samples, and did no
// work in between.
func (f *facts) atRest() bool {
	return f.told() && !f.moved() && f.both(MetricRunning, MetricWaiting, MetricPutOff, MetricBootstrap,
		MetricInflight) == 0 && func() bool {
		n, ok := f.held()
		return ok && n == 0
	}()
}

// ended counts the attempts of some kind that ended in the last minute.
func (f *facts) ended(is func(*Ended) bool) (n int, last time.Time) {
	for i := range f.lately {
		if e := &f.lately[i]; is(e) {
			n++
			last = e.At
		}
	}
	return n, last
}

// endedSince counts those that ended in the last d.
func (f *facts) endedSince(d time.Duration, is func(*Ended) bool) (n int) {
	for i := range f.lately {
		if e := &f.lately[i]; f.Now.Sub(e.At) <= d && is(e) {
			n++
		}
	}
	return n
}

func (f *facts) succeeded() (int, time.Time) { return f.ended((*Ended).ok) }

// heldBack is how many calls our pacers hold back since the server is loaded.
func (f *facts) heldBack() (n int) {
	for _, ep := range f.Endpoints {
		if ep.Pacer.WaitingFor == pacer.ReasonLoad {
			n += ep.Pacer.Queued
		}
	}
	return n
}

// calls is the fact of which calls are in flight and wait.
func (f *facts) calls() Fact {
	u := f.uniform
	if len(f.Calls) == 0 {
		return Fact{At: f.Now, Text: "no call is in flight"}
	}
	text := fmt.Sprintf("%d of %d calls are in phase %s", u.Calls, u.Of, u.Phase)
	if len(f.quiet) > 0 {
		text += fmt.Sprintf("; %d got nowhere for at least %s, the longest for %s", len(f.quiet), short(quietAfter),
			short(f.longest(f.quiet)))
	}
	if u.Systemic {
		text += ", and no call got anywhere since " + u.Since.Format(time.TimeOnly)
	}
	return Fact{At: f.Now, Text: text}
}

// outcome is the fact of how the calls of the last minute ended.
func (f *facts) outcome() Fact {
	kinds := make(map[string]int)
	for i := range f.lately {
		e := &f.lately[i]
		name := "answered"
		switch {
		case e.ok():
		case e.Status >= 400:
			name = fmt.Sprintf("%s (%d)", e.Kind.String(), e.Status)
		default:
			name = e.Kind.String()
		}
		kinds[name]++
	}
	if len(kinds) == 0 {
		return Fact{At: f.Now, Text: "no call ended in the last minute"}
	}
	var parts []string
	for name := range kinds {
		parts = append(parts, name)
	}
	slices.SortFunc(parts, func(a, b string) int {
		if kinds[a] != kinds[b] {
			return kinds[b] - kinds[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range parts {
		parts[i] = fmt.Sprintf("%d %s", kinds[name], name)
	}
	return Fact{At: f.Now, Text: "in the last minute: " + strings.Join(parts, ", ")}
}
