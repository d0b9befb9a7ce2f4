package engine

import "time"

// Fixed is a gate for a fixed number of calls at a time; less than one means
// any number.
func Fixed(limit int) Gate { return Planned(Stage{Limit: limit}) }

// A Stage is a limit from a moment on.
type Stage struct {
	From  time.Duration
	Limit int // less than one means none
}

// Planned is a gate for a number of calls that follows a plan: with the best
// limit for each phase of a setting it is an oracle.
func Planned(stages ...Stage) Gate { return &planned{stages: stages} }

type planned struct {
	stages []Stage // those that have come are cut off, except for the last
	inside int
}

func (p *planned) Enter(now time.Duration, _ int) bool {
	for len(p.stages) > 1 && p.stages[1].From <= now {
		p.stages = p.stages[1:]
	}
	if len(p.stages) > 0 && p.stages[0].Limit > 0 && p.inside >= p.stages[0].Limit {
		return false
	}
	p.inside++
	return true
}

func (p *planned) Leave(time.Duration, int, Outcome) { p.inside-- }

func (p *planned) First(time.Duration, int, time.Duration) {}

func (p *planned) Wake(time.Duration) (time.Duration, bool) {
	if len(p.stages) > 1 {
		return p.stages[1].From, true
	}
	return 0, false
}
