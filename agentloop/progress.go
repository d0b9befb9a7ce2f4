package agentloop

import "slices"

// progress is how far an agent is in its progression.
type progress struct {
	steps  Progression
	byText bool     // the agent ends with a text, not with a step
	calls  []int    // successful calls that count for a step, by step
	taken  []string // names, in the order in which they were taken
	ended  bool     // a step with End is taken
}

func newProgress(p Progression, byText bool) progress {
	return progress{steps: p, byText: byText, calls: make([]int, len(p))}
}

// clone returns a copy to look ahead with.
func (p *progress) clone() progress {
	c := *p
	c.calls, c.taken = slices.Clone(p.calls), slices.Clip(p.taken)
	return c
}

func (p *progress) has(i int) bool { return p.calls[i] >= max(1, p.steps[i].Times) }

// due returns the index of the first required step that is not taken, or the number
// of steps. Tools of steps up to that one may be called.
func (p *progress) due() int {
	for i := range p.steps {
		if !p.steps[i].Optional && !p.has(i) {
			return i
		}
	}
	return len(p.steps)
}

// complete reports whether the work is done. It is false for an empty progression:
// there the model's last text ends the work.
func (p *progress) complete() bool {
	return len(p.steps) > 0 && (p.ended || p.due() == len(p.steps))
}

// over reports whether the work is complete and the model can add nothing.
func (p *progress) over() bool {
	if !p.complete() || p.byText {
		return false
	}
	if p.ended {
		return true
	}
	for i := len(p.steps) - 1; i >= 0 && p.steps[i].Optional; i-- {
		if !p.has(i) {
			return false
		}
	}
	return true
}

// finishing reports whether the work is nearly done: some of it is, and at most one
// required step is left.
func (p *progress) finishing() bool {
	return len(p.taken) > 0 && len(p.missing()) <= 1
}

// missing returns the names of the required steps not taken.
func (p *progress) missing() []string {
	if p.ended {
		return nil
	}
	var names []string
	for i := range p.steps {
		if !p.steps[i].Optional && !p.has(i) {
			names = append(names, p.steps[i].Name)
		}
	}
	return names
}

// blocked reports whether the tool's step is not due, and returns the steps that come
// before it.
func (p *progress) blocked(tool string) (before []Step, yes bool) {
	first := slices.IndexFunc(p.steps, func(s Step) bool { return slices.Contains(s.Tools, tool) })
	due := p.due()
	if first <= due {
		return nil, false
	}
	for i := due; i < first; i++ {
		if !p.steps[i].Optional && !p.has(i) {
			before = append(before, p.steps[i])
		}
	}
	return before, true
}

// take counts a successful call and returns the name of the step that it
// takes, or "", and whether it counts for one at all.
func (p *progress) take(tool string) (step string, counts bool) {
	for i := 0; i <= p.due() && i < len(p.steps); i++ {
		if p.has(i) || !slices.Contains(p.steps[i].Tools, tool) {
			continue
		}
		if p.calls[i]++; !p.has(i) {
			return "", true
		}
		p.taken = append(p.taken, p.steps[i].Name)
		p.ended = p.ended || p.steps[i].End
		return p.steps[i].Name, true
	}
	return "", false
}

// next returns the step that is due, or nil.
func (p *progress) next() *Step {
	if i := p.due(); i < len(p.steps) && !p.ended {
		return &p.steps[i]
	}
	return nil
}
