package llmclient

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Attempt is one request on the wire.
type Attempt struct {
	Endpoint string // its name
	Started  time.Time
	Duration time.Duration
	Phase    Phase // the phase in which it ended
	Status   int   // 0 if no answer came
	Kind     Kind  // 0 if it succeeded
	Clock    ClockName
	Text     string // what went wrong, in a few words
	Bytes    int64  // of the answer's body
}

const (
	// Of a call's attempts the first and the last ones are kept: those that do not
	// count (see [Retry]) may be as many as fit into Clocks.Call.
	firstAttempts = 8
	lastAttempts  = 56

	// maxRuns bounds what is kept of the texts of the others.
	maxRuns = 8

	// shownRuns bounds what an error shows of its earlier attempts.
	shownRuns = 5
)

// attempts are those of a call, in order.
type attempts struct {
	list  []Attempt // the first and the last ones
	count int
	out   []run      // what those between them met
	one   [1]Attempt // room for the first
}

// A run is a number of consecutive attempts that met the same; an empty text
// stands for attempts that met various things.
type run struct {
	text string
	n    int
}

// add notes an attempt that has ended.
func (s *attempts) add(a Attempt) {
	if s.list == nil {
		s.list = s.one[:0]
	}
	s.count++
	if len(s.list) == firstAttempts+lastAttempts {
		text := s.list[firstAttempts].Text
		if n := len(s.out); n >= maxRuns && s.out[n-1].text != text {
			text = ""
		}
		s.out = addRun(s.out, run{text, 1})
		s.list = slices.Delete(s.list, firstAttempts, firstAttempts+1)
	}
	s.list = append(s.list, a)
}

// addRun appends r, or adds it to the last run if that has the same text.
func addRun(runs []run, r run) []run {
	if n := len(runs); n > 0 && runs[n-1].text == r.text {
		runs[n-1].n += r.n
		return runs
	}
	return append(runs, r)
}

// earlier describes what the attempts of a call met before the last one.
func earlier(list []Attempt, out []run) string {
	var runs []run
	for i, a := range list[:len(list)-1] {
		if i == firstAttempts {
			for _, r := range out {
				runs = addRun(runs, r)
			}
		}
		runs = addRun(runs, run{a.Text, 1})
	}
	if extra := len(runs) - shownRuns; extra > 0 {
		const from = shownRuns / 2
		var others run
		for _, r := range runs[from : from+extra+1] {
			others.n += r.n
		}
		runs = slices.Replace(runs, from, from+extra+1, others)
	}
	parts := make([]string, len(runs))
	for i, r := range runs {
		switch {
		case r.text == "":
			parts[i] = fmt.Sprintf("%d others", r.n)
		case r.n > 1:
			parts[i] = fmt.Sprintf("%d × %s", r.n, r.text)
		default:
			parts[i] = r.text
		}
	}
	return strings.Join(parts, "; ")
}
