package health

import (
	"fmt"
	"time"
)

// split reports whether prefill and decode are apart and both tell.
func (f *facts) split() (bad finding, ok bool) {
	switch {
	case f.prefill == nil || f.decode == nil:
		return finding{}, false
	case !f.prefill.compared() || !f.decode.compared():
		return untold("two samples each of prefill and decode with their metrics"), false
	}
	return finding{}, true
}

// handedOver is how many requests prefill and decode had between them at
// both moments.
func (f *facts) handedOver() float64 {
	return max(f.prefill.both(Inflight), f.decode.both(Transferring), f.decode.both(Prealloc))
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
	case d.delta(Transfers) > 0:
		return refuted("%s transfers were completed in %s", number(d.delta(Transfers)), short(d.span))
	case d.both(Running) > 0 && !d.moved && !d.stirred:
		return refuted("the decode side does not even compute what it has")
	case d.both(Running) > 0 && !d.now.Readings.has(Transfers):
		return refuted("the decode side computes %s answers, and may have no place", number(d.both(Running)))
	case d.moved && d.both(Transferring) == 0 && d.both(Prealloc) > 0:
		return refuted("the decode side computes %s answers, and %s wait for a place there", number(d.both(Running)), number(d.both(Prealloc)))
	case d.both(Transferring) == 0 && d.both(Prealloc) == 0:
		// Decode waits for none of them. Whether that is a wedge or a remnant of
		// aborts shows by whether others get through.
		if d.moved || len(f.quiet) == 0 {
			return refuted("the decode side waits for none of the %s that prefill has in flight", number(n))
		}
	}
	sure := Medium
	if len(f.quiet) > 0 || p.grown(TransferFailed, f.Now.Add(-5*time.Minute)) > 0 {
		sure = High
	}
	return holds(sure, f.stuckSince(),
		p.fact("", Running, Inflight, Computed), d.fact("", Running, Prealloc, Transferring, Transfers, Decoded, Generated),
		f.failures(), f.calls())
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

// failures is the fact of transfers that have failed, which they do late: only
// when their time has run out.
func (f *facts) failures() Fact {
	p := f.prefill
	n, ok := p.get(TransferFailed)
	if !ok {
		return Fact{At: p.now.At, Of: p.name, Text: "failed transfers are not told"}
	}
	m := p.grown(TransferFailed, time.Time{})
	return Fact{At: p.now.At, Of: p.name, Text: fmt.Sprintf("transfers failed so far: %s, of them %s since it is watched; they fail only when their time is up", number(n), number(m))}
}

// wedgedHandshake: prefill and decode do not find to each other.
func wedgedHandshake(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p := f.prefill
	n := p.both(Bootstrap)
	switch {
	case n == 0:
		return refuted("nothing waited for a handshake at both moments")
	case p.last.stalled():
		return refuted("the prefill side's scheduler does not answer")
	case p.moved:
		return refuted("the prefill side goes on computing")
	}
	return holds(High, f.stuckSince(),
		p.fact("", Bootstrap, Inflight, Running, Computed, BootstrapFailed), f.decode.fact("", Running, Generated), f.calls())
}

// partialRestart: one side is another process than the one that the other side
// has dealings with.
func partialRestart(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	trouble := f.handedOver() > 0 && !d.moved || p.both(Bootstrap) > 0 && !p.moved
	if !trouble {
		return refuted("requests pass from prefill to decode")
	}
	if d.last.stalled() || p.last.stalled() {
		return refuted("a scheduler does not answer")
	}
	if d.both(Running) > 0 && !d.stirred {
		return refuted("the decode side does not even compute what it has")
	}
	out := finding{holds: true, since: f.stuckSince()}
	one, other := d, p
	if p.restart.After(d.restart) {
		one, other = p, d
	}
	a, b := one.now.Readings[StartTime], other.now.Readings[StartTime]
	switch {
	case !one.restart.IsZero() && (other.restart.IsZero() || one.restart.Sub(other.restart) > 2*time.Minute):
		out.sure = High
		out.since = one.restart
		out.facts = append(out.facts, Fact{At: one.restart, Of: one.name, Text: "restarted: " + one.evidence},
			Fact{At: other.now.At, Of: other.name, Text: "did not restart"})
	case a > 0 && b > 0 && max(a-b, b-a) > 120:
		if b > a {
			one, other, a, b = other, one, b, a
		}
		out.sure = Medium
		out.facts = append(out.facts, Fact{At: one.now.At, Of: one.name, Text: fmt.Sprintf("its process is younger than that of %s by %s, and started %s before now",
			other.name, short(time.Duration((a-b)*float64(time.Second))), short(f.Now.Sub(time.Unix(int64(a), 0))))})
	case p.now.Readings[Requests] >= 20 && d.now.Readings.has(Requests) && d.now.Readings[Requests]*4 < p.now.Readings[Requests]-p.now.Readings[Inflight]-p.now.Readings[TransferFailed]:
		out.sure = Medium
		out.facts = append(out.facts, Fact{At: d.now.At, Of: d.name, Text: fmt.Sprintf("has had %s requests since its process started, and %s has passed on %s",
			number(d.now.Readings[Requests]), p.name, number(p.now.Readings[Requests]))})
	default:
		return refuted("neither side is seen to have restarted without the other")
	}
	out.facts = append(out.facts, p.fact("", Running, Inflight, Bootstrap), d.fact("", Running, Transferring, Generated), f.failures(), f.calls())
	return out
}

// stuckPrefill: what was aborted on its way never leaves the prefill side.
func stuckPrefill(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	n := p.both(Inflight)
	aborted, told := p.now.Readings.sum(Aborted)
	more, _ := d.now.Readings.sum(Aborted)
	switch {
	case n < 1:
		return refuted("what prefill has in flight comes and goes")
	case told && aborted+more == 0:
		return refuted("nothing was aborted")
	case d.both(Prealloc)+d.both(Transferring) > 0:
		return refuted("the decode side waits for what prefill has in flight")
	}
	// What is just being handed over is no remnant: what is there in sample
	// after sample is, while the decode side waits for nothing.
	seen := 0
	for i := len(p.all) - 1; i >= 0 && p.all[i].told() && p.all[i].Readings[Inflight] >= 1; i-- {
		n = min(n, p.all[i].Readings[Inflight])
		seen++
	}
	sure := Medium
	if seen >= 3 {
		sure = High
	}
	return holds(sure, p.all[len(p.all)-seen].At,
		p.fact(fmt.Sprintf("%s in flight that the decode side does not wait for, in %d samples", number(n), seen), Inflight, Aborted),
		d.fact("", Running, Prealloc, Transferring, Generated))
}
