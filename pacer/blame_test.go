package pacer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// sent plays so many requests of a limit that follows blame, and returns the
// limit at their end. Each of n is lost with the probability that lost says.
func sent(seed uint64, requests int, lost func(n float64) float64) (limit float64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var b blame
	limit = 40
	for range requests {
		n, from := limit, b.from
		gone := rnd.Float64() < lost(n)
		switch b.hear(n, gone, true) {
		case worse:
			b.suspect(limit)
			limit = max(1, limit/2)
		case innocent:
			limit = max(limit, from)
		}
		if gone && b.unusual() && n > 1 && (b.from == 0 || !b.isLess(n)) {
			b.suspect(n)
			limit = max(1, 0.7*n)
		}
	}
	return limit
}

func TestBlame(t *testing.T) {
	always := func(p float64) func(float64) float64 { return func(float64) float64 { return p } }
	beyond := func(capacity float64) func(float64) float64 {
		return func(n float64) float64 { return max(0, 1-capacity/n) }
	}
	for name, tt := range map[string]struct {
		lost        func(n float64) float64
		least, most float64 // of the limit, at which half of the runs end or below
	}{
		"none is lost":                      {always(0), 40, 40},
		"one in twenty, whatever the load":  {always(0.05), 40, 40},
		"three in ten, whatever the load":   {always(0.3), 40, 40},
		"half of all, whatever the load":    {always(0.5), 28, 40},
		"a room for 20":                     {beyond(20), 13, 28},
		"a room for five":                   {beyond(5), 3, 10},
		"a room for one":                    {beyond(1), 1, 2},
		"all are lost":                      {always(1), 1, 1},
		"a room for 15, and two in ten are": {func(n float64) float64 { return 1 - 0.8*min(1, 15/n) }, 10, 28},
	} {
		t.Run(name, func(t *testing.T) {
			var ends []float64
			for seed := range uint64(101) {
				ends = append(ends, sent(seed, 400, tt.lost))
			}
			slices.Sort(ends)
			assert.GreaterOrEqual(t, ends[50], tt.least, "%v", ends)
			assert.LessOrEqual(t, ends[50], tt.most, "%v", ends)
		})
	}
}

// When the faults end, more than a few losses are unusual again.
func TestWhatIsUsualIsForgotten(t *testing.T) {
	var b blame
	b.usual, b.mean = 0.5, 0.5
	for i := range 1000 {
		b.hear(10, i%2 == 0, true)
	}
	assert.InDelta(t, 0.5, b.usual, 0.01, "as long as it goes on")
	for range 3 * fading {
		b.hear(10, false, true)
	}
	assert.Less(t, b.usual, tolerable)
	for range 6 {
		b.hear(10, true, true)
	}
	assert.True(t, b.unusual())
}

// Losses begin at 16. That 14 go well, however often, says nothing of 16.
func TestALittleLessIsNoWitness(t *testing.T) {
	var b blame
	for i := range remembered {
		b.hear(16, i%3 == 0, true)
	}
	assert.True(t, b.unusual())
	b.suspect(16)
	for range 200 {
		assert.Equal(t, undecided, b.hear(14, false, true))
	}
	verdict := undecided
	for range evidence {
		verdict = b.hear(11, false, true)
	}
	assert.Equal(t, guilty, verdict)
}
