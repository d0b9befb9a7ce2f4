package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// leastSpan is the least time between two samples that are compared. In less a
	// healthy scheduler may have done nothing.
	leastSpan = 4 * time.Second

	// staleAfter is the age from which a sample counts for nothing.
	staleAfter = 30 * time.Second
)

// A trail is the samples of one target, and what they show one after the other.
type trail struct {
	name string
	kind Kind
	role Role
	all  []Sample // the oldest first

	last        *Sample // the newest, even if it failed, unless it is stale
	missed      int     // how many of the newest in a row failed
	missedSince time.Time

	now, was *Sample // the newest with readings, and the one it is compared with
	span     time.Duration
	moved    bool      // work was done between the two
	stirred  bool      // gauges changed between the two
	restart  time.Time // when the last restart showed
	evidence string    // what showed it
	mixed    bool      // several processes answer in turns
	frozen   bool      // metrics stand still while answers come
	quiet    time.Time // of the last sample in which anything had changed

	// stride is the longest time that it stood still with requests and then went
	// on.
	stride time.Duration
}

// follow makes a trail of a target's samples.
func follow(samples []Sample, now time.Time) *trail {
	t := &trail{all: samples}
	if len(samples) == 0 {
		return t
	}
	newest := &samples[len(samples)-1]
	t.name, t.kind, t.role = newest.Target, newest.Kind, newest.Role
	if now.Sub(newest.At) <= staleAfter {
		t.last = newest
	}
	for i := len(samples) - 1; i >= 0 && samples[i].Reach != ReachAnswered; i-- {
		t.missed++
		t.missedSince = samples[i].At
	}
	var before *Sample
	var restarts []int
	for i := range samples {
		s := &samples[i]
		if !s.told() {
			continue
		}
		if before != nil {
			if how := replaced(before, s); how != "" {
				t.restart, t.evidence = s.At, how
				restarts = append(restarts, i)
			}
		}
		if before == nil || before.Kind != s.Kind || worked(before.Readings, s.Readings) ||
			stirred(before.Readings, s.Readings) {
			if before != nil && before.Readings[MetricRunning] > 0 && before.At.Sub(t.quiet) < staleAfter {
				t.stride = max(t.stride, before.At.Sub(t.quiet))
			}
			t.quiet = s.At
		}
		before = s
	}
	// Two restarts within 5 samples, all answered, are no restarts: several servers
	// share one address, and their counters must not be compared.
	if n := len(restarts); n >= 2 && t.missed == 0 {
		lately := samples[restarts[n-2]:]
		if len(lately) <= 5 && !slices.ContainsFunc(lately, func(s Sample) bool { return s.Reach != ReachAnswered }) {
			t.mixed, t.restart, t.evidence = true, time.Time{}, ""
		}
	}
	if !newest.told() || t.last == nil || t.mixed {
		return t
	}
	t.now = newest
	for i := len(samples) - 2; i >= 0; i-- {
		if s := &samples[i]; s.told() && s.Kind == newest.Kind && newest.At.Sub(s.At) >= leastSpan {
			t.was, t.span = s, newest.At.Sub(s.At)
			t.moved = worked(s.Readings, newest.Readings)
			t.stirred = stirred(s.Readings, newest.Readings)
			break
		}
	}
	return t
}

// worked reports whether something was computed between two readings.
func worked(a, b Readings) bool {
	anew := restarted(a, b) != ""
	for _, m := range work {
		was := a[m]
		if anew {
			was = 0 // a new process counts from 0
		}
		if v, ok := b[m]; ok && v > was {
			return true
		}
	}
	return false
}

func stirred(a, b Readings) bool {
	for _, m := range stirs {
		if v, ok := b[m]; ok && a.has(m) && v != a[m] {
			return true
		}
	}
	return false
}

// replaced returns what shows that b comes from another process than a, or "".
func replaced(a, b *Sample) string {
	if a.Kind != b.Kind {
		return fmt.Sprintf("it is %s now, and was %s", b.Kind, a.Kind)
	}
	return restarted(a.Readings, b.Readings)
}

