package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// leastSpan is what two samples are apart at least to be compared: between
	// nearer ones a healthy scheduler may have done nothing.
	leastSpan = 4 * time.Second

	// staleAfter is how old a server's own view may be to count for anything.
	staleAfter = 30 * time.Second
)

// A trail is what the samples of one target show, one after the other.
type trail struct {
	name string
	kind Kind
	role Role
	all  []Sample // the oldest first

	last        *Sample // the newest, however it went, unless it is stale
	missed      int     // how many of the newest did not reach it
	missedSince time.Time

	now, was *Sample // the newest with readings, and the one it is compared with
	span     time.Duration
	moved    bool      // work was done between the two
	stirred  bool      // or at least gauges changed
	restart  time.Time // the last one that was seen, by its sample
	evidence string    // by what it was seen
	mixed    bool      // several processes answer in turns
	frozen   bool      // it stands still while answers come
	quiet    time.Time // since this sample nothing has moved or stirred

	// stride is for how long it has stood still at most before it went on, with
	// requests to work on.
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
	for i := len(samples) - 1; i >= 0 && samples[i].Reach != Reached; i-- {
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
		if before == nil || before.Kind != s.Kind || worked(before.Readings, s.Readings) || stirred(before.Readings, s.Readings) {
			if before != nil && before.Readings[Running] > 0 && before.At.Sub(t.quiet) < staleAfter {
				t.stride = max(t.stride, before.At.Sub(t.quiet))
			}
			t.quiet = s.At
		}
		before = s
	}
	// Nothing restarts twice in a minute and answers all the while: behind one
	// address there are several, and their counters are not to be compared.
	if n := len(restarts); n >= 2 && t.missed == 0 {
		lately := samples[restarts[n-2]:]
		if len(lately) <= 5 && !slices.ContainsFunc(lately, func(s Sample) bool { return s.Reach != Reached }) {
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
			was = 0 // it has counted from there
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

// replaced says by what it shows that another process answers than before.
func replaced(a, b *Sample) string {
	if a.Kind != b.Kind {
		return fmt.Sprintf("it is %s now, and was %s", b.Kind, a.Kind)
	}
	return restarted(a.Readings, b.Readings)
}

// restarted says by what it shows that the process is another one.
func restarted(a, b Readings) string {
	kept := false
	for _, m := range []Metric{Requests, PromptTokens, Generated, Computed, Decoded, Finished, FirstTokens} {
		x, ok := a[m]
		if !ok || !b.has(m) {
			continue
		}
		if b[m] < x {
			return fmt.Sprintf("its %s went back from %s to %s", m, number(x), number(b[m]))
		}
		kept = kept || x > 0
	}
	// One whose counters go on is the same, and its clock was set.
	if x, y := a[StartTime], b[StartTime]; x > 0 && y > x+1 && !kept {
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

// deafSince is when the first of those was asked.
func (t *trail) deafSince() (at time.Time) {
	for i := len(t.all) - 1; i >= 0 && t.all[i].stalled(); i-- {
		at = t.all[i].AskedAt
	}
	return at
}

// compared reports whether there are two samples to compare.
func (t *trail) compared() bool { return t != nil && t.was != nil }

// get returns a reading of the newest sample.
func (t *trail) get(m Metric) (float64, bool) {
	if t == nil || t.now == nil {
		return 0, false
	}
	v, ok := t.now.Readings[m]
	return v, ok
}

// both returns the lesser of a gauge's two last readings: what was there at
// both moments.
func (t *trail) both(m Metric) float64 {
	if !t.compared() {
		return 0
	}
	return min(t.now.Readings[m], t.was.Readings[m])
}

// delta returns by how much a counter has grown, from zero if its process is a
// new one.
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

// grown returns by how much a counter has grown since a moment, and since
// which sample.
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

// fact tells readings of the newest sample, as they were and as they are.
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

// tell tells one metric: a gauge with its earlier value, a counter with its
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
	case m == KVUsage:
		return fmt.Sprintf("%s %.0f%%", m, 100*v)
	case t.compared() && t.was.Readings.has(m):
		return fmt.Sprintf("%s %s then %s", m, number(t.was.Readings[m]), number(v))
	}
	return string(m) + " " + number(v)
}

// counts reports whether a metric is a counter.
func counts(m Metric) bool {
	switch m {
	case Running, Waiting, PutOff, KVUsage, Throughput, Bootstrap, Inflight, Prealloc, Transferring, Connections, Active, WorkersUp, Workers, StartTime, SlotTokens:
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

// short makes a duration readable.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
