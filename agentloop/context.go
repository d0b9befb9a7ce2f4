package agentloop

import "context"

type runKey struct{}

// self returns the run whose tool or model was given ctx, or nil.
func self(ctx context.Context) *run {
	if ctx == nil {
		return nil
	}
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// AgentName returns the name of the agent that runs the tool or model call
// with this context; empty if none does. Tools that many agents share tell
// them apart with it.
func AgentName(ctx context.Context) string {
	if r := self(ctx); r != nil {
		return r.agent.cfg.Name
	}
	return ""
}

// CancelGroup ends the group whose agent runs the tool or model call with this
// context: all its agents end as [Cancelled] with the cause in their Err. The first
// cause stays. If groups run in tools of groups, it ends the innermost. It reports
// whether there is such a group. A nil cause means [context.Canceled]. The cause is
// wrapped: find it with errors.Is and errors.As.
func CancelGroup(ctx context.Context, cause error) bool {
	r := self(ctx)
	if r == nil {
		return false
	}
	if cause == nil {
		cause = context.Canceled
	}
	r.group.cancel(contained(cause))
	return true
}

// CancelAgents ends agents by name, in the group whose agent runs the tool or model
// call with this context, even those that have not started yet and those that run in
// tools. They end as [Cancelled] with the cause in their Err. For each, the first
// cause stays. It returns how many had not ended before. A nil cause means
// [context.Canceled].
func CancelAgents(ctx context.Context, cause error, names ...string) int {
	r := self(ctx)
	if r == nil {
		return 0
	}
	if cause == nil {
		cause = context.Canceled
	}
	return r.group.cancelAgents(contained(cause), names)
}

type callKey struct{}

// callOf returns the tool call of run r that ctx belongs to, or nil. Agents that run
// in a tool get the contexts of their own calls from its context.
func callOf(ctx context.Context, r *run) *toolCall {
	if c, ok := ctx.Value(callKey{}).(*toolCall); ok && c.of == r {
		return c
	}
	return nil
}

// CallID returns the id of the tool call with this context. The id stays the same
// when a killed run goes on and makes the call again, so a service that gets it can
// recognise the repetition. It is unique within one run of an agent, even if the
// agent is started over; together with [AgentName] it is unique within a group.
func CallID(ctx context.Context) string {
	if ctx == nil {
		return ""
	}
	if c, ok := ctx.Value(callKey{}).(*toolCall); ok {
		return c.ID
	}
	return ""
}

// Progress announces how far the tool call with this context has come, as an event
// (EventToolProgress). It is a sign of life, as [Heartbeat] is. Outside of a tool
// call it does nothing.
func Progress(ctx context.Context, text string) {
	r := self(ctx)
	if r == nil {
		return
	}
	Heartbeat(ctx)
	if c := callOf(ctx, r); c != nil {
		r.emit(Event{Kind: EventToolProgress, Tool: c.Name, CallID: c.ID, Text: text})
	}
}

// Heartbeat tells the watchdog that the call with this context makes headway. A
// [Model] may call it for each chunk, a long tool for each item; it costs less than a
// microsecond. A sign of life of an agent that runs inside a tool is also one of the
// agent that called the tool.
func Heartbeat(ctx context.Context) {
	r := self(ctx)
	if r == nil {
		return
	}
	if c := callOf(ctx, r); c != nil {
		r.beat(c.act)
	} else if l, _ := ctx.Value(callSignalsKey{}).(*callSignals); l != nil && l.of == r {
		l.output()
	}
}
