// Package comparison puts other agent libraries and agentloop in front of the
// same scripted model, and lets go wrong what goes wrong at night: a tool that
// ignores its context, a call that is repeated for ever, a model that stops
// answering, a model that says that it is done and has not saved.
//
// It has nothing to import. Each library is used as its own documentation does,
// with its own defaults, and each run gets a context with a deadline, so that
// what differs is not whether somebody thought of one. Three questions are asked:
//
//   - Was it back by the deadline, or within 100 ms?
//   - Does what it returned name what it got stuck in?
//   - Is what was written by then anywhere but in the memory of a stuck tool?
//
// Every run has a testing/synctest bubble to itself: an hour of waiting costs
// nothing, and a hang is a fact and not a guess. README.md has the table, which is
// compared with every run.
package comparison
