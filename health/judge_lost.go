package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// lost: we wait, and no server has our request.
func lost(f *facts) finding {
	if len(f.quiet) == 0 {
		return refuted("no call has waited for %s", short(quietAfter))
	}
	// The server's account of what it has is a rigorous one, if it is alive: it
	// must have at least all that was sent before the earlier sample and still
	// waits.
	var since time.Time
	for _, t := range f.engines {
		if t.compared() && (since.IsZero() || t.was.At.Before(since)) {
			since = t.was.At
		}
	}
	var old []llmclient.InFlight
	for _, c := range f.quiet {
		if c.Bytes == 0 && c.Phase == llmclient.PhaseFirstOutput && !since.IsZero() && c.Since.Before(since) {
			old = append(old, c)
		}
	}
	if f.told() && len(old) > 0 {
		ours := f.ours()
		if has, ok := f.held(); ok && int(has) < ours {
			alive := f.moved() || f.stirred()
			for _, t := range f.engines {
				switch {
				case t.last.stalled():
					return refuted("a scheduler does not answer, and its gauges are not to be believed")
				case t.last.Scheduler == Reached:
					alive = true
				}
			}
			if !alive && has > 0 {
				return untold("whether the engine makes tokens again: its numbers stand still, and may be old")
			}
			facts := []Fact{{At: f.Now, Text: fmt.Sprintf("%d calls are with the server, %d of them without a byte since before %s; all engines together have %s requests",
				ours, len(old), since.Format(time.TimeOnly), number(has))}}
			for _, t := range f.engines {
				facts = append(facts, t.fact("", Running, Waiting, Inflight, Decoded, Generated))
			}
			facts = append(facts, f.calls())
			sure := Medium
			if n, _ := f.overtaken(old); n > 0 || f.atRest() || int(has)*2 < ours {
				sure = High
			}
			if !alive {
				sure = Low // a scheduler that stopped at rest looks the same
				if n, _ := f.overtaken(old); n > 0 {
					sure = Medium
				}
			}
			return holds(sure, f.oldest(old), facts...)
		} else if ok {
			return refuted("the engines have %s requests, and we have %d with them", number(has), ours)
		}
	}
	if n, slowest := f.overtaken(f.quiet); n > 0 {
		return holds(Medium, f.oldest(f.quiet), Fact{At: f.Now, Text: fmt.Sprintf("%d calls of like size that were sent later have had their answers, the slowest first output after %s", n, short(slowest))}, f.calls())
	}
	return untold("whether calls that are sent now are answered while those of before are not")
}

// ours is how many calls were with the server when the last samples were taken,
// and still are. Gauges may be some seconds old.
func (f *facts) ours() (n int) {
	const renewed = 3 * time.Second
	at := f.Now
	for _, t := range f.engines {
		if t.now != nil && t.now.At.Before(at) {
			at = t.now.At
		}
	}
	for _, c := range f.sent {
		sent := c.Since
		if c.Phase == llmclient.PhaseOutput && !c.FirstOutput.IsZero() {
			sent = c.FirstOutput
		}
		if c.Phase >= llmclient.PhaseFirstOutput && at.Sub(sent) >= renewed {
			n++
		}
	}
	return n
}

func (f *facts) oldest(calls []llmclient.InFlight) time.Time {
	at := f.Now
	for _, c := range calls {
		if c.Since.Before(at) {
			at = c.Since
		}
	}
	return at
}

// overtaken counts the calls that were sent after the oldest of these, are of
// like size, and have had their first output long ago, compared with how long
// that one has waited.
func (f *facts) overtaken(calls []llmclient.InFlight) (n int, slowest time.Duration) {
	const siblings, times = 5, 5
	for _, c := range calls {
		if c.Bytes > 0 || c.Phase != llmclient.PhaseFirstOutput {
			continue
		}
		n, slowest = 0, 0
		for i := range f.Recent {
			e := &f.Recent[i]
			like := e.PromptBytes <= 2*c.PromptBytes && c.PromptBytes <= 2*e.PromptBytes && e.Model == c.Model && e.Endpoint == c.Endpoint
			if e.ok() && e.FirstOutput > 0 && like && e.Started.After(c.Since) {
				n++
				slowest = max(slowest, e.FirstOutput)
			}
		}
		if n >= siblings && f.waited(c) >= max(patience, times*slowest) {
			return n, slowest
		}
	}
	return 0, 0
}
