package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// A waiting is a number of goroutines with one and the same stack.
type waiting struct {
	count int
	state string   // what the runtime says they do: select, chan receive, …
	funcs []string // outermost first
}

// stacks returns the goroutines of the process, grouped, the largest group
// first.
func stacks() []waiting {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && len(buf) < 64<<20 {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	return groupStacks(string(buf[:n]))
}

// groupStacks reads the text of a dump as the runtime prints it.
func groupStacks(dump string) []waiting {
	var groups []waiting
	at := make(map[string]int)
	for g := range strings.SplitSeq(dump, "\n\n") {
		head, rest, _ := strings.Cut(strings.TrimSpace(g), "\n")
		_, state, ok := strings.Cut(head, "[")
		if !ok || !strings.HasPrefix(head, "goroutine ") {
			continue
		}
		// "select, 2 minutes, locked to thread]:" is the state select.
		state, _, _ = strings.Cut(strings.TrimSuffix(state, "]:"), ",")
		var funcs []string
		for line := range strings.Lines(rest) {
			// Lines that begin with a tab tell the place in the source.
			// Those of the runtime, and of what is linked into it, tell nothing
			// that the state does not.
			if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '\t' || strings.HasPrefix(line, "created by ") ||
				strings.HasPrefix(line, "runtime.") || strings.HasPrefix(line, "sync.runtime_") {
				continue
			}
			funcs = append(funcs, funcName(line))
		}
		slices.Reverse(funcs)
		key := state + "\n" + strings.Join(funcs, "\n")
		i, seen := at[key]
		if !seen {
			i = len(groups)
			at[key] = i
			groups = append(groups, waiting{state: state, funcs: funcs})
		}
		groups[i].count++
	}
	slices.SortStableFunc(groups, func(a, b waiting) int { return b.count - a.count })
	return groups
}

// funcName cuts the arguments and the module's path from a line of a stack:
// net/http.(*Client).Do(0xc0000a, ...) becomes net/http.(*Client).Do.
func funcName(line string) string {
	if i := strings.LastIndexByte(line, '('); i > 0 && strings.HasSuffix(line, ")") {
		line = line[:i]
	}
	return strings.TrimPrefix(line, "github.com/neverhang/neverhang/")
}

// through reports whether the stack passes a function whose name holds part.
func (w *waiting) through(part string) bool {
	return slices.ContainsFunc(w.funcs, func(f string) bool { return strings.Contains(f, part) })
}

// print writes the group: how many goroutines have the stack, and the stack.
func (w *waiting) print(out io.Writer) {
	last := "nowhere"
	if len(w.funcs) > 0 {
		last = w.funcs[len(w.funcs)-1]
	}
	noun := "goroutines"
	if w.count == 1 {
		noun = "goroutine"
	}
	fmt.Fprintf(out, "%5d %s in %s (%s)\n", w.count, noun, last, w.state)
	fmt.Fprintf(out, "      %s\n", strings.Join(w.funcs, " → "))
}
