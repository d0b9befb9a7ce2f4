package agentloop

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// String describes in a line how the group ended, and then each agent that is not
// done and what was left behind.
func (r *Report) String() string {
	if r == nil {
		return "no report"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %v: %s", plural(len(r.Results), "agent"), brief(r.Duration), r.outcomes())
	if r.Stalls > 0 {
		fmt.Fprintf(&b, ", %s told", plural(r.Stalls, "stall"))
	}
	if r.Err != nil {
		fmt.Fprintf(&b, "; %v", r.Err)
	}
	for _, list := range [][]Result{r.Results, r.Children} {
		for i := range list {
			if list[i].Outcome != Done {
				b.WriteString("\n" + list[i].String())
			}
		}
	}
	for _, a := range r.Abandoned {
		fmt.Fprintf(&b, "\nleft behind: %s of %s, after %v", a.In, a.Agent, brief(a.Waited))
	}
	for _, u := range r.Uncertain {
		fmt.Fprintf(&b, "\nuncertain: %s of %s", u.Tool, u.Agent)
	}
	return b.String()
}

// outcomes counts them, the good one first.
func (r *Report) outcomes() string {
	var list []string
	for o := range r.Counts {
		if o != Done {
			list = append(list, string(o))
		}
	}
	slices.Sort(list)
	list = append([]string{string(Done)}, list...)
	for i, o := range list {
		list[i] = fmt.Sprintf("%d %s", r.Counts[Outcome(o)], o)
	}
	return strings.Join(list, ", ")
}

// String tells how the agent ended, and why.
func (r Result) String() string {
	text := fmt.Sprintf("%s: %s after %s and %v", r.Name, r.Outcome, plural(r.Rounds, "round"), brief(r.Duration))
	if len(r.Missing) > 0 {
		text += ", missing " + strings.Join(r.Missing, ", ")
	}
	if r.Err != nil {
		text += fmt.Sprintf(": %v", r.Err)
	}
	return text
}

// String tells the event in a line.
func (e Event) String() string {
	text := e.Time.Format(time.TimeOnly)
	if e.Agent != "" {
		text += " " + e.Agent
	}
	text += " " + string(e.Kind)
	for _, s := range []string{string(e.Outcome), e.Step, e.Tool} {
		if s != "" {
			text += " " + s
		}
	}
	if e.Round > 0 {
		text += fmt.Sprintf(" (round %d)", e.Round)
	}
	if e.After > 0 {
		text += fmt.Sprintf(" after %v", brief(e.After))
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
