package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
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

// pairwise tries a test with all decode sides as one, and then with each of them
// for which something waits: the others may hide what is wrong with it.
func pairwise(test func(*facts) finding) func(*facts) finding {
	return func(f *facts) finding {
		got := test(f)
		for _, t := range f.engines {
			if got.holds {
				break
			}
			if t.role != RoleDecode || t == f.decode || t.both(Transferring)+t.both(Prealloc) == 0 {
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

// noticed reports whether calls of ours have been waiting while a side stood
// still. At rest its gauges may say what they said last.
func (f *facts) noticed(t *trail) bool {
	return len(f.quiet) > 0 || f.attended(t.quiet, f.Now) >= longStep
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
	case len(f.quiet) == 0 && f.attended(f.transferred(), f.Now) < longStep:
		return untold(fmt.Sprintf("%s: whether no transfer is completed for %s", d.name, short(longStep)))
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
		p.fact("computes prompts that do not get to the decode side", Inflight, Running, Computed), d.fact("", Running, Prealloc, Transferring, Transfers, Decoded, Generated),
		f.failures(), f.calls())
}

// transferred is when a transfer may last have been completed.
func (f *facts) transferred() time.Time {
	d := f.decode
	at := d.now.At
	for i := len(d.all) - 2; i >= 0; i-- {
		s := &d.all[i]
		if !s.told() || s.Readings[Transfers] != d.now.Readings[Transfers] {
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
	case !f.noticed(p):
		return untold(fmt.Sprintf("%s: whether the handshake takes longer than %s", p.name, short(longStep)))
	}
	return holds(High, f.stuckSince(),
		p.fact("has requests that wait for the decode side's part of a handshake", Bootstrap, Inflight, Running, Computed, BootstrapFailed), f.decode.fact("", Running, Generated), f.calls())
}

// partialRestart: one side is another process than the one that the other side
// has dealings with.
func partialRestart(f *facts) finding {
	bad, ok := f.split()
	if !ok {
		return bad
	}
	p, d := f.prefill, f.decode
	trouble := f.handedOver() > 0 && !d.moved && f.noticed(d) || p.both(Bootstrap) > 0 && !p.moved && f.noticed(p) || f.fruitless()
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

// fruitless reports whether since a restart of a side nothing has come of the
// first calls that were sent, though they are between the two. Our breaker may
// have let one through only, and just now.
func (f *facts) fruitless() bool {
	p, d := f.prefill, f.decode
	since := p.restart
	if d.restart.After(since) {
		since = d.restart
	}
	between := max(p.now.Readings[Inflight], p.now.Readings[Bootstrap], d.now.Readings[Transferring], d.now.Readings[Prealloc])
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
	case !p.moved && !p.stirred:
		// At rest its gauges may say what they said last.
		return untold(p.name + ": whether what it has in flight stays when it computes again")
	}
	// What is just being handed over is no remnant: what is there in sample
	// after sample is, and the decode side waits for less than that.
	seen := 0
	for i := len(p.all) - 1; i >= 0 && p.all[i].told(); i-- {
		over := p.all[i].Readings[Inflight]
		if s := d.near(p.all[i].At, 5*time.Second); s.told() {
			over -= s.Readings[Prealloc] + s.Readings[Transferring]
		}
		if over < 1 {
			break
		}
		n = min(n, over)
		seen++
	}
	if waits := d.both(Prealloc) + d.both(Transferring); seen < 2 || waits > 0 && seen < 3 {
		return refuted("the decode side waits for what prefill has in flight")
	}
	sure := Medium
	if seen >= 3 {
		sure = High
	}
	return holds(sure, p.all[len(p.all)-seen].At,
		p.fact(fmt.Sprintf("%s in flight that the decode side does not wait for, in %d samples", number(n), seen), Inflight, Aborted),
		d.fact("", Running, Prealloc, Transferring, Generated))
}
