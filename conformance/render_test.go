package conformance_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// render writes the table as Markdown: a summary, a table for each library, and
// the exceptions.
func render(table []pair) string {
	var b strings.Builder
	verdicts := []verdict{hung, wrong, falseKill, failed, ok}
	b.WriteString("| | calls | hung | wrong | false kill | error | ok |\n|---|---|---|---|---|---|---|\n")
	for _, sdk := range sdks {
		for _, under := range []bool{false, true} {
			count := map[verdict]int{}
			calls := 0
			for _, p := range table {
				if p.cell.sdk.name == sdk.name && p.with.verdict != absent {
					count[p.half(under).verdict]++
					calls++
				}
			}
			if calls == 0 {
				continue
			}
			name := sdk.name
			if under {
				name += ", with Transport"
			}
			fmt.Fprintf(&b, "| %s | %d |", name, calls)
			for _, v := range verdicts {
				fmt.Fprintf(&b, " %d |", count[v])
			}
			b.WriteString("\n")
		}
	}
	for i, p := range table { // by library, then by fault, then by mode
		c := p.cell
		if i == 0 || table[i-1].cell.sdk.name != c.sdk.name {
			fmt.Fprintf(&b, "\n### %s\n\n| the server: |", c.sdk.name)
			for _, m := range modes {
				fmt.Fprintf(&b, " %s |", m)
			}
			b.WriteString("\n|---|" + strings.Repeat("---|", len(modes)) + "\n")
		}
		if c.mode == modes[0] {
			fmt.Fprintf(&b, "| %s |", c.fault.name)
		}
		fmt.Fprintf(&b, " %s |", p)
		if c.mode == modes[len(modes)-1] {
			b.WriteString("\n")
		}
	}
	b.WriteString("\n### Exceptions\n\n")
	for i, e := range exceptions {
		fmt.Fprintf(&b, "%d. %s\n", i+1, e.why)
	}
	return b.String()
}

func (p pair) half(under bool) result {
	if under {
		return p.with
	}
	return p.without
}

// String is the pair as the table shows it.
func (p pair) String() string {
	if p.with.verdict == absent {
		return string(absent)
	}
	with := p.with.String()
	if n := p.cell.exception(); n > 0 {
		with += fmt.Sprintf(" [%d]", n)
	}
	return p.without.String() + " → " + with
}

// String is the verdict, and when it came if that was minutes after the call
// and no wait for a healthy server.
func (r result) String() string {
	s := string(r.verdict)
	if r.verdict != hung && r.after >= time.Minute {
		s += ", " + minutes(r.after)
	}
	return s
}

func minutes(d time.Duration) string {
	if d < time.Minute {
		return "seconds"
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
}

func renderOwners(table []owners) string {
	var b strings.Builder
	b.WriteString("| | no head, every time | retries off | 503, every time | retries off |\n|---|---|---|---|---|\n")
	for _, o := range table {
		fmt.Fprintf(&b, "| %s |", o.name)
		for i := range o.left {
			for _, r := range []result{o.left[i], o.off[i]} {
				fmt.Fprintf(&b, " %d requests, %s |", r.requests, minutes(r.after))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Times are left out of the comparison: they have jitter in them.
var times = regexp.MustCompile(`, (\d+ min|seconds)`)

// readme compares a section of README.md with what it should be, or rewrites
// it with -update.
func readme(t *testing.T, section, text string) {
	t.Helper()
	const file = "README.md"
	begin, end := "<!-- begin "+section+" -->\n", "<!-- end "+section+" -->"
	old, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(old), begin)
	require.True(t, found, "%s has no %q", file, begin)
	was, tail, found := strings.Cut(rest, end)
	require.True(t, found, "%s has no %q", file, end)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+begin+text+end+tail), 0o644))
		return
	}
	plain := func(s string) []string { return strings.Split(times.ReplaceAllString(s, ""), "\n") }
	assert.Equal(t, plain(was), plain(text), "the %s in %s is out of date; see what has changed and run the test with -update", section, file)
}

// claimed holds what the project's README says in numbers to the table.
func claimed(t *testing.T, table []pair) {
	t.Helper()
	count := map[bool]map[verdict]int{false: {}, true: {}} // by whether it was under the Transport
	calls := 0
	for _, p := range table {
		if p.with.verdict == absent {
			continue
		}
		calls++
		for under, of := range count {
			of[p.half(under).verdict]++
		}
	}
	without, with := count[false], count[true]
	doc, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(doc)), " ")
	assert.Contains(t, text, fmt.Sprintf("%d kinds of server", len(faults)))
	assert.Contains(t, text, fmt.Sprintf("Of %d calls without it %d never return, %d return something else than the whole answer, and %d fail on a healthy server; with it %d, %d and %d",
		calls, without[hung], without[wrong], without[falseKill], with[hung], with[wrong], with[falseKill]))
}
