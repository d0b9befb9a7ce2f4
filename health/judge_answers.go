package health

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// longContext: short prompts are answered, long ones hang.
func longContext(f *facts) finding {
	type call struct {
		bytes int
		sent  time.Time
		wait  time.Duration
	}
	var hung []call
	for _, c := range f.sent {
		if c.PromptBytes > 0 && c.Outputs == 0 && f.waited(c) >= quietAfter {
			hung = append(hung, call{c.PromptBytes, c.Since, f.waited(c)})
		}
	}
	for i := range f.Recent {
		e := &f.Recent[i]
		if e.byUs() && e.Outputs == 0 && e.PromptBytes > 0 && f.Now.Sub(e.At) < 10*time.Minute {
			hung = append(hung, call{e.PromptBytes, e.Started, e.At.Sub(e.Started)})
		}
	}
	if len(hung) == 0 {
		return refuted("no call has waited for %s without output", short(quietAfter))
	}
	least := slices.MinFunc(hung, func(a, b call) int { return a.bytes - b.bytes })
	first := slices.MinFunc(hung, func(a, b call) int { return a.sent.Compare(b.sent) })
	var (
		passed, later int
		most          int
		slowest       time.Duration
		last          time.Time
	)
	for i := range f.Recent {
		e := &f.Recent[i]
		if !e.ok() || !e.At.After(first.sent) || e.PromptBytes == 0 {
			continue
		}
		passed++
		if !e.Started.After(first.sent) {
			continue // it may have begun before the trouble
		}
		later++
		most = max(most, e.PromptBytes)
		slowest = max(slowest, e.FirstOutput)
		last = e.At
	}
	switch {
	case most >= least.bytes:
		return refuted("a call of %d bytes was answered, and one of %d waits", most, least.bytes)
	case passed >= 3 && f.chance(least.bytes, first.sent, len(hung)) < 0.001:
		// Few were sent since, but it is no chance that only long ones hang.
	case later == 0:
		return refuted("no call that was sent after the first that hangs was answered, of whatever size")
	case later < 3:
		return refuted("since the first that hangs only %d calls were sent and answered, of whatever size", later)
	case most*2 > least.bytes && later < 10:
		return refuted("since the first that hangs %d calls were sent and answered, and none is much shorter", later)
	case len(hung) < 2 && passed < 10:
		return untold("another call with a long prompt")
	}
	// A long prompt does take longer.
	fair := f.fair(least.bytes, first.sent)
	if fair == 0 {
		fair = max(15*time.Second, time.Duration(3*float64(slowest)*float64(least.bytes)/float64(max(most, 1))))
	}
	if least.wait < fair && first.wait < fair {
		return untold("whether the long prompts get an answer within " + short(fair))
	}
	sure := ConfidenceMedium
	if len(hung) >= 2 && passed >= 10 {
		sure = ConfidenceHigh
	}
	out := holds(sure, first.sent,
		Fact{At: f.Now, Text: fmt.Sprintf("%d calls from %d bytes on have had no output, the longest for %s", len(hung),
			least.bytes, short(first.wait))},
		Fact{At: last, Text: fmt.Sprintf("%d calls of up to %d bytes were answered since the first of those was sent, the slowest first output after %s", passed, most, short(slowest))})
	for _, t := range f.engines {
		if t.compared() {
			out.facts = append(out.facts, t.fact("", MetricRunning, MetricWaiting, MetricDecoded, MetricGenerated))
		}
	}
	return out
}

// fair is how long a prompt of that size may take, by those that were answered
// before a moment. It is 0 if fewer than 5 were.
func (f *facts) fair(bytes int, before time.Time) time.Duration {
	n, slowest := 0, time.Duration(0)
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.FirstOutput > 0 && e.At.Before(before) && 2*e.PromptBytes >= bytes &&
			e.PromptBytes <= 2*bytes {
			n++
			slowest = max(slowest, e.FirstOutput)
		}
	}
	if n < 5 {
		return 0
	}
	return max(quietAfter, 5*slowest)
}

// chance is how likely it is that n calls are all that long by chance, going by the
// calls of the 5 minutes before. It is 1 if none of those was that long: then calls
// have grown, and that only long ones hang proves nothing.
func (f *facts) chance(bytes int, before time.Time, n int) float64 {
	all, long := 0, 0
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.PromptBytes > 0 && e.Started.Before(before) &&
			before.Sub(e.Started) < 5*time.Minute {
			all++
			if e.PromptBytes >= bytes {
				long++
			}
		}
	}
	if long == 0 || all < 20 {
		return 1
	}
	return math.Pow(float64(long)/float64(all), float64(n))
}

// runaway: an answer is far longer than other answers here.
func runaway(f *facts) finding {
	const (
		siblings = 8
		times    = 6
		least    = 2000   // pieces: agents that gave short answers may write a file
		unheard  = 20_000 // if too few answers are known to compare with
	)
	known, longest := 0, int64(0)
	for i := range f.Recent {
		if e := &f.Recent[i]; e.ok() && e.Outputs > 0 {
			known++
			longest = max(longest, e.Outputs)
		}
	}
	limit := int64(unheard)
	if known >= siblings {
		limit = max(least, times*longest)
	}
	var n int
	var most llmclient.InFlight
	for _, c := range f.Calls {
		if c.Outputs > limit && f.waited(c) < quietAfter {
			n++
			if c.Outputs > most.Outputs {
				most = c
			}
		}
	}
	if n == 0 {
		return refuted("no answer under way is longer than %d pieces", limit)
	}
	sure := ConfidenceMedium
	if n >= 2 || most.Outputs > 2*limit {
		sure = ConfidenceHigh
	}
	text := fmt.Sprintf("%d answers go on and on, the longest with %d pieces of output since %s", n, most.Outputs,
		most.FirstOutput.Format(time.TimeOnly))
	if known >= siblings {
		text += fmt.Sprintf("; of the last %d answers that ended the longest had %d", known, longest)
	}
	return holds(sure, most.FirstOutput, Fact{At: f.Now, Text: text}, f.calls())
}
