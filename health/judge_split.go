package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// split reports whether there are a prefill and a decode side, with two samples to
// compare of each.
func (f *facts) split() (bad finding, ok bool) {
	switch {
	case f.prefill == nil || f.decode == nil:
		return finding{}, false
	case !f.prefill.compared() || !f.decode.compared():
		return untold("two samples each of prefill and decode with their metrics"), false
	}
	return finding{}, true
}

// pairwise tries a test with all decode servers as one, and then with each one for
// which requests wait: the others may hide what is wrong with it.
func pairwise(test func(*facts) finding) func(*facts) finding {
	return func(f *facts) finding {
		got := test(f)
		for _, t := range f.engines {
			if got.holds {
				break
			}
			if t.role != RoleDecode || t == f.decode || t.both(MetricTransferring)+t.both(MetricPrealloc) == 0 {
				continue
			}
			pair := *f
			pair.decode = t
			if one := test(&pair); one.holds {
				got = one
			}
		}
		return got
	}
}

// noticed reports whether calls of ours have been waiting while a side stood still.
// At rest its gauges may be old.
func (f *facts) noticed(t *trail) bool {
	return len(f.quiet) > 0 || f.attended(t.quiet, f.Now) >= longStep
}

// handedOver is how many requests were on their way from prefill to decode in both
// samples.
func (f *facts) handedOver() float64 {
	return max(f.prefill.both(MetricInflight), f.decode.both(MetricTransferring), f.decode.both(MetricPrealloc))
}

// wedgedTransfer: prompts are computed, and do not get to the decode side.
func wedgedTransfer(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	n := f.handedOver()
	switch {
	case n == 0:
		return refuted("nothing was between prefill and decode at both moments")
	case d.last.stalled():
		return refuted("the decode side's scheduler does not answer")
	case d.delta(MetricTransfers) > 0:
		return refuted("%s transfers were completed in %s", number(d.delta(MetricTransfers)), short(d.span))
	case d.both(MetricRunning) > 0 && !d.moved && !d.stirred:
		return refuted("the decode side does not even compute what it has")
	case len(f.quiet) == 0 && f.attended(f.transferred(), f.Now) < longStep:
		return untold(fmt.Sprintf("%s: whether no transfer is completed for %s", d.name, short(longStep)))
	case d.both(MetricRunning) > 0 && !d.now.Readings.has(MetricTransfers):
		return refuted("the decode side computes %s answers, and may have no place", number(d.both(MetricRunning)))
	case d.moved && d.both(MetricTransferring) == 0 && d.both(MetricPrealloc) > 0:
		return refuted("the decode side computes %s answers, and %s wait for a place there", number(d.both(MetricRunning)),
			number(d.both(MetricPrealloc)))
	case d.both(MetricTransferring) == 0 && d.both(MetricPrealloc) == 0:
		// Decode waits for none of them. If other requests get through, they are
		// left over from aborts, otherwise it is a wedge.
		if d.moved || len(f.quiet) == 0 {
			return refuted("the decode side waits for none of the %s that prefill has in flight", number(n))
		}
	}
	sure := ConfidenceMedium
	if len(f.quiet) > 0 || p.grown(MetricTransferFailed, f.Now.Add(-5*time.Minute)) > 0 {
		sure = ConfidenceHigh
	}
	return holds(sure, f.stuckSince(),
		p.fact("computes prompts that do not get to the decode side", MetricInflight, MetricRunning, MetricComputed),
		d.fact("", MetricRunning, MetricPrealloc, MetricTransferring, MetricTransfers, MetricDecoded, MetricGenerated),
		f.failures(), f.calls())
}

// transferred is when a transfer may last have been completed.
func (f *facts) transferred() time.Time {
	d := f.decode
	at := d.now.At
	for i := len(d.all) - 2; i >= 0; i-- {
		s := &d.all[i]
		if !s.told() || s.Readings[MetricTransfers] != d.now.Readings[MetricTransfers] {
			break
		}
		at = s.At
	}
	return at
}

// stuckSince is since which sample nothing has come to the decode side.
func (f *facts) stuckSince() time.Time {
	t := f.decode
	at := t.now.At
	for i := len(t.all) - 1; i > 0; i-- {
		a, b := &t.all[i-1], &t.all[i]
		if !a.told() || !b.told() || worked(a.Readings, b.Readings) {
			break
		}
		at = a.At
	}
	return at
}

// failures is the fact of how many transfers have failed. They fail late, when
// their time has run out.
func (f *facts) failures() Fact {
	p := f.prefill
	n, ok := p.get(MetricTransferFailed)
	if !ok {
		return Fact{At: p.now.At, Of: p.name, Text: "failed transfers are not told"}
	}
	m := p.grown(MetricTransferFailed, time.Time{})
	return Fact{At: p.now.At, Of: p.name, Text: fmt.Sprintf("transfers failed so far: %s, of them %s since it is watched; they fail only when their time is up", number(n), number(m))}
}

// wedgedHandshake: prefill and decode do not finish their handshake.
func wedgedHandshake(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p := f.prefill
	n := p.both(MetricBootstrap)
	switch {
	case n == 0:
		return refuted("nothing waited for a handshake at both moments")
	case p.last.stalled():
		return refuted("the prefill side's scheduler does not answer")
	case p.moved:
		return refuted("the prefill side goes on computing")
	case !f.noticed(p):
		return untold(fmt.Sprintf("%s: whether the handshake takes longer than %s", p.name, short(longStep)))
	}
	return holds(ConfidenceHigh, f.stuckSince(),
		p.fact("has requests that wait for the decode side's part of a handshake", MetricBootstrap, MetricInflight,
			MetricRunning, MetricComputed, MetricBootstrapFailed), f.decode.fact("", MetricRunning, MetricGenerated), f.calls())
}

