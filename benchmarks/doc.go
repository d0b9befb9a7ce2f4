// Package benchmarks measures policies of admission on a simulated inference
// engine: package pacer and package breaker, and what else people put in front
// of a model server.
//
// It has nothing to import. One command prints every number of docs/pacing.md,
// and draws its plots:
//
//	go test -run TestMeasured -v -timeout 60m . -full
//
// In it agents, each a goroutine, make calls to an engine of package engine in
// virtual time, with the real libraries in between: six minutes of 64 agents
// take less than a second. Without -full it is a quick test that holds the
// bounds that the numbers are about.
//
//	go test -run - -bench . -benchmem .
//
// prints what a permit and a pass cost.
package benchmarks
