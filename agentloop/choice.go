package agentloop

// Some servers refuse to be told what to call, mostly when the model reasons, and
// some crash. Then the offer stays narrowed to the step's tools, words do the rest,
// and what was learned holds for all agents of the group that ask the same model.

// cannotForce reports whether the failure of a request with tool_choice says that
// it is to be asked without.
func (r *run) cannotForce(ans *reply) bool {
	switch {
	case ans.denied:
		return false
	case ans.retryable && !ans.choosy:
		if !ans.broken {
			return false
		}
		// The same again says that it is no passing fault. What it is the next
		// request shows.
		if r.crashes++; r.crashes < 2 {
			return false
		}
		r.trying = true
	}
	r.noChoice = muted(ans.err)
	return true
}

// A modelKey is what refuses tool_choice, or does not.
type modelKey struct{ endpoint, model string }

// learnNoChoice notes that a model answered without tool_choice what it refused
// with it.
func (g *groupRun) learnNoChoice(a *Agent, refusal error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.choiceless == nil {
		g.choiceless = make(map[modelKey]error)
	}
	if key := (modelKey{a.endpoint, a.cfg.Request.Model}); g.choiceless[key] == nil {
		g.choiceless[key] = refusal
	}
}

// noChoice returns what a model said that takes no tool_choice, or nil.
func (g *groupRun) noChoice(a *Agent) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.choiceless[modelKey{a.endpoint, a.cfg.Request.Model}]
}
