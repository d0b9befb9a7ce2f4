package pacer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jumped is the same moment, told by a wall clock that was set forward or, if by
// is less than nothing, back: the first word of a time that has a monotonic part
// has the seconds of the wall clock from bit 30 on.
func jumped(at time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	return at
}

func TestJumped(t *testing.T) {
	now := time.Now()
	back := jumped(now, -time.Hour)
	require.True(t, now.Equal(back))
	require.Equal(t, -time.Hour, back.Round(0).Sub(now.Round(0)))
}

// A wall clock that is set back or forward between any two steps changes nothing:
// not the rates, not a pause, not what was told, not what is learned.
func TestTheWallClockMayJump(t *testing.T) {
	seed := rand.Uint64()
	base := time.Now()
	trace := func(jump func() time.Duration) (log []string) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		p, err := New(Config{RequestsPerMinute: 100, TokensPerMinute: 5000, StartInFlight: 3, MaxInFlight: 9})
		require.NoError(t, err)
		c := &p.core
		type caller struct {
			w    *waiter
			seat *seat
		}
		var line []caller
		var out []*seat
		offset := time.Duration(0)
		now := func() time.Time { return jumped(base.Add(offset), jump()) }
		note := func(what string) { log = append(log, fmt.Sprint(offset, " ", what)) }
		for range 3000 {
			switch n := rnd.IntN(20); {
			case n < 8:
				s := new(seat)
				var deadline time.Time
				if rnd.IntN(3) == 0 {
					deadline = jumped(base.Add(offset+time.Duration(rnd.Int64N(int64(20*time.Second)))), jump())
				}
				w, err := c.enter(now(), deadline, Demand{Tokens: rnd.IntN(300)}, s)
				switch {
				case err != nil:
					note(err.Error())
				case w == nil:
					note("in")
					out = append(out, s)
				default:
					line = append(line, caller{w, s})
				}
			case n < 14 && len(out) > 0:
				i := rnd.IntN(len(out))
				s := out[i]
				out = slices.Delete(out, i, i+1)
				c.firstOutput(now(), s, time.Second)
				c.exit(now(), s, Result{Outcome: Outcome(rnd.IntN(7)), Outputs: rnd.IntN(100), Tokens: rnd.IntN(200)}, rnd.IntN(8) > 0)
			case n == 14:
				c.coolDown(now(), time.Duration(rnd.Int64N(int64(3*time.Second))), 0.5)
			case n == 15:
				c.heed(now(), c.admitted, []Allowance{{Remaining: rnd.IntN(5), Limit: 60, Reset: time.Duration(rnd.Int64N(int64(10 * time.Second)))}})
			default:
				end := offset + time.Duration(rnd.Int64N(int64(2*time.Second)))
				for next := c.next; !next.IsZero() && next.Sub(base) <= end; next = c.next {
					offset = max(offset, next.Sub(base))
					c.admitDue(now())
				}
				offset = end
			}
			line = slices.DeleteFunc(line, func(x caller) bool {
				select {
				case <-x.w.done:
				default:
					return false
				}
				if x.w.err != nil {
					note(x.w.err.Error())
					return true
				}
				note("in")
				out = append(out, x.seat)
				return true
			})
			st := c.stats(now())
			note(fmt.Sprint(st.InFlight, st.Queued, st.Limit, st.Oldest, st.Longest, st.TokensBooked, st.Abandoned))
		}
		return log
	}
	still := trace(func() time.Duration { return 0 })
	rnd := rand.New(rand.NewPCG(seed, 1))
	wild := trace(func() time.Duration { return time.Duration(rnd.IntN(7200)-3600) * time.Second })
	require.Greater(t, len(still), 3000)
	for i := range still {
		require.Equal(t, still[i], wild[i], "seed %d, line %d", seed, i)
	}
	assert.Len(t, wild, len(still))
}
