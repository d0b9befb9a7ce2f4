//go:build !race

package chat_test

// underRace: there is no race detector.
const underRace = false
