package agentloop

import "fmt"

// A pressure is how strongly the next request asks for the step that is due.
type pressure int

const (
	advised  pressure = iota // by words alone
	narrowed                 // only the step's tools are offered
	forced                   // and tool_choice demands one
)

// An escalation is the sequence of remedies for useless answers. All kinds of useless
// answers share it: a model that fails in another way each time makes no progress
// either.
//
//	answers in a row   1 … Nudges   … + NarrowedTries   … + ForcedTries   beyond
//	remedy             advice       a narrow offer      tool_choice       the end
//
// If no step is due, advice is the only remedy.
type escalation struct {
	nudges, narrow, force int

	useless int    // useless answers in a row
	text    string // of the last of them
	same    int    // how many of them, up to the last, said that
}

func newEscalation(c *Config) escalation {
	tries := func(n int) int { return min(max(0, n), endless) }
	return escalation{nudges: tries(c.Nudges), narrow: tries(c.NarrowedTries), force: tries(c.ForcedTries)}
}

// pressure returns the remedy that is due.
func (l *escalation) pressure() pressure {
	switch {
	case l.useless <= l.nudges:
		return advised
	case l.useless <= l.nudges+l.narrow:
		return narrowed
	}
	return forced
}

// up counts one more useless answer. It returns an error that tells what was tried if
// there is no remedy left. steps says whether a step is due.
func (l *escalation) up(why error, text string, steps bool) error {
	l.useless++
	if text != "" && text == l.text {
		l.same++
	} else {
		l.text, l.same = text, 1
	}
	narrow, force := l.narrow, l.force
	if !steps {
		narrow, force = 0, 0
	}
	if l.useless <= l.nudges+narrow+force {
		return nil
	}
	said := ""
	if l.same > 1 {
		said = fmt.Sprintf("; the last %d said the same", l.same)
	}
	return fmt.Errorf("%w, %d answers of no use in a row (%d nudges, %d with a narrowed offer, %d forced tries)%s",
		why, l.useless, l.nudges, narrow, force, said)
}

// down begins anew: there is progress.
func (l *escalation) down() { l.useless, l.text, l.same = 0, "", 0 }
