// Package agentloop runs agents that finish, or say why not: a [Model], some
// tools, a conversation and a [Progression] of steps that make the work
// complete. A [Group] runs many of them and returns a [Report] in which every
// one has a name and an [Outcome].
//
// # What it promises
//
//   - Every run ends. [Group.Run] returns at most 100 ms after its deadline,
//     whatever models, tools and hooks do: it never waits for user code without a
//     bound. Code that ignores its context is abandoned and listed with its stack;
//     Go cannot stop it, so the report says so.
//   - Done means done. An agent with a progression is done when its steps were
//     taken, not when the model says so. A model that stops early is nudged, then
//     offered only the missing tools, then forced, each a bounded number of times.
//   - Progress means something new. A model that goes in circles is warned, then
//     its calls are blocked, then the agent ends with the evidence. Rounds, time,
//     tokens, calls and cost are bounded. The error names the bound that was reached
//     and the missing steps.
//   - The history is valid for a strict server at any time: each tool call has
//     a unique id and valid arguments and is followed by exactly one result,
//     in call order; no message is empty; partial answers never enter it. Where
//     the context window is known, a request is made to fit before it is sent.
//   - A passing fault of the model costs a round, not the agent. After a pause the
//     agent goes on from its last completed round. If most agents fail at one endpoint
//     that is recognised, announced once, and waited out together.
//   - Whose deadline it was is never a guess: one of this package is a
//     [TimeoutError], and context.DeadlineExceeded is the caller's.
//   - If a tool panics, exits its goroutine, or never returns, its call gets an error
//     result, which the model sees; the agent goes on. A call that may have taken
//     effect is not demanded again: the model is told to find out.
//   - The Draft hook saves the work of an unfinished agent. With a [journal] a run
//     that was killed goes on: no answer is asked for twice, and no side effect
//     happens twice.
//   - Events never hold an agent up, and the end of an agent is never lost.
//   - No model, tool, hook or method of their errors runs while a lock is
//     held, or on the goroutine of an agent's loop.
//
// # An agent
//
//	save, err := agentloop.NewTool("save", "Saves the article.",
//		func(ctx context.Context, in struct{}) (string, error) { return "saved", book.Save() })
//	…
//	agent, err := agentloop.New(agentloop.Config{
//		Name:  "writer",
//		Model: client,
//		Task:  "Write about message 7.",
//		Tools: []agentloop.Tool{read, write, save},
//		Progression: agentloop.Progression{
//			{Name: "read", Tools: []string{"read_message"}},
//			{Name: "write", Tools: []string{"write", "append"}},
//			{Name: "save", Tools: []string{"save"}},
//		},
//	})
//	…
//	result := agent.Run(ctx)
//	fmt.Println(result.Outcome, result.Missing)
//
// The model is anything with a Chat method. Its errors may have the methods Retryable
// and RetryAfter to say whether and when another try is worth it, see [Model]. Package
// modeltest checks an implementation.
//
// # Many agents
//
//	j, err := journal.Open(journal.Config{Dir: "run-7"})
//	…
//	defer j.Close()
//	group, err := agentloop.NewGroup(agentloop.GroupConfig{
//		Agents:      agents,        // ten or ten thousand
//		MaxInFlight: 45,            // calls of the model at the same time
//		Timeout:     3 * time.Hour, // Run is back then
//		Journal:     j,             // killed? run it again
//		OnEvent:     show,
//	})
//	…
//	report := group.Run(ctx)
//
// A tool may run agents itself, with its context (set RunsAgents). They belong to the
// same group, end with it, and go no deeper than MaxDepth. Any tool may end one agent
// ([CancelAgents]) or all ([CancelGroup]).
//
// # What happened?
//
// A [Result] has an [Outcome] and an Err. The Err is a [TimeoutError], [BudgetError],
// [ContextError], [RepeatError], [StallError] or [SystemicError], one of the sentinels
// such as [ErrStoppedEarly], or the error of the model or of a tool. With
// GroupConfig.Explain, code that knows the server adds what the server is doing. Events
// tell all this while it happens, in one order. The last one, group_ended, says how
// often the watchdog spoke.
//
// [journal]: https://pkg.go.dev/github.com/neverhang/neverhang/agentloop/journal
package agentloop
