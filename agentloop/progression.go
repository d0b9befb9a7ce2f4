package agentloop

import (
	"fmt"
	"slices"
)

// A Progression is the ordered list of steps that make an agent's work
// complete, for example read → write or append → save.
//
// A step is taken when one of its tools succeeds, as often as Times says. Tools
// of steps that are not due yet are not run: the model is told what is missing.
// Tools of steps already taken, and tools that belong to no step, may be called
// at any time.
//
// The work is complete when all required steps are taken, or one with End. The
// agent is then done, without asking the model again, unless optional steps come
// after the last required one: those it may take or leave, and it is done when it
// has taken the last of them or answers with text. Nothing that happens there
// makes it less than done.
//
//	{Name: "read", Tools: []string{"read"}, Times: 2},           // at least twice
//	{Name: "decline", Tools: []string{"decline"}, Optional: true, End: true},
//	{Name: "write", Tools: []string{"write", "append"}},          // either
//	{Name: "save", Tools: []string{"save"}},
//	{Name: "tag", Tools: []string{"tag"}, Optional: true},
type Progression []Step

// A Step is one stage of a [Progression].
type Step struct {
	// Name identifies the step in results and in advice to the model.
	Name string

	// Tools are the tools that take the step, any of them.
	Tools []string

	// Times is how many successful calls take the step, at least. Zero means 1.
	Times int

	// Optional steps may be left out.
	Optional bool

	// End makes the step one with which the work ends, whatever steps come after it.
	// With Optional it is another way out, such as one for an author that finds nothing
	// to write about.
	End bool
}

func (p Progression) check(tools map[string]*Tool) error {
	seen := make(map[string]bool, len(p))
	completes, ended := false, ""
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
		if ended != "" {
			return fmt.Errorf("agentloop: Progression[%d] (%q) comes after step %q, with which the work ends", i, s.Name, ended)
		}
		seen[s.Name] = true
		if !s.Optional {
			completes = true
			if s.End {
				ended = s.Name
			}
		}
	}
	if len(p) > 0 && !completes {
		return fmt.Errorf("agentloop: Progression has only optional steps, want one that completes the work")
	}
	return nil
}

// without returns the progression of an agent that lacks some tools. Steps that no
// tool takes any more drop out.
func (p Progression) without(lacks func(tool string) bool) Progression {
	var rest Progression
	for _, s := range p.clone() {
		if s.Tools = slices.DeleteFunc(s.Tools, lacks); len(s.Tools) > 0 {
			rest = append(rest, s)
		}
	}
	if !slices.ContainsFunc(rest, func(s Step) bool { return !s.Optional }) {
		return nil
	}
	return rest
}

// clone returns a copy that shares nothing with p.
func (p Progression) clone() Progression {
	p = slices.Clone(p)
	for i := range p {
		p[i].Tools = slices.Clone(p[i].Tools)
	}
	return p
}
