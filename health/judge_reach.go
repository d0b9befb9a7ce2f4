package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// unreachable: a server answers no question.
func unreachable(f *facts) finding {
	var gone []*trail
	for _, t := range f.trails {
		if t.last == nil || t.missed == 0 {
			continue
		}
		if f.headway.After(t.missedSince) && t.role != RolePrefill && t.role != RoleDecode && t.last.Reach != ReachRefused {
			continue // it answers calls, and only our questions fail
		}
		// One unanswered question is not enough, unless calls fail as well.
		if failed, last := f.ended(netFailure); t.missed >= 2 || failed > 0 && last.After(f.headway) {
			gone = append(gone, t)
		}
	}
	if len(gone) > 0 {
		out := finding{holds: true, sure: ConfidenceHigh, since: gone[0].missedSince}
		for _, t := range gone {
			what := string(t.last.Reach)
			switch t.last.Reach {
			case ReachSilent:
				what = "it takes connections and answers nothing"
			case ReachRefused:
				what = "nobody listens there"
			case ReachNoName:
				what = "its name is not known"
			}
			howOften := fmt.Sprintf("%d times since %s", t.missed, t.missedSince.Format(time.TimeOnly))
			if t.missed == 1 {
				howOften = "once, at " + t.missedSince.Format(time.TimeOnly)
			}
			out.facts = append(out.facts, Fact{At: t.last.At, Of: t.name, Text: what + ", " + howOften})
			out.note += t.name + " "
		}
		if len(gone) < len(f.trails) {
			for _, t := range f.trails {
				if t.missed == 0 && t.last != nil {
					out.facts = append(out.facts, Fact{At: t.last.At, Of: t.name, Text: "answers"})
				}
			}
		}
		out.facts = append(out.facts, f.calls())
		out.note = out.note[:len(out.note)-1]
		return out
	}
	// By our own calls alone.
	failed, last := f.ended(func(e *Ended) bool {
		return e.Kind == llmclient.ErrNetwork ||
			e.Clock == llmclient.ClockConnect
	})
	reached := false
	for _, t := range f.trails {
		reached = reached || t.last != nil && t.last.Reach == ReachAnswered
	}
	for _, ep := range f.Endpoints {
		if ep.Dead && !reached && !f.headway.After(f.Now.Add(-quietAfter)) {
			return holds(ConfidenceMedium, f.headway, Fact{At: f.Now,
				Text: "the client's own probes of " + ep.Name + " are not answered"}, f.calls())
		}
	}
	switch {
	case failed >= 3 && last.After(f.headway) && !reached:
		return holds(ConfidenceMedium, f.headway, f.outcome(), f.calls())
	case reached:
		return refuted("%s", f.reachedText())
	case len(f.trails) == 0 || f.trails[0].last == nil:
		if ok, last := f.succeeded(); ok > 0 {
			return refuted("a call was answered at %s", last.Format(time.TimeOnly))
		}
	}
	return finding{}
}

func netFailure(e *Ended) bool {
	return e.Kind == llmclient.ErrNetwork || e.Kind == llmclient.ErrServer || e.Kind == llmclient.ErrTimeout ||
		e.Kind == llmclient.ErrDeadline
}

func (f *facts) reachedText() string {
	for _, t := range f.trails {
		if t.last != nil && t.last.Reach == ReachAnswered {
			return fmt.Sprintf("%s answered at %s within %s", t.name, t.last.At.Format(time.TimeOnly), short(t.last.Took))
		}
	}
	return ""
}

// someTime is how long no call must have been answered for failures to count.
const someTime = 5 * time.Second

// row counts the attempts of some kind that were sent after the last one that was
// answered. It is 0 if a call was answered in the last 5 s: what was under way when
// trouble began may still be answered.
func (f *facts) row(is func(*Ended) bool) (n int) {
	sent, at := f.lastServed()
	if !at.IsZero() && f.Now.Sub(at) < someTime {
		return 0
	}
	for i := range f.Recent {
		if e := &f.Recent[i]; is(e) && e.Started.After(sent) {
			n++
		}
	}
	return n
}

// first returns when the first of those ended.
func (f *facts) first(is func(*Ended) bool) time.Time {
	sent, _ := f.lastServed()
	for i := range f.Recent {
		if e := &f.Recent[i]; is(e) && e.Started.After(sent) {
			return e.At
		}
	}
	return time.Time{}
}

// lastServed returns when the last of the calls that were answered was sent,
// and when a call was last answered.
func (f *facts) lastServed() (sent, at time.Time) {
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() {
			at = e.At
			if e.Started.After(sent) {
				sent = e.Started
			}
		}
	}
	return sent, at
}

