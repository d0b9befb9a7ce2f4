// Package neverhang is the root of a module that makes LLM calls and
// multi-agent harnesses unable to hang. It holds no code of its own; these are
// its parts, each useful alone:
//
//   - [github.com/neverhang/neverhang/llmclient] calls a model: a deadline for
//     every phase, retries with one owner, whole answers or typed errors; by
//     itself, or as a Transport under another SDK.
//   - [github.com/neverhang/neverhang/agentloop] runs agents: enforced
//     progress, restarts, a join that returns on time and names who is stuck.
//     [github.com/neverhang/neverhang/agentloop/journal] lets killed runs go on,
//     [github.com/neverhang/neverhang/agentloop/modeltest] checks models.
//   - [github.com/neverhang/neverhang/health] asks the servers how they are and
//     names the cause.
//   - [github.com/neverhang/neverhang/pacer] says when the next request may
//     start, and [github.com/neverhang/neverhang/breaker] whether requests
//     should start at all.
//   - [github.com/neverhang/neverhang/chat] holds the words that all of them
//     and the models speak.
//
// # Promises
//
// Every call returns. Every answer is whole. Every agent ends with a name. No
// harm is done to a struggling server. The cause is visible.
//
// The program in examples/sessionbible is a whole harness on the exported API.
package neverhang
