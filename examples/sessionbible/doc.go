// Command sessionbible turns a recorded coding session into a book: agents
// read its messages with tools, write an article each, and save it. It is a
// whole harness on the exported packages of this module, and ends whatever the
// model endpoint does:
//
//   - Every agent has an outcome, and the report names all of them.
//
//   - An article is on disk whole or not at all. What an agent wrote and did
//     not get to save is a draft on disk, from its first word on.
//
//   - An interrupt ends the run within two seconds, a second one at once.
//
//   - A run that was killed goes on with -resume: no article is written twice, no
//     answer of the model is asked for again.
//
//   - A trouble that all agents would meet, such as a wrong key, is told once
//     and ends the run.
//
//   - While it runs, the servers are asked how they are: what is the matter with
//     them comes up on the screen, beside what our calls wait for, and stands in
//     the report. What was set how is kept, and -compare says what has changed.
//
// Without arguments it needs no network: it uses an embedded session, and an
// embedded server plays the model and misbehaves.
//
//	go run ./examples/sessionbible
//	go run ./examples/sessionbible -incident partial-restart
//	go run ./examples/sessionbible -base-url http://localhost:8000/v1 session.json
//
// The output folder holds index.md, articles, drafts of what was not saved, and
// the journal of the run. An earlier book there is moved to its folder earlier,
// and a run that still writes there keeps others out, so that no two runs mix.
//
// Where to read: session.go and message.go read the export, plan.go cuts it
// into articles; desk.go is what an agent works with, its tools, and resume.go
// how it remembers; harness.go wires client, agents and group, and model.go says
// what a failure means to them; book.go, page.go and index.go are what lands on
// disk; doctor.go asks the servers, and incident.go plays them a trick; tally.go,
// progress.go, cause.go and report.go are what people see. naive.go is the same
// without any of it.
//
// To use it as the start of a harness of your own, copy the folder. Only
// offline.go needs the embedded server; without it, and without the calls of
// its functions, everything here stands on exported packages.
package main
