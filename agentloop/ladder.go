package agentloop

import "fmt"

// A pressure says how the next request presses for the step that is due.
type pressure int

const (
	advised  pressure = iota // by words alone
	narrowed                 // only the step's tools are offered
	forced                   // and tool_choice demands one
)

// A ladder is the remedies for answers of no use, in the order in which they
// are tried. All kinds of such answers share it: a model that fails in another
// way each time gets on no better.
//
//	rung        1 … Nudges   … + NarrowedTries   … + ForcedTries   beyond
//	remedy      advice       a narrow offer      tool_choice       the end
//
// Without a step to be taken there is nothing to press for, and advice is all.
type ladder struct {
	nudges, narrow, force int

	rung int    // answers of no use in a row
	text string // of the last of them
	same int    // how many of them, up to the last, said that
}

func newLadder(c *Config) ladder {
	tries := func(n int) int { return min(max(0, n), endless) }
	return ladder{nudges: tries(c.Nudges), narrow: tries(c.NarrowedTries), force: tries(c.ForcedTries)}
}

// pressure returns the remedy of the rung.
func (l *ladder) pressure() pressure {
	switch {
	case l.rung <= l.nudges:
		return advised
	case l.rung <= l.nudges+l.narrow:
		return narrowed
	}
	return forced
}

// up goes one rung higher, and returns an error that tells of the way if there
// is none. steps says whether there is one to be taken.
func (l *ladder) up(why error, text string, steps bool) error {
	l.rung++
	if text != "" && text == l.text {
		l.same++
	} else {
		l.text, l.same = text, 1
	}
	narrow, force := l.narrow, l.force
	if !steps {
		narrow, force = 0, 0
	}
	if l.rung <= l.nudges+narrow+force {
		return nil
	}
	said := ""
	if l.same > 1 {
		said = fmt.Sprintf("; the last %d said the same", l.same)
	}
	return fmt.Errorf("%w, %d answers of no use in a row (%d nudges, %d with a narrowed offer, %d forced tries)%s",
		why, l.rung, l.nudges, narrow, force, said)
}

// down leaves the ladder: there is progress.
func (l *ladder) down() { l.rung, l.text, l.same = 0, "", 0 }
