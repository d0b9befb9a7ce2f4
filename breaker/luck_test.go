package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRunOfLuck(t *testing.T) {
	var l luck
	now := time.Now()
	for name, tt := range map[string]struct{ calls, fails, want int }{
		"nothing is known":                 {0, 0, 0},
		"none fails":                       {1000, 0, 0},
		"one in twenty":                    {1000, 50, 4},
		"two in ten":                       {1000, 200, 6},
		"four in ten":                      {1000, 400, 10},
		"half":                             {1000, 500, 13},
		"nearly all":                       {1000, 990, 20},
		"four in ten, of few":              {10, 4, 4},
		"more of the run than of the rest": {-3, -3, 0},
	} {
		assert.Equal(t, tt.want, l.run(now, tt.calls, tt.fails), name)
	}
}

// What a false alarm makes of the share is no less than what it was.
func TestFalseAlarm(t *testing.T) {
	now := time.Now()
	for kept, want := range map[float64]float64{0: falseAlarm, 0.2: falseAlarm, 0.6: 0.6} {
		l := luck{share: kept}
		l.keep(now)
		l.closed(false)
		assert.Equal(t, kept, l.prior, "of %v, no false alarm", kept)
		l.closed(true)
		assert.Equal(t, want, l.prior, "of %v", kept)
	}
}

// Calls that begin and end in any order, beside a plain count.
func TestOrder(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var o order
	out := map[int64]bool{}
	numbers := []int64{}
	for range 10_000 {
		switch rnd.IntN(5) {
		case 0, 1:
			n := o.begin()
			out[n] = true
			numbers = append(numbers, n)
		case 2, 3:
			if len(numbers) > 0 {
				n := numbers[rnd.IntN(len(numbers))]
				o.end(n)
				delete(out, n)
			}
		default:
			before := 1 + rnd.Int64N(int64(len(numbers)+2))
			want := 0
			for n := range out {
				if n < before {
					want++
				}
			}
			if !assert.Equal(t, want, o.before(before), "seed %d", seed) {
				return
			}
		}
	}
	for range 3 * mostOrdered {
		o.begin() // and never end
	}
	assert.LessOrEqual(t, len(o.out), 2*mostOrdered)
	last := o.begin()
	assert.Equal(t, mostOrdered-1, o.before(last))
	o.clear()
	assert.EqualValues(t, 1, o.begin())
	o.end(0)
	o.end(99)
	assert.Equal(t, 1, o.before(2))
}
