package breaker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// jumped is the same moment, told by a wall clock that was set forward or, if by
// is less than nothing, back: the first word of a time that has a monotonic part
// has the seconds of the wall clock from bit 30 on.
func jumped(at time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(by/time.Second) << 30
	return at
}

// A wall clock that is set back or forward between any two steps changes nothing:
// not the window, not a cool-down, not the limit of a trial, not the pace of
// readmission.
func TestTheWallClockMayJump(t *testing.T) {
	seed := rand.Uint64()
	base := time.Now()
	require.True(t, base.Equal(jumped(base, -time.Hour)))
	require.Equal(t, -time.Hour, jumped(base, -time.Hour).Round(0).Sub(base.Round(0)))

	trace := func(jump func() time.Duration) (log []string) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		b, err := New(Config{MinCalls: 10, Window: 10 * time.Second, TrialLimit: 20 * time.Second, Trials: 2})
		require.NoError(t, err)
		c := &b.core
		var out []*Pass
		var line []*waiter
		offset := time.Duration(0)
		now := func() time.Time { return jumped(base.Add(offset), jump()) }
		judge := func(v Verdict) {
			if len(out) == 0 {
				return
			}
			i := rnd.IntN(len(out))
			p := out[i]
			out = slices.Delete(out, i, i+1)
			if !p.settled {
				c.ended(p)
				c.judge(now(), p, v)
				p.settled = true
			}
		}
		for range 3000 {
			switch n := rnd.IntN(20); {
			case n < 6:
				p, err := c.acquire(b, now())
				if err != nil {
					log = append(log, err.Error())
					break
				}
				out = append(out, p)
			case n < 11:
				judge(Failure)
			case n < 13:
				judge(Verdict(rnd.IntN(3)))
			case n == 13 && len(out) > 0:
				if p := out[rnd.IntN(len(out))]; p.trial && !p.settled {
					c.progress(now(), p)
				}
			case n == 14:
				w, err := c.wait(now(), jumped(base.Add(offset+time.Duration(rnd.IntN(20))*time.Second), jump()))
				if err != nil {
					log = append(log, err.Error())
				}
				if w != nil {
					line = append(line, w)
				}
			case n == 15:
				c.postpone(now(), time.Duration(rnd.IntN(8))*time.Second)
			case n == 16 && rnd.IntN(4) == 0:
				c.hurry(now())
			default:
				offset += time.Duration(rnd.Int64N(int64(3 * time.Second)))
				c.advance(now())
			}
			line = slices.DeleteFunc(line, func(w *waiter) bool {
				if w.place == nil {
					log = append(log, fmt.Sprint("waited ", w.err))
				}
				return w.place == nil
			})
			s := c.stats(now())
			log = append(log, fmt.Sprint(offset, s.State, s.Failures, s.Calls, s.Failed, s.Trials, s.Waiting, s.WrittenOff))
		}
		return log
	}
	still := trace(func() time.Duration { return 0 })
	rnd := rand.New(rand.NewPCG(seed, 1))
	wild := trace(func() time.Duration { return time.Duration(rnd.IntN(7200)-3600) * time.Second })
	for i := range still {
		require.Equal(t, still[i], wild[i], "seed %d, line %d", seed, i)
	}
	require.Len(t, wild, len(still))
}