// partialRestart: one side has restarted, and the other holds requests of the
// process that is gone.
func partialRestart(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	trouble := f.handedOver() > 0 && !d.moved && f.noticed(d) ||
		p.both(MetricBootstrap) > 0 && !p.moved && f.noticed(p) || f.fruitless()
	if !trouble {
		return refuted("requests pass from prefill to decode")
	}
	if d.last.stalled() || p.last.stalled() {
		return refuted("a scheduler does not answer")
	}
	if d.both(MetricRunning) > 0 && !d.stirred {
		return refuted("the decode side does not even compute what it has")
	}
	out := finding{holds: true, since: f.stuckSince()}
	one, other := d, p
	if p.restart.After(d.restart) {
		one, other = p, d
	}
	a, b := one.now.Readings[MetricStartTime], other.now.Readings[MetricStartTime]
	switch {
	case !one.restart.IsZero() && (other.restart.IsZero() || one.restart.Sub(other.restart) > 2*time.Minute):
		out.sure = ConfidenceHigh
		out.since = one.restart
		out.facts = append(out.facts, Fact{At: one.restart, Of: one.name, Text: "restarted: " + one.evidence},
			Fact{At: other.now.At, Of: other.name, Text: "did not restart"})
	case a > 0 && b > 0 && max(a-b, b-a) > 120:
		if b > a {
			one, other, a, b = other, one, b, a
		}
		out.sure = ConfidenceMedium
		out.facts = append(out.facts, Fact{At: one.now.At, Of: one.name,
			Text: fmt.Sprintf("its process is younger than that of %s by %s, and started %s before now",
				other.name, short(time.Duration((a-b)*float64(time.Second))), short(f.Now.Sub(time.Unix(int64(a), 0))))})
	case p.now.Readings[MetricRequests] >= 20 && d.now.Readings.has(MetricRequests) &&
		d.now.Readings[MetricRequests]*4 < p.now.Readings[MetricRequests]-p.now.Readings[MetricInflight]-p.now.Readings[MetricTransferFailed]:
		out.sure = ConfidenceMedium
		out.facts = append(out.facts, Fact{At: d.now.At, Of: d.name,
			Text: fmt.Sprintf("has had %s requests since its process started, and %s has passed on %s",
				number(d.now.Readings[MetricRequests]), p.name, number(p.now.Readings[MetricRequests]))})
	default:
		return refuted("neither side is seen to have restarted without the other")
	}
	out.facts = append(out.facts, p.fact("", MetricRunning, MetricInflight, MetricBootstrap),
		d.fact("", MetricRunning, MetricTransferring, MetricGenerated), f.failures(), f.calls())
	return out
}

// fruitless reports whether calls that were sent since a restart hang between the
// two sides. One is enough, since our breaker may let through no more.
func (f *facts) fruitless() bool {
	p, d := f.prefill, f.decode
	since := p.restart
	if d.restart.After(since) {
		since = d.restart
	}
	between := max(p.now.Readings[MetricInflight], p.now.Readings[MetricBootstrap], d.now.Readings[MetricTransferring],
		d.now.Readings[MetricPrealloc])
	if since.IsZero() || between == 0 {
		return false
	}
	for i := range d.all {
		if s := &d.all[i]; s.told() && !s.At.Before(since.Add(-someTime)) {
			if worked(s.Readings, d.now.Readings) {
				return false
			}
			break
		}
	}
	for _, c := range f.quiet {
		if c.Bytes == 0 && c.Phase == llmclient.PhaseFirstOutput && !c.Since.Before(since) {
			return true
		}
	}
	return false
}

// stuckPrefill: requests that were aborted during the handover never leave the
// prefill side.
func stuckPrefill(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	n := p.both(MetricInflight)
	aborted, told := p.now.Readings.sum(MetricAborted)
	more, _ := d.now.Readings.sum(MetricAborted)
	switch {
	case n < 1:
		return refuted("what prefill has in flight comes and goes")
	case told && aborted+more == 0:
		return refuted("nothing was aborted")
	case !p.moved && !p.stirred:
		// At rest its gauges may be old.
		return untold(p.name + ": whether what it has in flight stays when it computes again")
	}
	// Requests that are just being handed over are not stuck. Stuck ones are there
	// in sample after sample, and the decode side does not wait for them.
	seen := 0
	for i := len(p.all) - 1; i >= 0 && p.all[i].told(); i-- {
		over := p.all[i].Readings[MetricInflight]
		if s := d.near(p.all[i].At, 5*time.Second); s.told() {
			over -= s.Readings[MetricPrealloc] + s.Readings[MetricTransferring]
		}
		if over < 1 {
			break
		}
		n = min(n, over)
		seen++
	}
	if waits := d.both(MetricPrealloc) + d.both(MetricTransferring); seen < 2 || waits > 0 && seen < 3 {
		return refuted("the decode side waits for what prefill has in flight")
	}
	sure := ConfidenceMedium
	if seen >= 3 {
		sure = ConfidenceHigh
	}
	return holds(sure, p.all[len(p.all)-seen].At,
		p.fact(fmt.Sprintf("%s in flight that the decode side does not wait for, in %d samples", number(n), seen),
			MetricInflight, MetricAborted),
		d.fact("", MetricRunning, MetricPrealloc, MetricTransferring, MetricGenerated))
}