// restarted returns what shows that the process has restarted, or "".
func restarted(a, b Readings) string {
	kept := false
	for _, m := range []Metric{MetricRequests, MetricPromptTokens, MetricGenerated, MetricComputed, MetricDecoded,
		MetricFinished, MetricFirstTokens} {
		x, ok := a[m]
		if !ok || !b.has(m) {
			continue
		}
		if b[m] < x {
			return fmt.Sprintf("its %s went back from %s to %s", m, number(x), number(b[m]))
		}
		kept = kept || x > 0
	}
	// If counters went on, it is the same process, and only its clock was set.
	if x, y := a[MetricStartTime], b[MetricStartTime]; x > 0 && y > x+1 && !kept {
		return "its process started at " + time.Unix(int64(y), 0).UTC().Format(time.TimeOnly)
	}
	return ""
}

// deaf is how many questions in a row the scheduler has not answered.
func (t *trail) deaf() (n int) {
	var asked time.Time
	for i := len(t.all) - 1; i >= 0 && t.all[i].stalled(); i-- {
		if at := t.all[i].AskedAt; n == 0 || !at.Equal(asked) {
			n++
			asked = at
		}
	}
	return n
}

// deafSince is when the first of those questions was asked.
func (t *trail) deafSince() (at time.Time) {
	for i := len(t.all) - 1; i >= 0 && t.all[i].stalled(); i-- {
		at = t.all[i].AskedAt
	}
	return at
}

// compared reports whether there are two samples to compare.
func (t *trail) compared() bool { return t != nil && t.was != nil }

// get returns a reading of the newest sample, if it has one.
func (t *trail) get(m Metric) (float64, bool) {
	if t == nil || t.now == nil {
		return 0, false
	}
	v, ok := t.now.Readings[m]
	return v, ok
}

// both returns the lesser of a gauge's two readings: what was there in both
// samples.
func (t *trail) both(m Metric) float64 {
	if !t.compared() {
		return 0
	}
	return min(t.now.Readings[m], t.was.Readings[m])
}

// delta returns by how much a counter has grown, since 0 if the process is new.
func (t *trail) delta(m Metric) float64 {
	if !t.compared() {
		return 0
	}
	a, b := t.was.Readings[m], t.now.Readings[m]
	if b < a {
		return b
	}
	return b - a
}

// grown returns by how much a counter has grown since a moment.
func (t *trail) grown(m Metric, since time.Time) float64 {
	sum, before := 0.0, (*Sample)(nil)
	for i := range t.all {
		s := &t.all[i]
		if !s.told() || !s.Readings.has(m) {
			continue
		}
		if before != nil && s.At.After(since) {
			if a, b := before.Readings[m], s.Readings[m]; b < a {
				sum += b
			} else {
				sum += b - a
			}
		}
		before = s
	}
	return sum
}

// fact makes a Fact of readings, as they were and as they are.
func (t *trail) fact(text string, ms ...Metric) Fact {
	f := Fact{Of: t.name, Text: text}
	if t.now == nil {
		if t.last != nil {
			f.At = t.last.At
		}
		return f
	}
	f.At = t.now.At
	var parts []string
	for _, m := range ms {
		if s := t.tell(m); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) > 0 {
		if f.Text != "" {
			f.Text += ": "
		}
		f.Text += strings.Join(parts, ", ")
		if t.compared() {
			f.Text += " in " + short(t.span)
		}
	}
	return f
}

// tell describes one metric: a gauge with its earlier value, a counter with its
// growth.
func (t *trail) tell(m Metric) string {
	v, ok := t.get(m)
	if !ok {
		return ""
	}
	switch {
	case counts(m):
		if !t.compared() || !t.was.Readings.has(m) {
			return string(m) + " " + number(v)
		}
		return fmt.Sprintf("%s +%s", m, number(t.delta(m)))
	case m == MetricKVUsage:
		return fmt.Sprintf("%s %.0f%%", m, 100*v)
	case t.compared() && t.was.Readings.has(m):
		return fmt.Sprintf("%s %s then %s", m, number(t.was.Readings[m]), number(v))
	}
	return string(m) + " " + number(v)
}

// counts reports whether a metric is a counter.
func counts(m Metric) bool {
	switch m {
	case MetricRunning, MetricWaiting, MetricPutOff, MetricKVUsage, MetricThroughput, MetricBootstrap, MetricInflight,
		MetricPrealloc, MetricTransferring, MetricConnections, MetricActive, MetricWorkersUp, MetricWorkers,
		MetricStartTime, MetricSlotTokens:
		return false
	}
	return true
}

func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// short rounds a duration to be read.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
