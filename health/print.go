package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// String returns the verdict as a page for the engineer on call: the cause, since
// when and for how many calls, what to do, the client's and the servers' side in
// two columns, the evidence, and what was ruled out.
func (v Verdict) String() string {
	if v.State == "" {
		return "health: nothing is known yet\n"
	}
	var b strings.Builder
	b.WriteString(strings.ToUpper(string(v.State)))
	if !v.Since.IsZero() && (v.State.Fault() || v.State == StateCannotTell) {
		fmt.Fprintf(&b, " since %s%s", v.Since.Format(time.TimeOnly), forHowLong(v.At.Sub(v.Since)))
	}
	fmt.Fprintf(&b, " (%s confidence)\n", v.Confidence)
	var because []string
	for i, f := range v.Evidence {
		if i == 0 && v.State != StateCannotTell {
			fmt.Fprintf(&b, "  %s\n", f)
			continue
		}
		because = append(because, f.String())
	}
	if line := v.Uniform.line(v.At); line != "" {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, l := range lines {
			fmt.Fprintf(&b, "  - %s\n", l)
		}
	}
	list("what to do", v.Do)
	if v.State == StateCannotTell {
		list("what would tell", v.WouldTell)
	}
	b.WriteByte('\n')
	ours := append([]string{"OUR CALLS at " + v.At.Format("2006-01-02 15:04:05 MST")}, v.sheet.ours...)
	beside(&b, ours, append([]string{"THE SERVER"}, v.sheet.theirs...))
	list("because", because)
	list("ruled out", v.ruledOut())
	if v.State != StateCannotTell {
		list("what would tell more", v.WouldTell)
	}
	return b.String()
}

// line says whether all calls have the same trouble.
func (u Uniformity) line(now time.Time) string {
	switch {
	case u.Of == 0:
		return ""
	case u.Systemic:
		return fmt.Sprintf("%d of %d calls are in phase %s, and none has got anywhere since %s%s: it is all of them",
			u.Calls, u.Of, u.Phase, u.Since.Format(time.TimeOnly), forHowLong(now.Sub(u.Since)))
	}
	return fmt.Sprintf("%d of %d calls are in phase %s", u.Calls, u.Of, u.Phase)
}

// forHowLong says how long something has lasted, or nothing below 1 s.
func forHowLong(d time.Duration) string {
	if d < time.Second {
		return ""
	}
	return ", for " + short(d)
}

// ruledOut are the faults that were ruled out, grouped by the fact that did it.
func (v Verdict) ruledOut() []string {
	var facts []string
	states := make(map[string][]string)
	for _, e := range v.RuledOut {
		if !e.State.Fault() && e.State != StateSaturated {
			continue
		}
		if !slices.Contains(facts, e.By) {
			facts = append(facts, e.By)
		}
		states[e.By] = append(states[e.By], string(e.State))
	}
	var lines []string
	for _, by := range facts {
		lines = append(lines, strings.Join(states[by], ", ")+": "+by)
	}
	return lines
}

// beside writes two columns.
func beside(b *strings.Builder, left, right []string) {
	const width = 46
	row := func(l, r string) {
		line := fmt.Sprintf("%-*s | %s", width, l, r)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	var wrapped []string
	for _, l := range left {
		wrapped = append(wrapped, wrap(l, width)...)
	}
	for i := range max(len(wrapped), len(right)) {
		var l, r string
		if i < len(wrapped) {
			l = wrapped[i]
		}
		if i < len(right) {
			r = right[i]
		}
		row(l, r)
	}
}

// wrap breaks a text into lines of a width, at spaces.
func wrap(s string, width int) []string {
	var out []string
	for len(s) > width {
		i := strings.LastIndexByte(s[:width], ' ')
		if i <= 6 {
			i = width
		}
		out = append(out, s[:i])
		s = "      " + strings.TrimLeft(s[i:], " ")
	}
	return append(out, s)
}
