package main

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/llmclient"
)

// cause says why an agent is not done. If the whole run was ended, that is the reason
// for all: agents with one trouble should report one thing. Otherwise it is the
// loop's error without agent, outcome and missing steps, which have their own fields
// in the report.
func cause(res agentloop.Result, all error) string {
	var causes []string
	switch inner := errors.Unwrap(res.Err); {
	case res.Err == nil:
	case all != nil && errors.Is(res.Err, all):
		causes = append(causes, all.Error())
	case inner != nil:
		causes = append(causes, inner.Error())
	default:
		causes = append(causes, res.Err.Error())
	}
	if res.DraftErr != nil {
		causes = append(causes, res.DraftErr.Error())
	}
	return cut(strings.Join(strings.Fields(strings.Join(causes, "; ")), " "), 1000)
}

// kindOf names the kind of a failure in a word or two, the same for all failures with
// one cause: "timeout of Gap", "server 503". It is "" if the error has no kind.
func kindOf(err error) string {
	if e, ok := errors.AsType[*llmclient.Error](err); ok {
		switch {
		case e.Clock != "":
			return e.Kind.String() + " of " + string(e.Clock)
		case e.Status >= 400:
			return e.Kind.String() + " " + strconv.Itoa(e.Status)
		}
		return e.Kind.String()
	}
	if e, ok := errors.AsType[*agentloop.TimeoutError](err); ok {
		return "deadline of " + e.Of
	}
	return ""
}

// failures groups the agents that are not done by outcome and kind of error: 45
// agents with one trouble are one line, even if they waited for different times. The
// largest group comes first.
func (r *report) failures() []failure {
	var groups []failure
	for i := range r.Agents {
		a := &r.Agents[i]
		if a.Outcome == done {
			continue
		}
		f := failure{outcome: a.Outcome, kind: a.kind, text: "no error"}
		if a.Error != nil {
			f.text = roundTimes(*a.Error)
		}
		at := slices.IndexFunc(groups, f.isLike)
		if at < 0 {
			at = len(groups)
			groups = append(groups, f)
		}
		g := &groups[at]
		g.names = append(g.names, a.Name)
		g.differ = g.differ || g.text != f.text
	}
	slices.SortStableFunc(groups, func(a, b failure) int { return len(b.names) - len(a.names) })
	return groups
}

// A failure is one reason and the agents that share it.
type failure struct {
	outcome, kind string
	text          string // of the first of them
	differ        bool   // others say it in other words
	names         []string
}

// isLike reports whether two failures have one reason. Errors without a kind
// are alike if their texts are.
func (f *failure) isLike(g failure) bool {
	return f.outcome == g.outcome && f.kind == g.kind && (f.kind != "" || f.text == g.text)
}

// exactTime matches a duration with a fraction, as Go prints it.
var exactTime = regexp.MustCompile(`\b(?:\d+h)?(?:\d+m)?\d+\.\d+(?:s|ms|µs)\b`)

// roundTimes rounds the durations in a text to what a person reads.
func roundTimes(text string) string {
	return exactTime.ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return s
		case d < time.Millisecond:
			return d.Round(time.Microsecond).String()
		case d < time.Second:
			return d.Round(time.Millisecond).String()
		}
		return seconds(d)
	})
}
