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
		seat             *seat
		heard, forgotten bool
	}
	var r roll
	var u unheard
	var line []*request
	now := time.Duration(0)
	for range 5_000 {
		now += time.Duration(rnd.IntN(3))
		var some *request
		if len(line) > 0 {
			some = line[rnd.IntN(len(line))]
		}
		switch n := rnd.IntN(20); {
		case n < 8 || some == nil:
			x := &request{seat: &seat{began: now}}
			r.add(x.seat)
			u.add(x.seat)
			line = append(line, x)
		case n == 8:
			before := now - time.Duration(rnd.IntN(30))
			u.forget(before)
			for _, x := range line {
				x.forgotten = x.forgotten || !x.heard && x.seat.began < before
			}
		case n < 14: // perhaps for the second time
			u.remove(some.seat)
			some.heard, some.forgotten = true, false
		default:
			u.remove(some.seat)
			r.remove(some.seat)
			line = slices.DeleteFunc(line, func(x *request) bool { return x == some })
		}
		want, got := 0, 0
		for _, x := range line {
			if x.forgotten {
				want++
			}
			if x.seat.silence == forgotten {
				got++
				require.True(t, x.forgotten, "seed %d: one is forgotten that is not", seed)
			}
		}
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, want, u.forgotten, "seed %d", seed)
		s := r.oldest
		for _, x := range line {
			require.Same(t, x.seat, s, "seed %d: on the roll", seed)
			s = s.newer
		}
		require.Nil(t, s)
	}
	for _, x := range line {
		u.remove(x.seat)
		r.remove(x.seat)
	}
	require.Zero(t, u)
	require.Zero(t, r)
}
