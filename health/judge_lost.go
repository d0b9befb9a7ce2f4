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
	if old, since := f.old(); f.told() && len(old) > 0 {
		if got, ok := f.account(old, since); ok {
			return got
		}
	}
	if n, slowest := f.overtaken(f.quiet); n > 0 {
		return holds(Medium, f.oldest(f.quiet), Fact{At: f.Now, Text: fmt.Sprintf("%d calls of like size that were sent later have had their answers, the slowest first output after %s", n, short(slowest))}, f.calls(), f.whose(f.quiet))
	}
	return untold("whether calls that are sent now are answered while those of before are not")
}

// old are the calls that were sent before the earlier one of the samples that are
// compared, and have had no byte since.
func (f *facts) old() (calls []llmclient.InFlight, since time.Time) {
	for _, t := range f.engines {
		if t.compared() && (since.IsZero() || t.was.At.Before(since)) {
			since = t.was.At
		}
	}
	for _, c := range f.quiet {
		if c.Bytes == 0 && c.Phase == llmclient.PhaseFirstOutput && !since.IsZero() && c.Since.Before(since) {
			calls = append(calls, c)
		}
	}
	return calls, since
}

// whose is the fact that all that wait took another way than those that were
// answered meanwhile, if they did.
func (f *facts) whose(calls []llmclient.InFlight) Fact {
	way := calls[0].Endpoint
	for _, c := range calls {
		if c.Endpoint != way {
			return Fact{}
		}
	}
	served, since := 0, f.oldest(calls)
	for i := range f.Recent {
		switch e := &f.Recent[i]; {
		case !e.ok() || e.Started.Before(since):
		case e.Endpoint == way:
			return Fact{}
		default:
			served++
		}
	}
	if served == 0 {
		return Fact{}
	}
	return Fact{At: f.Now, Text: fmt.Sprintf("all that wait were sent by way of %s; %d calls that went another way were answered since", way, served)}
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
