package agentloop

import (
	"fmt"
	"slices"
)

// A Progression is the ordered list of steps that make an agent's work
// complete, for example read → write or append → save.
//
// A step is taken when one of its tools succeeds. Tools of steps that are not
// due yet are not run: the model is told what is missing. Tools of steps
// already taken, and tools that belong to no step, may be called at any time.
// When the last required step is taken the agent is done, without asking the
// model again.
type Progression []Step

// A Step is one stage of a [Progression].
type Step struct {
	// Name stands in results and in what the model is told.
	Name string

	// Tools are the tools that take the step, any of them.
	Tools []string

	// Times is how many successful calls take the step. Zero means 1.
	Times int

	// Optional steps may be left out.
	Optional bool
}

func (p Progression) check(tools map[string]*Tool) error {
	seen := make(map[string]bool, len(p))
	required := 0
	for i, s := range p {
		switch {
		case s.Name == "":
			return fmt.Errorf("agentloop: Progression[%d].Name is empty", i)
		case seen[s.Name]:
			return fmt.Errorf("agentloop: Progression[%d].Name is %q, which an earlier step has", i, s.Name)
		case len(s.Tools) == 0:
			return fmt.Errorf("agentloop: Progression[%d].Tools is empty, want the tools that take step %q", i, s.Name)
		case s.Times < 0:
			return fmt.Errorf("agentloop: Progression[%d].Times is %d, want 0 or more", i, s.Times)
		}
		for _, t := range s.Tools {
			if tools[t] == nil {
				return fmt.Errorf("agentloop: Progression[%d].Tools has %q, which is not among Tools", i, t)
			}
		}
		seen[s.Name] = true
		if !s.Optional {
			required++
		}
	}
	if len(p) > 0 && required == 0 {
		return fmt.Errorf("agentloop: Progression has only optional steps, want one that completes the work")
	}
	return nil
}

// clone returns a copy that shares nothing with p.
func (p Progression) clone() Progression {
	p = slices.Clone(p)
	for i := range p {
		p[i].Tools = slices.Clone(p[i].Tools)
	}
	return p
}

// progress is how far an agent is in its progression.
type progress struct {
	steps Progression
	calls []int    // successful calls that count for a step, by step
	taken []string // names, in the order in which they were taken
}

func newProgress(p Progression) progress {
	return progress{steps: p, calls: make([]int, len(p))}
}

// clone returns a copy to look ahead with.
func (p *progress) clone() progress {
	return progress{steps: p.steps, calls: slices.Clone(p.calls)}
}

func (p *progress) has(i int) bool { return p.calls[i] >= max(1, p.steps[i].Times) }

// due returns the index of the first required step that is not taken, or the
// number of steps. Tools of steps up to there may be called.
func (p *progress) due() int {
	for i := range p.steps {
		if !p.steps[i].Optional && !p.has(i) {
			return i
		}
	}
	return len(p.steps)
}

// complete reports whether the work is done. An empty progression never says
// so: there the model's last text does.
func (p *progress) complete() bool { return len(p.steps) > 0 && p.due() == len(p.steps) }

// missing returns the names of the required steps not taken.
func (p *progress) missing() []string {
	var names []string
	for i := range p.steps {
		if !p.steps[i].Optional && !p.has(i) {
			names = append(names, p.steps[i].Name)
		}
	}
	return names
}

// blocked reports whether the tool's step is not due, and the steps that come
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
// takes, or "".
func (p *progress) take(tool string) string {
	for i := 0; i <= p.due() && i < len(p.steps); i++ {
		if p.has(i) || !slices.Contains(p.steps[i].Tools, tool) {
			continue
		}
		if p.calls[i]++; !p.has(i) {
			return ""
		}
		p.taken = append(p.taken, p.steps[i].Name)
		return p.steps[i].Name
	}
	return ""
}

// next returns the step that is due, or nil.
func (p *progress) next() *Step {
	if i := p.due(); i < len(p.steps) {
		return &p.steps[i]
	}
	return nil
}
