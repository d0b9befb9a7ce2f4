package agentloop

// Some servers refuse tool_choice, mostly when the model reasons, and some crash.
// Then the offer stays narrowed to the step's tools and the advice does the rest.
// What was learned holds for all agents of the group that ask the same model.

// cannotForce reports whether the failure of a request with tool_choice means that
// the request must be repeated without.
func (r *run) cannotForce(ans *reply) bool {
	switch {
	case ans.denied:
		return false
	case ans.retryable && !ans.choosy:
		if !ans.broken {
			return false
		}
		// The same failure twice is no passing fault. The next request shows what it is.
		if r.crashes++; r.crashes < 2 {
			return false
		}
		r.trying = true
	}
	r.noChoice = muted(ans.err)
	return true
}

// A modelKey names a model at an endpoint, which takes tool_choice or refuses it.
type modelKey struct{ endpoint, model string }

// learnNoChoice notes that a model refused a request with tool_choice and answered
// the same one without.
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

// noChoice returns the model's refusal of tool_choice, or nil if it has not refused.
func (g *groupRun) noChoice(a *Agent) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.choiceless[modelKey{a.endpoint, a.cfg.Request.Model}]
}
