package llmclient

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The longest waits are those of the last calls, whatever order they come in and
// whoever is asked for in between.
func TestTheLongestWaitsAreThoseOfTheLastCalls(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var p pace
	var all []paced
	for range 2000 {
		c := paced{callKind: callKind{model: string(rune('a' + r.IntN(3)))}, first: time.Duration(r.IntN(1000)), gap: time.Duration(r.IntN(1000))}
		p.add(c.callKind, c.started, c.first, c.gap)
		all = append(all, c)
		if r.IntN(3) > 0 {
			continue
		}
		model := string(rune('a' + r.IntN(3)))
		var want longest
		for _, c := range all[max(0, len(all)-paceKept):] {
			if c.model == model {
				want.first, want.gap = max(want.first, c.first), max(want.gap, c.gap)
			}
		}
		first, gap := p.shown(model)
		require.Equal(t, want.first, first, "seed %d", seed)
		require.Equal(t, want.gap, gap, "seed %d", seed)
	}
}
