//go:build !race

package benchmarks

const raced = false
