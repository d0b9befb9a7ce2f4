//go:build race

package agentloop_test

// raced says that the race detector is at work, which makes all slow.
const raced = true
