package pacer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Requests that begin, are heard of, end and are forgotten in any order, beside a
// plain list of them.
func TestUnheard(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	type request struct {
		number    int64
		began     time.Duration
		forgotten bool
	}
	var u unheard
	var line []request
	number, now := int64(7), time.Duration(0) // from anywhere
	for range 5_000 {
		now += time.Duration(rnd.IntN(3))
		switch rnd.IntN(20) {
		case 0, 1, 2, 3, 4, 5, 6, 7:
			u.add(number, now)
			line = append(line, request{number: number, began: now})
			number++
		case 8:
			before := now - time.Duration(rnd.IntN(30))
			u.forget(before)
			for i := range line {
				line[i].forgotten = line[i].forgotten || line[i].began < before
			}
		default: // perhaps for the second time
			n := rnd.Int64N(number + 1)
			u.remove(n)
			line = slices.DeleteFunc(line, func(r request) bool { return r.number == n })
		}
		var want []int64
		for _, r := range line {
			if r.forgotten {
				want = append(want, r.number)
			}
		}
		require.True(t, slices.Equal(want, u.forgotten), "seed %d: forgotten are %d, want %d", seed, u.forgotten, want)
	}
	for len(line) > 0 {
		u.remove(line[0].number)
		line = line[1:]
	}
	require.Empty(t, u.forgotten)
	require.Empty(t, u.line, "nothing is kept of those that are gone")
}
