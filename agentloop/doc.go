// Package agentloop runs agents that finish, or say why not: a [Model], some
// tools, a conversation and a [Progression] of steps that make the work
// complete. A [Group] runs many of them and returns a [Report] in which every
// one has a name and an [Outcome].
//
// # What it promises
//
//   - Every run ends. [Group.Run] returns at most 100 ms after its deadline,
//     whatever models, tools and hooks do: it counts results and never waits on
//     somebody else's code without a bound. What ignores its context is abandoned,
//     named and listed with its stack; Go cannot stop it, so the report says so.
//   - Done means done. An agent with a progression is done when its steps were
//     taken, not when the model says so. A model that stops early is nudged, then
//     offered only what is missing, then forced, each a bounded number of times.
//   - Progress means something new. A model that goes in circles is warned, then
//     blocked, then ended with the evidence. Rounds, time, tokens, calls and cost
//     are bounded, and the bound that was reached is named, with what is missing.
//   - The history is valid for a strict server at any time: each tool call has
//     a unique id and valid arguments and is followed by exactly one result,
//     in call order; no message is empty; partial answers never enter it. Where
//     the context window is known it fits before it is sent.
//   - A passing fault of the model costs a round, not the agent. It goes on
//     from its last completed round after a pause. Trouble of all agents with one
//     endpoint is recognised as such, told once, and waited out together.
//   - Whose clock it was is never a guess: a deadline of this package is a
//     [DeadlineError], and context.DeadlineExceeded is the caller's.
//   - A tool that panics, exits its goroutine, or never returns costs its call
//     an error result, which the model sees; the agent goes on. What may have taken
//     effect is not demanded again: the model is told to find out.
//   - What an unfinished agent produced goes to its Draft hook. With a [journal]
//     a run that was killed goes on: nothing that was answered is asked for again,
//     and no side effect happens twice.
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
// The model is anything with a Chat method; errors tell through Retryable and
// RetryAfter methods whether another try is worth it, see [Model]. Package
// modeltest checks that something is one.
//
// # Many agents
//
//	j, err := journal.Open(journal.Config{Dir: "run-7"})
//	…
//	defer j.Close()
//	group, err := agentloop.NewGroup(agentloop.GroupConfig{
//		Agents:   agents,        // ten or ten thousand
//		InFlight: 45,            // calls of the model at the same time
//		Deadline: 3 * time.Hour, // Run is back then
//		Journal:  j,             // killed? run it again
//		OnEvent:  show,
//	})
//	…
//	report := group.Run(ctx)
//
// A tool may run agents itself, with its context (set RunsAgents): they belong to the
// group as well, end with it, and go no deeper than MaxDepth. Any tool may end one agent ([CancelAgents]) or all ([CancelGroup]).
//
// # What happened?
//
// A [Result] has an [Outcome], and an Err that is one of few types: a
// [DeadlineError], [BudgetError], [ContextError], [RepeatError], [StallError] or
// [SystemicError], one of the sentinels such as [ErrStoppedEarly], or what the
// model or a tool said. GroupConfig.Explain lets somebody who knows the server say
// what it does meanwhile. Events tell the same as it goes, in one order, and the last
// one, group_ended, says whether the watchdog ever spoke.
//
// [journal]: https://pkg.go.dev/github.com/neverhang/neverhang/agentloop/journal
package agentloop
