package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// A sheet is the lines of the two columns of a verdict's page.
type sheet struct{ ours, theirs []string }

func newSheet(f *facts) sheet {
	var s sheet
	type group struct {
		phase llmclient.Phase
		n     int
		since time.Time
	}
	var groups []group
	for _, c := range f.Calls {
		i := slices.IndexFunc(groups, func(g group) bool { return g.phase == c.Phase })
		if i < 0 {
			groups = append(groups, group{c.Phase, 0, c.Since})
			i = len(groups) - 1
		}
		groups[i].n++
		if c.Since.Before(groups[i].since) {
			groups[i].since = c.Since
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Or(b.n-a.n, int(a.phase)-int(b.phase)) })
	s.ours = append(s.ours, fmt.Sprintf("%d calls in flight", len(f.Calls)))
	for _, g := range groups {
		s.ours = append(s.ours, fmt.Sprintf("%5d %s since %s", g.n, g.phase, g.since.Format(time.TimeOnly)))
	}
	s.ours = append(s.ours, f.longestLines()...)
	if !f.headway.IsZero() {
		s.ours = append(s.ours, "last headway of any call at "+f.headway.Format(time.TimeOnly))
	}
	s.ours = append(s.ours, f.outcome().Text)
	for _, ep := range f.Endpoints {
		s.ours = append(s.ours, fmt.Sprintf("breaker %s, pacer %d out, %d waiting", ep.Breaker.State, ep.Pacer.InFlight,
			ep.Pacer.Queued))
	}
	for _, a := range f.Local {
		if f.Now.Sub(a.Since) >= quietAfter {
			s.ours = append(s.ours, fmt.Sprintf("%s in %s for %s", a.Caller, a.What, short(f.Now.Sub(a.Since))))
		}
	}
	if len(f.trails) == 0 {
		s.theirs = []string{"no server was asked"}
	}
	for _, t := range f.trails {
		s.theirs = append(s.theirs, t.lines(f.Now)...)
	}
	return s
}

// longestLines name the three calls that have been without progress for longest.
func (f *facts) longestLines() (lines []string) {
	const most = 3
	calls := slices.Clone(f.quiet)
	slices.SortStableFunc(calls, func(a, b llmclient.InFlight) int { return int(f.waited(b) - f.waited(a)) })
	for i, c := range calls {
		if i == most {
			lines = append(lines, fmt.Sprintf("      and %d more for at least %s", len(calls)-most,
				short(f.waited(calls[len(calls)-1]))))
			break
		}
		who := c.Caller
		if who == "" {
			who = fmt.Sprintf("call %d", c.Call)
		}
		lines = append(lines, fmt.Sprintf("      %s: %s, try %d, %d bytes", who, short(f.waited(c)), max(c.Attempt, 1),
			c.PromptBytes))
	}
	return lines
}

// shown are the metrics on the page, in order.
var shown = []Metric{
	MetricRunning, MetricWaiting, MetricPutOff, MetricKVUsage, MetricBootstrap, MetricInflight, MetricPrealloc,
	MetricTransferring, MetricConnections, MetricActive,
	MetricDecoded, MetricGenerated, MetricComputed, MetricPromptTokens, MetricPreempted, MetricAborted,
	MetricTransferFailed, MetricBootstrapFailed, MetricRejected, MetricErrors,
}

func (t *trail) lines(now time.Time) []string {
	head := t.name
	if t.kind != KindUnknown {
		head += " (" + string(t.kind) + ")"
	}
	switch {
	case t.last == nil && len(t.all) > 0:
		return []string{head + ": last asked at " + t.all[len(t.all)-1].At.Format(time.TimeOnly)}
	case t.last == nil:
		return []string{head + ": not asked yet"}
	case t.last.Reach != ReachAnswered:
		return []string{fmt.Sprintf("%s at %s: %s", head, t.last.At.Format(time.TimeOnly), t.last.Reach)}
	}
	head += " at " + t.last.At.Format(time.TimeOnly)
	if t.compared() {
		head += ", " + short(t.span) + " after the one before"
	}
	out := []string{head}
	switch {
	case t.last.EngineDead:
		out = append(out, "  says that its engine is dead")
	case t.last.Scheduler == ReachAnswered:
		out = append(out, "  its scheduler answers")
	case t.last.Scheduler != ReachUnasked:
		out = append(out, "  its scheduler does not answer")
	}
	switch {
	case t.mixed:
		return append(out, "  answers, and several tell their metrics in turns")
	case t.frozen:
		return append(out, "  its metrics stand still while answers come")
	case t.now == nil:
		return append(out, "  answers, and tells no metrics")
	}
	line := " "
	for _, m := range shown {
		// What is 0 and stays 0 is left out, but for these three.
		v, ok := t.get(m)
		if !ok || v == 0 && t.delta(m) == 0 && t.both(m) == 0 && m != MetricRunning && m != MetricWaiting &&
			m != MetricInflight {
			continue
		}
		told := t.tell(m)
		if len(line)+len(told) > 56 {
			out = append(out, line)
			line = " "
		}
		line += " " + told + ","
	}
	out = append(out, strings.TrimSuffix(line, ","))
	if !t.restart.IsZero() {
		out = append(out, fmt.Sprintf("  restarted before %s: %s", t.restart.Format(time.TimeOnly), t.evidence))
	}
	return out
}
