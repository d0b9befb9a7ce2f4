package llmclient

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Deadline is one of the nested bounds that are in force when a call ends: the
// caller's, the call's, the attempt's and the clock's.
type Deadline struct {
	// Of is its owner: "caller", "call", "attempt 2", or the name of a clock.
	Of string
	// Bound is how long it may last; zero means that it has no bound of its own.
	Bound time.Duration
	// Spent is how long it has lasted.
	Spent time.Duration
}

// String describes it in a few words.
func (d Deadline) String() string {
	if d.Bound == 0 {
		return fmt.Sprintf("%s %v", d.Of, round(d.Spent))
	}
	return fmt.Sprintf("%s %v of %v", d.Of, round(d.Spent), round(d.Bound))
}

// tree lists the bounds of an error, the outermost first.
func tree(list []Deadline) string {
	if len(list) == 0 {
		return ""
	}
	parts := make([]string, len(list))
	for i, d := range list {
		parts[i] = d.String()
	}
	return " [" + strings.Join(parts, " > ") + "]"
}

// deadlines notes the bounds of the caller and the call, which has spent that much of
// its own.
func (cl *call) deadlines(e *Error, now time.Time, spent time.Duration) {
	list := e.around[:0]
	if at, ok := cl.parent.Deadline(); ok {
		list = append(list, Deadline{"caller", at.Sub(cl.started), now.Sub(cl.started)})
	}
	limit := cl.client.cfg.Clocks.bound(iCall, cl.at.load).limit
	e.Deadlines = append(list, Deadline{"call", limit, spent})
}

// deadlines notes the bounds around the attempt, its own, and that of the clock that
// runs or ran out.
func (a *attempt) deadlines(e *Error, m *meter, out *expiry, now time.Time) {
	a.call.deadlines(e, now, a.call.spent+m.spent(m.moment(now)))
	list := append(e.Deadlines, Deadline{Of: attemptName(a.n), Spent: now.Sub(a.started)})
	switch i := m.running(); {
	case out != nil && out.clock == ClockCall:
	case out != nil && out.evidence == "":
		list = append(list, Deadline{string(out.clock), out.bound, out.bound})
	case i >= 0:
		list = append(list, Deadline{string(clockNames[i]), m.limit(i), m.moment(now).Sub(m.clocks[i].since)})
	}
	e.Deadlines = list
}

func attemptName(n int) string {
	if n == 1 {
		return "attempt 1" // without an allocation, since thousands may need it at once
	}
	return "attempt " + strconv.Itoa(n)
}

// running returns the clock that bounds the phase, or -1.
func (m *meter) running() int {
	for _, i := range [...]int{iEnd, iGap, iFirstOutput, iAttempt, iSend, iConnect} {
		if m.clocks[i].since != never {
			return i
		}
	}
	return -1
}
