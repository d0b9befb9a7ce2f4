//go:build race

package health_test

// underRace: the race detector makes playing ten times as long.
const underRace = true
