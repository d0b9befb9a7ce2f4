package health

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// lost: calls wait, and no server has their requests.
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
		return holds(ConfidenceMedium, f.oldest(f.quiet),
			Fact{At: f.Now, Text: fmt.Sprintf("%d calls of like size that were sent later have had their answers, the slowest first output after %s", n, short(slowest))}, f.calls(), f.whose(f.quiet))
	}
	return untold("whether calls that are sent now are answered while those of before are not")
}

// old are the calls that were sent before the earlier of the compared samples, and
// have had no byte since.
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

// whose is the fact that all waiting calls use one endpoint, and all calls that were
// answered meanwhile used others. It is empty if that is not so.
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

// overtaken looks for a call without a byte that 5 calls of like size have overtaken:
// they were sent later, and had their first output in a fifth of the time that this
// one has waited, or less. It returns how many did, and the slowest of them.
func (f *facts) overtaken(calls []llmclient.InFlight) (n int, slowest time.Duration) {
	const siblings, times = 5, 5
	for _, c := range calls {
		if c.Bytes > 0 || c.Phase != llmclient.PhaseFirstOutput {
			continue
		}
		n, slowest = 0, 0
		for i := range f.Recent {
			e := &f.Recent[i]
			like := e.PromptBytes <= 2*c.PromptBytes && c.PromptBytes <= 2*e.PromptBytes && e.Model == c.Model &&
				e.Endpoint == c.Endpoint
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
