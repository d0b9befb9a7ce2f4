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
// context: all its agents end as [Cancelled] with the cause in their Err. The
// first cause stays. With groups inside tools of groups it is the innermost.
// It reports whether there is such a group. A nil cause means
// [context.Canceled]. The cause is wrapped: find it with errors.Is and
// errors.As.
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

// Alive tells the watchdog that the call with this context makes headway. A
// [Model] may call it for each chunk, a long tool for each item; it costs less
// than a microsecond. Life of an agent that runs inside a tool is also life of
// the agent that called the tool.
func Alive(ctx context.Context) {
	if r := self(ctx); r != nil {
		r.beat()
	}
}
