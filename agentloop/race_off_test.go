//go:build !race

package agentloop_test

const raced = false
