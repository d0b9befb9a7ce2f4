package llmclient

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

// Dump prints what the clients' calls in flight wait for: the phases with
// their counts first, then every call, the longest wait first. It is what a
// goroutine dump would tell if goroutines knew their purpose.
func Dump(w io.Writer, clients ...*Client) error {
	var b strings.Builder
	for _, c := range clients {
		c.dump(&b, time.Now())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// DumpOnSignal prints a [Dump] of the clients to w whenever the process gets one
// of the signals; without any, SIGUSR1 on Unix and none elsewhere. With SIGQUIT
// among them the runtime's own dump, which ends the process, no longer comes.
// stop ends it and waits for a dump under way; where there is no signal to wait
// for it does nothing.
func DumpOnSignal(w io.Writer, signals []os.Signal, clients ...*Client) (stop func()) {
	if len(signals) == 0 {
		signals = dumpSignals()
	}
	if len(signals) == 0 {
		return func() {} // Notify would relay every signal
	}
	got := make(chan os.Signal, 1)
	quit, done := make(chan struct{}), make(chan struct{})
	signal.Notify(got, signals...)
	go func() {
		defer close(done)
		for {
			select {
			case <-got:
				_ = Dump(w, clients...)
			case <-quit:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(got)
		close(quit)
		<-done
	})
}

func (c *Client) dump(b *strings.Builder, now time.Time) {
	list := c.InFlight()
	eps := c.Endpoints()
	for _, ep := range eps {
		n := len(list)
		if len(eps) > 1 {
			n = ep.Calls
		}
		fmt.Fprintf(b, "neverhang: %d calls in flight to %s; breaker %s, pacer %d in flight, %d waiting\n",
			n, ep.Name, ep.Breaker.State, ep.Pacer.InFlight, ep.Pacer.Queued)
		if verdict := c.explain(ep.Name); verdict != "" {
			fmt.Fprintf(b, "  the server: %s\n", verdict)
		}
	}
	type group struct {
		phase  Phase
		n      int
		oldest time.Time
	}
	var groups []group
	for _, f := range list {
		i := slices.IndexFunc(groups, func(g group) bool { return g.phase == f.Phase })
		if i < 0 {
			groups = append(groups, group{phase: f.Phase, oldest: f.Since})
			i = len(groups) - 1
		}
		groups[i].n++
		if f.Since.Before(groups[i].oldest) {
			groups[i].oldest = f.Since
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return b.n - a.n })
	for _, g := range groups {
		fmt.Fprintf(b, "%6d %-12s since %s, the oldest for %v\n", g.n, g.phase, g.oldest.Format(time.TimeOnly), round(now.Sub(g.oldest)))
	}
	slices.SortFunc(list, func(a, b InFlight) int { return a.Since.Compare(b.Since) })
	for _, f := range list {
		fmt.Fprintf(b, "  call %d %s\n", f.Call, f.describe(now))
	}
}

// describe tells a call on one line.
func (f *InFlight) describe(now time.Time) string {
	var b strings.Builder
	if f.Caller != "" {
		fmt.Fprintf(&b, "of %q: ", f.Caller)
	}
	fmt.Fprintf(&b, "%s for %v", f.Phase, round(now.Sub(f.Since)))
	if f.Attempt > 0 {
		fmt.Fprintf(&b, ", attempt %d", f.Attempt)
	}
	if f.Bytes > 0 {
		fmt.Fprintf(&b, ", %d bytes and some %d tokens so far", f.Bytes, f.Tokens)
	}
	if !f.LastOutput.IsZero() {
		fmt.Fprintf(&b, ", the last %v ago", round(now.Sub(f.LastOutput)))
	}
	if f.Pings > 0 {
		fmt.Fprintf(&b, ", %d pings since", f.Pings)
	}
	if f.Phase < PhaseConnect && f.WaitingFor != "" { // of the others the phase tells
		fmt.Fprintf(&b, ", for %s", f.WaitingFor)
	}
	if f.Suspect != "" {
		fmt.Fprintf(&b, ", suspect (clock %s)", f.Suspect)
	}
	fmt.Fprintf(&b, ", in all %v", round(now.Sub(f.Started)))
	if f.Evidence != "" {
		fmt.Fprintf(&b, "; %s", f.Evidence)
	}
	return b.String()
}
