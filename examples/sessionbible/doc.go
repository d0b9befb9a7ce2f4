// Command sessionbible turns a recorded coding session into a book: agents
// read its messages with tools, write an article each, and save it. It is a
// whole harness on the exported packages of this module, and ends whatever the
// model endpoint does:
//
//   - Every agent has an outcome, and the report names all of them.
//
//   - An article is on disk whole or not at all. Text that an agent did not get
//     to save is a draft on disk, from its first word on.
//
//   - An interrupt ends the run within two seconds, a second one at once.
//
//   - A run that was killed goes on with -resume: no article is written twice, no
//     answer of the model is asked for again.
//
//   - A failure that all agents would meet, such as a wrong key, is reported once
//     and ends the run.
//
//   - While it runs, the servers are asked for their state: their faults are shown
//     on the screen, beside what our calls wait for, and in the report. The settings
//     are kept, and -compare says what has changed since another run.
//
// Without arguments it needs no network: it uses an embedded session, and an
// embedded server plays the model and misbehaves.
//
//	go run ./examples/sessionbible
//	go run ./examples/sessionbible -incident partial-restart
//	go run ./examples/sessionbible -base-url http://localhost:8000/v1 session.json
//
// The output folder holds index.md, articles, drafts of unsaved text, and the
// journal of the run, which only you can read. An earlier book there is moved to
// the folder earlier. A run that still writes there keeps others out, so that no
// two runs mix.
//
// Where to read: session.go and message.go read the export, plan.go cuts it
// into articles; desk.go is what an agent works with, its tools, and resume.go
// how it remembers; harness.go wires client, agents and group, and model.go says
// what a failure means to them; book.go, page.go and index.go are what lands on
// disk; doctor.go asks the servers, and incident.go plays an incident on them;
// tally.go, progress.go, cause.go and report.go are what people see. naive.go is the
// same program without any of the safety.
//
// To start a harness of your own, copy the folder. Only offline.go needs the
// embedded server; without it, and without the calls of its functions, everything
// here uses exported packages only.
package main
