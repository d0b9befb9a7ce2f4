//go:build !race

package health_test

// underRace: there is no race detector.
const underRace = false