// full reports whether a call was refused as by a server with a full queue.
func full(e *Ended) bool { return e.Status == 503 || e.Status == 429 || e.Status == 529 }

// outOfQuota: the account has no quota left.
func outOfQuota(f *facts) finding {
	n, last := f.ended(func(e *Ended) bool { return e.Kind == llmclient.ErrQuota })
	ok, success := f.succeeded()
	switch {
	case n == 0:
		return refuted("no answer of the last minute says so")
	case ok > 0 && success.After(last):
		return refuted("a call was answered at %s, after the last refusal", success.Format(time.TimeOnly))
	}
	return holds(ConfidenceHigh, f.first(func(e *Ended) bool { return e.Kind == llmclient.ErrQuota }), f.outcome())
}

// throttled: the server asks for a lower rate of requests.
func throttled(f *facts) finding {
	n, _ := f.ended(func(e *Ended) bool { return e.Kind == llmclient.ErrThrottled })
	cooling := false
	for _, ep := range f.Endpoints {
		cooling = cooling || ep.Pacer.CoolDownUntil.After(f.Now)
	}
	switch total := len(f.lately); {
	case n == 0:
		return refuted("nobody was asked to come less often in the last minute")
	case n < 3 && !cooling || n*10 < total:
		return refuted("only %d of %d calls of the last minute were asked to come less often", n, total)
	}
	// A server of the user's own says the same when its queue is full.
	if f.told() && f.both(MetricWaiting) > 0 {
		return refuted("the engine itself has a queue of %s", number(f.both(MetricWaiting)))
	}
	return holds(ConfidenceHigh, time.Time{}, f.outcome())
}

// roomSince reports whether no engine has had a queue since the last samples
// before a moment.
func (f *facts) roomSince(at time.Time) bool {
	for _, t := range f.engines {
		for i := len(t.all) - 1; i >= 0; i-- {
			s := &t.all[i]
			if queue, _ := s.Readings.sum(MetricWaiting, MetricPutOff, MetricPrealloc); queue > 0 {
				return false
			}
			if s.told() && s.At.Before(at) {
				break
			}
		}
	}
	return f.told()
}

// renewed names a server that was seen to have restarted since a moment.
func (f *facts) renewed(since time.Time) string {
	for _, t := range f.trails {
		if t.last != nil && t.last.Reach == ReachAnswered && t.restart.After(since) {
			return t.name
		}
	}
	return ""
}

// failing: the server answers calls with errors.
func failing(f *facts) finding {
	is := func(e *Ended) bool {
		switch e.Kind {
		case llmclient.ErrServer, llmclient.ErrAuth, llmclient.ErrNotFound, llmclient.ErrMalformed,
			llmclient.ErrAborted, llmclient.ErrIncomplete, llmclient.ErrEmpty, llmclient.ErrNetwork:
			return true
		}
		return false
	}
	n, last := f.ended(is)
	ok, success := f.succeeded()
	// Most fail, and now and then one does not.
	most := f.endedSince(lately/3, is) >= max(3, f.endedSince(lately/3, (*Ended).ok))
	switch {
	case n == 0:
		return refuted("no call was answered with an error in the last minute")
	case !most && (n < 3 || n < ok && f.row(is) < 3 || success.After(last)):
		return refuted("%d calls were answered with errors in the last minute, and %d well", n, ok)
	}
	if f.told() && f.both(MetricWaiting, MetricPrealloc) > 0 {
		return refuted("the engine has a queue of %s, and refuses for that", number(f.both(MetricWaiting, MetricPrealloc)))
	}
	taken, waiting := 0, 0
	for _, c := range f.sent {
		if c.Phase < llmclient.PhaseFirstOutput || f.Now.Sub(c.Since) < time.Second {
			continue
		}
		if taken++; c.Since.After(last) {
			waiting++
		}
	}
	// A full server still answers a call now and then.
	since := f.first(is)
	shut := !since.IsZero() && f.Now.Sub(since) >= someTime && f.row(is) >= 3 && f.row((*Ended).byUs) < f.row(is) &&
		f.roomSince(since)
	switch full, _ := f.ended(full); {
	case f.renewed(last) != "":
		return refuted("%s has restarted since the last error", f.renewed(last))
	case waiting*2 > len(f.Calls) || waiting > 0 && f.Now.Sub(last) >= quietAfter:
		return refuted("%d calls were sent since the last error, and wait", waiting)
	case full*2 > n && (taken > 0 || ok > 0) && !shut:
		return untold("metrics: whether the engine is full, or what stands before it")
	}
	return holds(ConfidenceHigh, since, f.outcome(), f.calls())
}
