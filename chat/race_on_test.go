//go:build race

package chat_test

// underRace: the race detector makes decoding ten times as long.
const underRace = true
