package breaker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Steps at random, checked after each against what the package promises: never
// more trials out than Trials, no call let through while open, no ticket kept
// for ever, and with calls that succeed it closes.
func TestInvariants(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runInvariants(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func runInvariants(t *testing.T, rnd *rand.Rand) {
	cfg := Config{
		Failures: 1 + rnd.IntN(6), Trials: 1 + rnd.IntN(3), MinCalls: 3 + rnd.IntN(10),
		Cooldown: time.Duration(1+rnd.IntN(5000)) * time.Millisecond, TrialLimit: time.Duration(1+rnd.IntN(20)) * time.Second,
	}
	switch rnd.IntN(4) {
	case 0:
		cfg.Failures = -1
		cfg.FailureRate = rnd.Float64()
	case 1:
		cfg.Failures = 0
	}
	cfg.MaxPostpone = time.Duration(rnd.IntN(5000)) * time.Millisecond
	b, err := New(cfg)
	require.NoError(t, err)
	c := &b.core
	var out []*Pass
	var line []*waiter

	settle := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.LessOrEqual(t, len(c.trials), c.Trials, "trials out")
		signs, waiting := 0, 0
		for _, p := range out {
			if !p.settled && p.epoch == c.epoch && !p.trial {
				if run := c.run.Load(); run != 0 && p.sign.Load() == run {
					signs++
				}
				waiting++
			}
		}
		require.Equal(t, signs, c.signs, "calls that make headway")
		if c.luck.on && c.state == Closed {
			require.Equal(t, waiting, c.order.before(math.MaxInt64), "calls out")
			require.Less(t, c.row, mostFailures, "failures in a row, and still closed")
		}
		require.Equal(t, c.line.waiting.Len(), len(slices.DeleteFunc(slices.Clone(line), func(w *waiter) bool { return w.place == nil })))
		if c.line.waiting.Len() > 0 {
			require.False(t, c.next.IsZero(), "somebody waits for nothing, %s", c.state)
		}
		if c.state == Open {
			require.True(t, c.retry.After(c.opened), "an open breaker that is open for no time")
			require.LessOrEqual(t, c.retry.Sub(c.opened), c.MaxCooldown+c.MaxPostpone)
		}
	}
	acquire := func() {
		p, err := b.Acquire()
		if err != nil {
			require.ErrorIs(t, err, ErrOpen)
			return
		}
		require.NotEqual(t, Open, b.State(), "let through while open")
		require.Equal(t, b.State() == HalfOpen, p.Trial())
		out = append(out, p)
	}
	judge := func(v Verdict) {
		if len(out) > 0 {
			i := rnd.IntN(len(out))
			out[i].Done(v)
			if rnd.IntN(4) > 0 { // else it is judged again, some time
				out = slices.Delete(out, i, i+1)
			}
		}
	}
	for range 500 {
		switch rnd.IntN(10) {
		case 0, 1, 2:
			acquire()
		case 3, 4:
			judge(Failure)
		case 5:
			judge(Verdict(rnd.IntN(3)))
		case 6:
			if len(out) > 0 {
				out[rnd.IntN(len(out))].Progress()
			}
		case 7:
			if rnd.IntN(3) == 0 {
				b.Postpone(time.Duration(rnd.IntN(10_000)) * time.Millisecond)
				break
			}
			if rnd.IntN(3) == 0 {
				b.Hurry()
				break
			}
			b.mu.Lock()
			w, err := c.wait(time.Now(), time.Time{})
			b.mu.Unlock()
			require.NoError(t, err)
			if w != nil {
				line = append(line, w)
			}
		case 8:
			if len(line) > 0 {
				i := rnd.IntN(len(line))
				b.mu.Lock()
				c.leave(time.Now(), line[i])
				b.mu.Unlock()
				line = slices.Delete(line, i, i+1)
			}
		default:
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			b.State() // lets go who is due
		}
		settle()
	}

	// Running calls are lost. From here on all calls succeed, the breaker closes, and
	// all waiters go.
	for i, s := 0, b.Stats(); s.State != Closed || s.Waiting > 0; i, s = i+1, b.Stats() {
		require.Less(t, i, 10_000, "still %s, with %d who wait", s.State, s.Waiting)
		if p, err := b.Acquire(); err == nil {
			p.Done(Success)
		}
		time.Sleep(time.Second)
		settle()
	}
}
