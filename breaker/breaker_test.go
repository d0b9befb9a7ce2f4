package breaker_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
)

const (
	s  = time.Second
	ms = time.Millisecond
	ns = time.Nanosecond
)

func newBreaker(t *testing.T, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	require.NoError(t, err)
	return b
}

func acquire(t *testing.T, b *breaker.Breaker) *breaker.Pass {
	t.Helper()
	p, err := b.Acquire()
	require.NoError(t, err)
	return p
}

// trip opens b.
func trip(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	for b.State() != breaker.Open {
		acquire(t, b).Done(breaker.Failure)
	}
}

func TestConfig(t *testing.T) {
	tooMany := "" // where an int cannot be too much
	if strconv.IntSize > 32 {
		tooMany = fmt.Sprintf("breaker: Trials is %d, want 0 for the default of 1, or 1 to 4294967295", math.MaxInt)
	}
	for name, tt := range map[string]struct {
		cfg  breaker.Config
		want string
	}{
		"zero":                        {breaker.Config{}, ""},
		"never opens, never grows":    {breaker.Config{Failures: -1, MaxCooldown: -1}, ""},
		"the shortest cool-down":      {breaker.Config{Cooldown: ms}, ""},
		"a cool-down too short":       {breaker.Config{Cooldown: ms - 1}, "breaker: Cooldown is 999.999µs, want 0 for the default of 5s, or 1ms or more"},
		"a negative cool-down":        {breaker.Config{Cooldown: -1 * s}, "breaker: Cooldown is -1s, want 0 for the default of 5s, or 1ms or more"},
		"a cool-down over the most":   {breaker.Config{Cooldown: time.Hour}, ""},
		"a most below the cool-down":  {breaker.Config{Cooldown: 2 * s, MaxCooldown: s}, "breaker: MaxCooldown is 1s, want at least Cooldown, 2s"},
		"trials without end":          {breaker.Config{TrialLimit: -1}, "breaker: TrialLimit is -1ns, want 0 for the default of 1m0s, or more"},
		"the longest trial":           {breaker.Config{TrialLimit: math.MaxInt64}, ""},
		"no trials":                   {breaker.Config{Trials: -1}, "breaker: Trials is -1, want 0 for the default of 1, or 1 to 4294967295"},
		"a rate of more than all":     {breaker.Config{FailureRate: 1.01}, "breaker: FailureRate is 1.01, want 0 for the default of 0.8, up to 1, or less than 0 for never"},
		"a rate that is no number":    {breaker.Config{FailureRate: math.NaN()}, "breaker: FailureRate is NaN, want 0 for the default of 0.8, up to 1, or less than 0 for never"},
		"all must fail":               {breaker.Config{FailureRate: 1}, ""},
		"fewer calls than none":       {breaker.Config{MinCalls: -1}, "breaker: MinCalls is -1, want 0 for the default of 20, or more"},
		"a window too short":          {breaker.Config{Window: 1}, "breaker: Window is 1ns, want 0 for the default of 30s, or 1ms or more"},
		"a window of a lifetime":      {breaker.Config{Window: math.MaxInt64}, ""},
		"more trials than can be had": {breaker.Config{Trials: math.MaxInt}, tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := breaker.New(tt.cfg)
			if tt.want != "" {
				require.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			acquire(t, b).Done(breaker.Success)
		})
	}
}

// A rig writes down what a breaker does, and when.
type rig struct {
	t      *testing.T
	b      *breaker.Breaker
	began  time.Time
	passes map[string]*breaker.Pass
	log    []string
}

func (r *rig) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%v ", time.Since(r.began))+fmt.Sprintf(format, args...))
}

type do func(*rig)

// call asks for a pass, and notes refusals and trials.
func call(names ...string) do {
	return func(r *rig) {
		for _, who := range names {
			p, err := r.b.Acquire()
			oe, refused := errors.AsType[*breaker.OpenError](err)
			switch {
			case refused:
				assert.ErrorIs(r.t, err, breaker.ErrOpen)
				assert.Equal(r.t, oe.Retry, time.Now().Add(oe.RetryIn))
				r.note("%s refused, %s, retry in %v", who, oe.State, oe.RetryIn)
			case p.Trial():
				r.note("%s on trial", who)
			}
			r.passes[who] = p
		}
	}
}

func judge(v breaker.Verdict, names ...string) do {
	return func(r *rig) {
		for _, who := range names {
			require.Contains(r.t, r.passes, who)
			r.passes[who].Done(v)
		}
	}
}

func ok(names ...string) do     { return judge(breaker.Success, names...) }
func fail(names ...string) do   { return judge(breaker.Failure, names...) }
func ignore(names ...string) do { return judge(breaker.Ignored, names...) }
func progress(who string) do    { return func(r *rig) { r.passes[who].Progress() } }
func postpone(d time.Duration) do {
	return func(r *rig) { r.b.Postpone(d) }
}
func hurry(r *rig) { r.b.Hurry() }
func state(r *rig) { r.note("is %s", r.b.State()) }

// tripping are n calls that fail, one after the other.
func tripping(n int) do {
	return func(r *rig) {
		for range n {
			call("x")(r)
			fail("x")(r)
		}
	}
}

// mixed are calls that fail (f), succeed (o) or are ignored (i), so many times.
func mixed(how string, times int) do {
	return func(r *rig) {
		for _, h := range strings.Repeat(how, times) {
			call("x")(r)
			judge(map[rune]breaker.Verdict{'f': breaker.Failure, 'o': breaker.Success, 'i': breaker.Ignored}[h], "x")(r)
		}
	}
}

func TestBreaker(t *testing.T) {
	type step struct {
		at time.Duration
		do do
	}
	const (
		opens  = "closed to open: 5 failures in a row"
		reopen = "half-open to open: a trial failed"
		half   = "open to half-open: the cool-down is over"
		closes = "half-open to closed: trials succeeded"
	)
	for name, tt := range map[string]struct {
		cfg   breaker.Config
		steps []step
		want  []string
	}{
		"four failures do not open it, five do": {
			steps: []step{{0, tripping(4)}, {0, state}, {1 * s, tripping(1)}, {2 * s, call("a")}},
			want:  []string{"0s is closed", "1s " + opens, "2s a refused, open, retry in 4s"},
		},
		"a success in between begins the count anew": {
			steps: []step{{0, tripping(4)}, {0, call("a")}, {0, ok("a")}, {0, tripping(4)}, {0, state}, {0, tripping(1)}},
			want:  []string{"0s is closed", "0s " + opens},
		},
		"an ignored call in between does not": {
			steps: []step{{0, tripping(4)}, {0, call("a")}, {0, ignore("a")}, {0, tripping(1)}},
			want:  []string{"0s " + opens},
		},
		"calls that overlap count in the order in which they end": {
			cfg:   breaker.Config{Failures: 2},
			steps: []step{{0, call("a", "b", "c")}, {1 * s, fail("b")}, {2 * s, ok("a")}, {3 * s, fail("c")}, {3 * s, state}},
			want:  []string{"3s is closed"},
		},
		"one that never opens never opens": {
			cfg:   breaker.Config{Failures: -1},
			steps: []step{{0, tripping(100)}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"sixteen of twenty failed, no five in a row: that opens it": {
			steps: []step{{0, mixed("fffo", 4)}, {0, tripping(3)}, {0, state}, {1 * s, tripping(1)}, {1 * s, state}},
			want:  []string{"0s is closed", "1s closed to open: 16 of 20 calls failed in 30s", "1s is open"},
		},
		"nineteen calls say nothing, however they ended": {
			steps: []step{{0, mixed("ffffo", 3)}, {0, tripping(4)}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"a flaky endpoint of which a third still answers stays in use": {
			steps: []step{{0, mixed("ffo", 100)}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"what succeeded more than a window ago is forgotten too": {
			steps: []step{{0, mixed("o", 160)}, {60 * s, mixed("ffffo", 4)}, {60 * s, state}, {60 * s, tripping(1)}},
			want:  []string{"1m0s is closed", "1m0s closed to open: 17 of 21 calls failed in 30s"},
		},
		"what failed more than a window ago is forgotten": {
			steps: []step{{0, mixed("ffffo", 3)}, {30 * s, mixed("ffffo", 1)}, {30 * s, state}},
			want:  []string{"30s is closed"},
		},
		"what failed within nine tenths of it is not": {
			steps: []step{{0, mixed("ffffo", 3)}, {30*s - ns, mixed("ffff", 1)}, {30*s - ns, call("a")}, {30*s - ns, ok("a")}, {30*s - ns, tripping(1)}},
			want:  []string{"29.999999999s closed to open: 17 of 21 calls failed in 30s"},
		},
		"ignored calls are no calls": {
			steps: []step{{0, mixed("ffffoiiii", 3)}, {0, tripping(4)}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"a rate of its own, over a window of its own": {
			cfg:   breaker.Config{Failures: 1000, FailureRate: 0.5, MinCalls: 4, Window: 10 * s},
			steps: []step{{0, mixed("oof", 1)}, {0, state}, {9 * s, tripping(1)}},
			want:  []string{"0s is closed", "9s closed to open: 2 of 4 calls failed in 10s"},
		},
		"without a rate the run alone counts": {
			cfg:   breaker.Config{FailureRate: -1},
			steps: []step{{0, mixed("ffffo", 100)}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"a rate without a run": {
			cfg:   breaker.Config{Failures: -1, FailureRate: 1},
			steps: []step{{0, tripping(19)}, {0, state}, {0, tripping(1)}},
			want:  []string{"0s is closed", "0s closed to open: 20 of 20 calls failed in 30s"},
		},
		"closed again, it counts anew": {
			cfg:   breaker.Config{Failures: 1000, MinCalls: 5},
			steps: []step{{0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {5 * s, tripping(4)}, {5 * s, state}, {5 * s, tripping(1)}},
			want: []string{"0s closed to open: 5 of 5 calls failed in 30s", "5s " + half, "5s t on trial", "5s " + closes,
				"5s is closed", "5s closed to open: 5 of 5 calls failed in 30s"},
		},
		"verdicts of calls from before it opened are not in its window": {
			cfg:   breaker.Config{Failures: 1000, MinCalls: 5},
			steps: []step{{0, call("a", "b", "c", "d", "e")}, {0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, fail("a", "b", "c", "d", "e")}, {6 * s, state}},
			want:  []string{"0s closed to open: 5 of 5 calls failed in 30s", "5s " + half, "5s t on trial", "5s " + closes, "6s is closed"},
		},
		"the cool-down ends to the nanosecond": {
			steps: []step{{0, tripping(5)}, {5*s - ns, call("a")}, {5 * s, call("b")}, {5 * s, ok("b")}, {5 * s, call("c")}},
			want:  []string{"0s " + opens, "4.999999999s a refused, open, retry in 1ns", "5s " + half, "5s b on trial", "5s " + closes},
		},
		"its end is seen without a call": {
			steps: []step{{0, tripping(5)}, {5*s - ns, state}, {5 * s, state}},
			want:  []string{"0s " + opens, "4.999999999s is open", "5s " + half, "5s is half-open"},
		},
		"half-open lets one call through": {
			steps: []step{{0, tripping(5)}, {6 * s, call("a", "b")}, {7 * s, call("c")}, {7 * s, ok("a")}, {7 * s, call("d")}},
			want:  []string{"0s " + opens, "6s " + half, "6s a on trial", "6s b refused, half-open, retry in 1m0s", "7s c refused, half-open, retry in 59s", "7s " + closes},
		},
		"the cool-down doubles with each failed trial, up to the most, and not for ever": {
			steps: []step{{0, tripping(5)},
				{5 * s, tripping(1)}, {15 * s, tripping(1)}, {35 * s, tripping(1)}, {65 * s, tripping(1)},
				{95 * s, call("a")}, {95 * s, ok("a")}, {96 * s, tripping(5)}, {96 * s, call("b")}},
			want: []string{"0s " + opens,
				"5s " + half, "5s x on trial", "5s " + reopen,
				"15s " + half, "15s x on trial", "15s " + reopen,
				"35s " + half, "35s x on trial", "35s " + reopen,
				"1m5s " + half, "1m5s x on trial", "1m5s " + reopen,
				"1m35s " + half, "1m35s a on trial", "1m35s " + closes,
				"1m36s " + opens, "1m36s b refused, open, retry in 5s"},
		},
		"a cool-down longer than the default for the most stays what it is": {
			cfg:   breaker.Config{Cooldown: time.Hour},
			steps: []step{{0, tripping(5)}, {time.Hour, call("x")}, {time.Hour + 50*s, fail("x")}, {time.Hour + 50*s, call("a")}},
			want:  []string{"0s " + opens, "1h0m0s " + half, "1h0m0s x on trial", "1h0m50s " + reopen, "1h0m50s a refused, open, retry in 1h0m0s"},
		},
		"a cool-down that must not grow does not": {
			cfg:   breaker.Config{MaxCooldown: -1},
			steps: []step{{0, tripping(5)}, {5 * s, tripping(1)}, {10 * s, tripping(1)}, {10 * s, call("a")}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen,
				"10s " + half, "10s x on trial", "10s " + reopen, "10s a refused, open, retry in 5s"},
		},
		"an ignored trial frees its place at once, however often": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {6 * s, ignore("a")}, {6 * s, call("b")}, {6 * s, ignore("b")}, {6 * s, call("c")}, {6 * s, ok("c")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "6s b on trial", "6s c on trial", "6s " + closes},
		},
		"but one place, however often it says so": {
			cfg:   breaker.Config{Trials: 2},
			steps: []step{{0, tripping(5)}, {5 * s, call("a", "b")}, {6 * s, ignore("a", "a", "a")}, {6 * s, call("c", "d")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "5s b on trial", "6s c on trial", "6s d refused, half-open, retry in 59s"},
		},
		"a lost trial is written off to the nanosecond, and the next call goes through": {
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {65*s - ns, call("a")}, {65 * s, call("b")}, {65 * s, ok("b")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial", "1m4.999999999s a refused, half-open, retry in 1ns",
				"1m5s b on trial", "1m5s " + closes},
		},
		"a trial written off may still say something, and nobody listens": {
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {65 * s, call("b")}, {66 * s, ok("lost")}, {66 * s, state},
				{66 * s, progress("lost")}, {66 * s, fail("lost")}, {66 * s, state}, {66 * s, fail("b")}, {66 * s, call("c")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial", "1m5s b on trial", "1m6s is half-open", "1m6s is half-open", "1m6s " + reopen,
				"1m6s c refused, open, retry in 19s"},
		},
		"a verdict on the dot is too late, though nobody has looked; one before is not": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {65 * s, ok("a")}, {65 * s, state}, {65 * s, call("b")}, {185*s - ns, ok("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "1m5s is half-open", "1m5s b on trial", "3m4.999999999s " + closes},
		},
		"trials that are slow to show headway get more time with each": {
			cfg: breaker.Config{TrialLimit: 10 * s, MaxCooldown: -1},
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {15 * s, call("b")}, {35 * s, call("c")}, {75 * s, call("d")},
				{155 * s, call("e")}, {254 * s, call("f")}, {255 * s, call("g")}, {354 * s, call("h")}, {354 * s, ok("g")}},
			want: []string{"0s " + opens, "5s " + half, "5s a on trial", "15s b on trial", "35s c on trial", "1m15s d on trial",
				"2m35s e on trial", "4m14s f refused, half-open, retry in 1s", "4m15s g on trial", "5m54s h refused, half-open, retry in 1s", "5m54s " + closes},
		},
		"a trial that makes headway is never overdue": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {64 * s, progress("a")}, {123 * s, progress("a")}, {182 * s, call("b")}, {182 * s, ok("a")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "3m2s b refused, half-open, retry in 1s", "3m2s " + closes},
		},
		"headway on the dot is too late, though nobody has looked": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {65 * s, progress("a")}, {65 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "1m5s b on trial"},
		},
		"closed again, the limit of trials is as before": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {65 * s, call("a")}, {65 * s, ok("a")}, {66 * s, tripping(5)},
				{71 * s, call("b")}, {71 * s, call("c")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial", "1m5s a on trial", "1m5s " + closes, "1m6s " + opens,
				"1m11s " + half, "1m11s b on trial", "1m11s c refused, half-open, retry in 1m0s"},
		},
		"a limit of trials longer than half a life doubles to no more than can be told": {
			cfg:   breaker.Config{TrialLimit: math.MaxInt64 / 9},
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {5*s + math.MaxInt64/9, call("a")}, {6*s + math.MaxInt64/9, call("b")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial", fmt.Sprint(5*s+math.MaxInt64/9, " a on trial"),
				fmt.Sprint(6*s+math.MaxInt64/9, " b refused, half-open, retry in ", time.Duration(math.MaxInt64/9*2)-s)},
		},
		"a trial that falls silent after headway is": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {64 * s, progress("a")}, {124 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "2m4s b on trial"},
		},
		"what a short trial leaves of the cool-down is waited out": {
			cfg:   breaker.Config{TrialLimit: 2 * s},
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {7 * s, call("a")}, {15 * s, call("b")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial",
				"7s half-open to open: a trial made no progress for 2s", "7s a refused, open, retry in 8s", "15s " + half, "15s b on trial"},
		},
		"verdicts of calls from before it opened do not count": {
			cfg:   breaker.Config{Failures: 5},
			steps: []step{{0, call("a", "b", "c")}, {0, tripping(5)}, {1 * s, ok("a")}, {1 * s, state}, {5 * s, call("t")}, {6 * s, ok("b")}, {6 * s, fail("c")}, {6 * s, ok("t")}},
			want:  []string{"0s " + opens, "1s is open", "5s " + half, "5s t on trial", "6s " + closes},
		},
		"verdicts of calls from before it opened do not count when it has closed": {
			cfg:   breaker.Config{Failures: 5},
			steps: []step{{0, call("a", "b", "c", "d", "e")}, {0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, fail("a", "b", "c", "d", "e")}, {6 * s, state}},
			want:  []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "6s is closed"},
		},
		"the first verdict counts": {
			cfg:   breaker.Config{Failures: 2},
			steps: []step{{0, call("a", "b")}, {0, ok("a")}, {0, fail("a", "a", "a")}, {0, fail("b", "b")}, {0, state}},
			want:  []string{"0s is closed"},
		},
		"three trials are three at once, and close it together": {
			cfg: breaker.Config{Trials: 3},
			steps: []step{{0, tripping(5)}, {5 * s, call("a", "b", "c", "d")}, {6 * s, ok("b")}, {6 * s, call("e")}, {7 * s, ignore("a")},
				{7 * s, call("f")}, {8 * s, ok("c")}, {8 * s, state}, {9 * s, ok("f")}},
			want: []string{"0s " + opens, "5s " + half, "5s a on trial", "5s b on trial", "5s c on trial", "5s d refused, half-open, retry in 1m0s",
				"6s e refused, half-open, retry in 59s", "7s f on trial", "8s is half-open", "9s " + closes},
		},
		"of several trials the first that is overdue makes room": {
			cfg:   breaker.Config{Trials: 2},
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {35 * s, call("b")}, {36 * s, call("c")}, {64 * s, progress("b")}, {65 * s, call("d")}},
			want: []string{"0s " + opens, "5s " + half, "5s a on trial", "35s b on trial", "36s c refused, half-open, retry in 29s",
				"1m5s d on trial"},
		},
		"one failed trial of three opens it for all, and leaves no place taken": {
			cfg: breaker.Config{Trials: 3},
			steps: []step{{0, tripping(5)}, {5 * s, call("a", "b", "c")}, {6 * s, ok("a")}, {6 * s, fail("b")}, {7 * s, fail("c")}, {7 * s, call("d")},
				{15 * s, call("e", "f", "g")}},
			want: []string{"0s " + opens, "5s " + half, "5s a on trial", "5s b on trial", "5s c on trial",
				"6s " + reopen, "7s d refused, open, retry in 8s", "15s " + half, "15s e on trial", "15s f on trial", "15s g on trial"},
		},
		"trials that are overdue together count as one": {
			cfg: breaker.Config{Trials: 2, TrialLimit: 2 * s},
			steps: []step{{0, tripping(5)}, {5 * s, call("a", "b")}, {7 * s, call("c")},
				{15 * s, call("d")}, {15 * s, fail("d")}, {15 * s, call("e")}},
			want: []string{"0s " + opens, "5s " + half, "5s a on trial", "5s b on trial",
				"7s half-open to open: a trial made no progress for 2s", "7s c refused, open, retry in 8s",
				"15s " + half, "15s d on trial", "15s " + reopen, "15s e refused, open, retry in 20s"},
		},
		"half-open stays so until there were trials enough, however far apart": {
			cfg: breaker.Config{Trials: 3},
			steps: []step{{0, tripping(5)}, {time.Hour, call("a")}, {time.Hour, ok("a")}, {2 * time.Hour, call("b")}, {2 * time.Hour, ok("b")},
				{3 * time.Hour, call("c")}, {3 * time.Hour, ok("c")}},
			want: []string{"0s " + opens, "1h0m0s " + half, "1h0m0s a on trial", "2h0m0s b on trial", "3h0m0s c on trial", "3h0m0s " + closes},
		},
		"where only a rate opens it one failed trial does as well": {
			cfg:   breaker.Config{Failures: -1, FailureRate: 0.5},
			steps: []step{{0, tripping(20)}, {5 * s, call("a")}, {5 * s, fail("a")}, {5 * s, call("b")}},
			want: []string{"0s closed to open: 20 of 20 calls failed in 30s", "5s " + half, "5s a on trial", "5s " + reopen,
				"5s b refused, open, retry in 10s"},
		},
		"where four in ten fail a run of eight is chance, one of nine is not": {
			steps: []step{{0, mixed("foofooffoo", 20)}, {0, tripping(8)}, {0, state}, {0, tripping(1)}, {0, state}},
			want:  []string{"0s is closed", "0s closed to open: 9 failures in a row", "0s is open"},
		},
		"a number that was set is that number": {
			cfg:   breaker.Config{Failures: 5},
			steps: []step{{0, mixed("foofooffoo", 20)}, {0, tripping(5)}},
			want:  []string{"0s " + opens},
		},
		"each time, also if the last one ended with the first trial": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, tripping(5)}, {11 * s, call("u")}, {11 * s, ok("u")},
				{12 * s, tripping(4)}, {12 * s, state}, {12 * s, tripping(1)}},
			want: []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "6s " + opens, "11s " + half, "11s u on trial", "11s " + closes,
				"12s is closed", "12s " + opens},
		},
		"what failed a window ago makes no longer run": {
			steps: []step{{0, mixed("foofooffoo", 20)}, {31 * s, tripping(5)}},
			want:  []string{"31s " + opens},
		},
		"twenty in a row are enough wherever they are": {
			steps: []step{{0, mixed("ffffoo", 100)}, {0, tripping(19)}, {0, state}, {0, tripping(1)}},
			want:  []string{"0s is closed", "0s closed to open: 20 failures in a row"},
		},
		"failures that overtake calls may be quicker than answers are: four to each": {
			steps: []step{{0, call("a", "b")}, {0, tripping(7)}, {0, state}, {0, tripping(1)}},
			want:  []string{"0s is closed", "0s closed to open: 8 failures in a row"},
		},
		"calls that began after those that fail are no reason to wait": {
			steps: []step{{0, call("a", "b", "c", "d", "e")}, {0, call("v", "w", "x", "y", "z")}, {30 * s, fail("a", "b", "c", "d", "e")}},
			want:  []string{"30s " + opens},
		},
		"twenty in a row are enough whatever makes headway": {
			steps: []step{{0, call("a")}, {0, tripping(1)}, {1 * s, progress("a")}, {2 * s, tripping(18)}, {2 * s, state}, {3 * s, tripping(1)}},
			want:  []string{"2s is closed", "3s closed to open: 20 failures in a row"},
		},
		"while a call makes headway others that fail do not open it": {
			steps: []step{{0, call("a")}, {0, tripping(1)}, {1 * s, progress("a")}, {2 * s, tripping(18)}, {2 * s, state}, {3 * s, fail("a")}},
			want:  []string{"2s is closed", "3s closed to open: 20 failures in a row"},
		},
		"headway of a call from before it opened is none": {
			steps: []step{{0, call("old")}, {0, tripping(5)}, {5 * s, tripping(1)}, {15 * s, call("t")}, {15 * s, ok("t")},
				{16 * s, tripping(1)}, {16 * s, progress("old")}, {16 * s, tripping(4)}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "15s " + half, "15s t on trial", "15s " + closes, "16s " + opens},
		},
		"the end of a call from before it opened is not that of another": {
			steps: []step{{0, call("old", "older")}, {0, tripping(8)}, {5 * s, tripping(1)}, {15 * s, call("t")}, {15 * s, ok("t")},
				{16 * s, call("a", "b")}, {16 * s, fail("old", "older")}, {16 * s, tripping(7)}, {16 * s, state}, {16 * s, tripping(1)}},
			want: []string{"0s closed to open: 8 failures in a row", "5s " + half, "5s x on trial", "5s " + reopen, "15s " + half, "15s t on trial",
				"15s " + closes, "16s is closed", "16s closed to open: 8 failures in a row"},
		},
		"nor does its success end a run": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, call("old")}, {0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, tripping(4)}, {6 * s, ok("old")},
				{6 * s, tripping(1)}},
			want: []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "6s " + opens},
		},
		"with a number that was set headway changes nothing": {
			cfg:   breaker.Config{Failures: 1000, MinCalls: 10},
			steps: []step{{0, call("a")}, {0, mixed("fffofffof", 1)}, {0, progress("a")}, {0, tripping(1)}},
			want:  []string{"0s closed to open: 8 of 10 calls failed in 30s"},
		},
		"headway from before the run is none": {
			steps: []step{{0, call("a")}, {0, progress("a")}, {1 * s, tripping(5)}},
			want:  []string{"1s " + opens},
		},
		"calls that make headway count for a rate as if they succeeded": {
			cfg: breaker.Config{MinCalls: 10},
			steps: []step{{0, call("a")}, {0, mixed("fffofffof", 1)}, {0, progress("a")}, {0, tripping(2)}, {0, state},
				{0, fail("a")}},
			want: []string{"0s is closed", "0s closed to open: 10 of 12 calls failed in 30s"},
		},
		"an opening that ended with the first trial may have been chance: the next takes more": {
			steps: []step{{0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, tripping(10)}, {6 * s, state}, {6 * s, tripping(1)}},
			want:  []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "6s is closed", "6s closed to open: 11 failures in a row"},
		},
		"and for five minutes": {
			steps: []step{{0, tripping(5)}, {5 * s, call("t")}, {5 * s, ok("t")}, {300 * s, tripping(5)}},
			want:  []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "5m0s " + opens},
		},
		"one that ended with a later trial was none": {
			steps: []step{{0, tripping(5)}, {5 * s, tripping(1)}, {15 * s, call("t")}, {15 * s, ok("t")}, {16 * s, tripping(5)}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "15s " + half, "15s t on trial",
				"15s " + closes, "16s " + opens},
		},
		"calls that outlive the opening make up for as many trials": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, call("a", "b")}, {0, tripping(5)}, {1 * s, ok("a", "b")}, {5 * s, tripping(1)}, {10 * s, tripping(1)},
				{15 * s, tripping(1)}, {16 * s, call("c")}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "10s " + half, "10s x on trial", "10s " + reopen,
				"15s " + half, "15s x on trial", "15s " + reopen, "16s c refused, open, retry in 9s"},
		},
		"of three trials at most": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, call("a", "b", "c", "d", "e")}, {0, tripping(5)}, {1 * s, ok("a", "b", "c", "d", "e")}, {5 * s, tripping(1)}, {10 * s, tripping(1)},
				{15 * s, tripping(1)}, {20 * s, tripping(1)}, {20 * s, call("f")}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "10s " + half, "10s x on trial", "10s " + reopen,
				"15s " + half, "15s x on trial", "15s " + reopen, "20s " + half, "20s x on trial", "20s " + reopen, "20s f refused, open, retry in 10s"},
		},
		"and of none after it has closed": {
			cfg: breaker.Config{Failures: 5},
			steps: []step{{0, call("a")}, {0, tripping(5)}, {1 * s, ok("a")}, {5 * s, call("t")}, {5 * s, ok("t")}, {6 * s, tripping(5)},
				{11 * s, tripping(1)}, {11 * s, call("b")}},
			want: []string{"0s " + opens, "5s " + half, "5s t on trial", "5s " + closes, "6s " + opens, "11s " + half, "11s x on trial", "11s " + reopen,
				"11s b refused, open, retry in 10s"},
		},
		"the silence of a trial that fails is a part of the pause": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {9 * s, fail("a")}, {9 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "9s " + reopen, "9s b refused, open, retry in 6s"},
		},
		"but the pause is a plain one at least": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {14 * s, fail("a")}, {14 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "14s " + reopen, "14s b refused, open, retry in 5s"},
		},
		"and what is taken off it is a plain one at most": {
			steps: []step{{0, tripping(5)}, {5 * s, tripping(1)}, {15 * s, call("a")}, {23 * s, fail("a")}, {23 * s, call("b")}},
			want: []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "15s " + half, "15s a on trial", "23s " + reopen,
				"23s b refused, open, retry in 15s"},
		},
		"where it must not grow nothing is taken off it": {
			cfg:   breaker.Config{MaxCooldown: -1},
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {9 * s, fail("a")}, {9 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "9s " + reopen, "9s b refused, open, retry in 5s"},
		},
		"and all of it after a silence as long": {
			steps: []step{{0, tripping(5)}, {5 * s, call("a")}, {15 * s, fail("a")}, {15 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "15s " + reopen, "15s b refused, open, retry in 10s"},
		},
		"who knows better puts the trial off": {
			steps: []step{{0, tripping(5)}, {4 * s, postpone(3 * s)}, {4 * s, call("a")}, {7*s - 1, call("b")}, {7 * s, call("c")}},
			want: []string{"0s " + opens, "4s a refused, open, retry in 3s", "6.999999999s b refused, open, retry in 1ns",
				"7s " + half, "7s c on trial"},
		},
		"by a cool-down at most, at a time": {
			steps: []step{{0, tripping(5)}, {4 * s, postpone(time.Hour)}, {4 * s, call("a")}, {8 * s, postpone(time.Hour)}, {8 * s, call("b")}},
			want:  []string{"0s " + opens, "4s a refused, open, retry in 5s", "8s b refused, open, retry in 5s"},
		},
		"by MaxPostpone in all": {
			cfg:   breaker.Config{MaxPostpone: 4 * s},
			steps: []step{{0, tripping(5)}, {4 * s, postpone(5 * s)}, {8 * s, postpone(5 * s)}, {9*s - 1, call("a")}, {9 * s, call("b")}},
			want:  []string{"0s " + opens, "8.999999999s a refused, open, retry in 1ns", "9s " + half, "9s b on trial"},
		},
		"which begins anew with each opening": {
			cfg: breaker.Config{MaxPostpone: 4 * s, MaxCooldown: -1},
			steps: []step{{0, tripping(5)}, {4 * s, postpone(5 * s)}, {8 * s, postpone(5 * s)}, {9 * s, tripping(1)},
				{13 * s, postpone(5 * s)}, {17 * s, postpone(5 * s)}, {17 * s, call("a")}},
			want: []string{"0s " + opens, "9s " + half, "9s x on trial", "9s " + reopen, "17s a refused, open, retry in 1s"},
		},
		"and never shortens what is left": {
			steps: []step{{0, tripping(5)}, {1 * s, postpone(2 * s)}, {1 * s, call("a")}},
			want:  []string{"0s " + opens, "1s a refused, open, retry in 4s"},
		},
		"nothing puts off what is closed, or on trial, or over": {
			steps: []step{{0, postpone(5 * s)}, {0, tripping(5)}, {5 * s, postpone(5 * s)}, {5 * s, call("a")}, {6 * s, postpone(5 * s)}, {6 * s, ok("a")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial", "6s " + closes},
		},
		"nor for no time, nor if it must not": {
			cfg:   breaker.Config{MaxPostpone: -1},
			steps: []step{{0, tripping(5)}, {4 * s, postpone(0)}, {4 * s, postpone(-1)}, {4 * s, postpone(5 * s)}, {5 * s, call("a")}},
			want:  []string{"0s " + opens, "5s " + half, "5s a on trial"},
		},
		"a sign of life takes back what was put off": {
			steps: []step{{0, tripping(5)}, {4 * s, postpone(5 * s)}, {6 * s, hurry}, {6 * s, call("a")}},
			want:  []string{"0s " + opens, "6s " + half, "6s a on trial"},
		},
		"a sign of life takes back what failed trials have added": {
			steps: []step{{0, tripping(5)}, {5 * s, tripping(1)}, {7 * s, hurry}, {7 * s, call("a")}, {10 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "7s a refused, open, retry in 3s", "10s " + half, "10s b on trial"},
		},
		"a sign of life after the plain cool-down lets a trial go at once": {
			steps: []step{{0, tripping(5)}, {5 * s, tripping(1)}, {12 * s, hurry}, {12 * s, call("a")}, {13 * s, hurry}, {13 * s, call("b")}},
			want:  []string{"0s " + opens, "5s " + half, "5s x on trial", "5s " + reopen, "12s " + half, "12s a on trial", "13s b refused, half-open, retry in 59s"},
		},
		"a sign of life makes no cool-down longer": {
			cfg:   breaker.Config{TrialLimit: 9 * s},
			steps: []step{{0, tripping(5)}, {5 * s, call("lost")}, {14 * s, hurry}, {14 * s, hurry}, {15 * s, call("a")}},
			want: []string{"0s " + opens, "5s " + half, "5s lost on trial", "14s half-open to open: a trial made no progress for 9s",
				"15s " + half, "15s a on trial"},
		},
		"a sign of life does not shorten the plain cool-down, nor disturb a closed one": {
			steps: []step{{0, hurry}, {0, tripping(5)}, {1 * s, hurry}, {1 * s, call("a")}},
			want:  []string{"0s " + opens, "1s a refused, open, retry in 4s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t, began: time.Now(), passes: map[string]*breaker.Pass{}}
				tt.cfg.OnChange = func(c breaker.Change) {
					assert.Equal(t, time.Now(), c.At)
					r.note("%s to %s: %s", c.From, c.To, c.Why)
				}
				r.b = newBreaker(t, tt.cfg)
				for _, step := range tt.steps {
					time.Sleep(time.Until(r.began.Add(step.at)))
					step.do(r)
				}
				assert.Equal(t, tt.want, r.log)
			})
		})
	}
}

// A call that is settled several times counts once, and so does its progress.
func TestPassCountsOnce(t *testing.T) {
	for _, first := range []breaker.Verdict{breaker.Success, breaker.Failure, breaker.Ignored} {
		b := newBreaker(t, breaker.Config{FailureRate: -1})
		slow, p := acquire(t, b), acquire(t, b)
		acquire(t, b).Done(breaker.Failure)
		slow.Progress()
		p.Progress()
		before := b.Stats()
		for range 20 {
			p.Done(first)
		}
		after := b.Stats()
		want := 1
		if first == breaker.Ignored {
			want = 0
		}
		assert.Equal(t, want, after.Calls-before.Calls, "settled 20 times as %v", first)
		for b.Stats().Failures < 19 { // slow is on its way still
			acquire(t, b).Done(breaker.Failure)
			require.Equal(t, breaker.Closed, b.State(), "settled 20 times as %v, %d failures", first, b.Stats().Failures)
			slow.Progress()
		}
	}
}

// A request that the endpoint refuses, however often, shows that it answers.
func TestRefusedRequestsNeverOpenIt(t *testing.T) {
	for _, v := range []breaker.Verdict{breaker.Ignored, breaker.Success, breaker.Verdict(99)} {
		b := newBreaker(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) { t.Errorf("changed: %+v", c) }})
		for range 20 {
			acquire(t, b).Done(v)
		}
		assert.Equal(t, breaker.Closed, b.State(), "after 20 x %v", v)
	}
}

// Whatever happens to the trial, and if it is a panic, the next call goes out.
func TestTrialIsFreedOnEveryExit(t *testing.T) {
	for name, exit := range map[string]func(*breaker.Pass){
		"ignored":            func(p *breaker.Pass) { p.Done(breaker.Ignored) },
		"an unknown verdict": func(p *breaker.Pass) { p.Done(-1) },
		"a panic": func(p *breaker.Pass) {
			defer func() { _ = recover() }()
			defer p.Done(breaker.Ignored)
			panic("in the call")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, breaker.Config{})
				trip(t, b)
				time.Sleep(5 * time.Second)
				exit(acquire(t, b))
				acquire(t, b).Done(breaker.Success)
				assert.Equal(t, breaker.Closed, b.State())
			})
		})
	}
}

// Of many calls at the end of the cool-down one is the trial, and the others are
// refused.
func TestACrowdIsOneTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		trip(t, b)
		time.Sleep(5 * time.Second)
		var trials, refused atomic.Int32
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				p, err := b.Acquire()
				if err != nil {
					refused.Add(1)
					return
				}
				trials.Add(1)
				time.Sleep(time.Second)
				p.Done(breaker.Success)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, trials.Load())
		assert.EqualValues(t, 63, refused.Load())
		assert.Equal(t, breaker.Closed, b.State())
	})
}

func TestErrorsTellTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Name: "api.example.com"})
		opened := time.Now()
		trip(t, b)
		time.Sleep(2 * time.Second)
		_, err := b.Acquire()
		assert.EqualError(t, err, "breaker: api.example.com: open for 2s, next trial in 3s")
		oe, _ := errors.AsType[*breaker.OpenError](err)
		assert.Equal(t, &breaker.OpenError{Name: "api.example.com", State: breaker.Open, Since: opened, For: 2 * s,
			Retry: opened.Add(5 * s), RetryIn: 3 * s}, oe)

		time.Sleep(3 * time.Second)
		acquire(t, b)
		time.Sleep(time.Second)
		_, err = b.Acquire()
		assert.EqualError(t, err, "breaker: api.example.com: half-open for 1s, all trials are out, the next is overdue in 59s")
	})
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Failures: 2})
		assert.Equal(t, breaker.Stats{}, b.Stats())

		began := time.Now()
		acquire(t, b).Done(breaker.Failure)
		assert.Equal(t, breaker.Stats{Failures: 1, Calls: 1, Failed: 1}, b.Stats())

		acquire(t, b).Done(breaker.Failure)
		opened := breaker.Change{From: breaker.Closed, To: breaker.Open, At: began, Why: "2 failures in a row", Retry: began.Add(5 * s)}
		assert.Equal(t, breaker.Stats{State: breaker.Open, Since: began, Retry: began.Add(5 * s), Last: opened}, b.Stats())

		time.Sleep(6 * time.Second)
		acquire(t, b)
		half := breaker.Change{From: breaker.Open, To: breaker.HalfOpen, At: began.Add(6 * s), Why: "the cool-down is over"}
		assert.Equal(t, breaker.Stats{State: breaker.HalfOpen, Since: half.At, Trials: 1, Overdue: began.Add(66 * s), Last: half}, b.Stats())

		time.Sleep(time.Minute)
		assert.Equal(t, breaker.Stats{State: breaker.HalfOpen, Since: half.At, WrittenOff: 1, Last: half}, b.Stats())
	})
}

func TestStatsOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Failures: 5})
		count := func() string { return fmt.Sprintf("%d of %d", b.Stats().Failed, b.Stats().Calls) }
		for range 20 {
			acquire(t, b).Done(breaker.Success)
		}
		acquire(t, b).Done(breaker.Failure)
		assert.Equal(t, "1 of 21", count())
		time.Sleep(30*time.Second - ns)
		assert.Equal(t, "1 of 21", count())
		time.Sleep(ns)
		assert.Equal(t, "0 of 0", count(), "though nothing has ended since")

		b = newBreaker(t, breaker.Config{Failures: 1})
		acquire(t, b).Done(breaker.Success) // gathered, when it opens
		trip(t, b)
		time.Sleep(5 * time.Second)
		acquire(t, b).Done(breaker.Success)
		assert.Equal(t, "0 of 0", count(), "closed again, it counts anew")
	})
}

// OnChange may use the breaker. What it changes is told after it has returned.
func TestOnChangeMayCallTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var log []string
		telling := false
		b = newBreaker(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			assert.False(t, telling, "told while telling")
			telling = true
			defer func() { telling = false }()
			log = append(log, fmt.Sprintf("%s to %s", c.From, c.To))
			switch c.To {
			case breaker.Open:
				time.Sleep(5 * time.Second)
				if p, err := b.Acquire(); assert.NoError(t, err) {
					p.Done(breaker.Success)
				}
			case breaker.HalfOpen, breaker.Closed:
				assert.Equal(t, breaker.Closed, b.State())
			}
		}})
		acquire(t, b).Done(breaker.Failure)
		assert.Equal(t, []string{"closed to open", "open to half-open", "half-open to closed"}, log)
	})
}

// An OnChange that does not return blocks only the goroutine that caused the change.
// Later changes follow it in order.
func TestSlowOnChangeHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan breaker.State, 3)
		b := newBreaker(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			if c.To == breaker.Open {
				time.Sleep(time.Hour)
			}
			told <- c.To
		}})
		began := time.Now()
		failing := acquire(t, b)
		go failing.Done(breaker.Failure)
		synctest.Wait()
		_, err := b.Acquire()
		assert.ErrorIs(t, err, breaker.ErrOpen)
		require.NoError(t, b.Wait(t.Context()))
		acquire(t, b).Done(breaker.Success)
		assert.Equal(t, breaker.Closed, b.State())
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Empty(t, told)
		for _, want := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed} {
			assert.Equal(t, want, <-told)
		}
		assert.Equal(t, time.Hour, time.Since(began))
	})
}

// One that ends its goroutine, as a test does that gives up, loses no change.
func TestOnChangeThatExitsIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []breaker.State
		b := newBreaker(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			told = append(told, c.To)
			runtime.Goexit()
		}})
		for range 3 {
			go func() { acquire(t, b).Done(breaker.Failure) }()
			synctest.Wait()
			time.Sleep(5 * time.Second)
			go b.State()
			synctest.Wait()
			go acquire(t, b).Done(breaker.Success)
			synctest.Wait()
			go b.State()
			synctest.Wait()
		}
		want := []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}
		assert.Equal(t, slices.Repeat(want, 3), told)
	})
}

func TestOnChangeThatPanicsIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []breaker.State
		b := newBreaker(t, breaker.Config{Failures: 1, OnChange: func(c breaker.Change) {
			told = append(told, c.To)
			if c.To == breaker.Open {
				panic("in OnChange")
			}
		}})
		assert.PanicsWithValue(t, "in OnChange", func() { acquire(t, b).Done(breaker.Failure) })
		time.Sleep(5 * time.Second)
		acquire(t, b).Done(breaker.Success)
		assert.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}, told)
	})
}

func TestNoPassIsNoPanic(t *testing.T) {
	var none *breaker.Pass
	none.Done(breaker.Failure)
	none.Progress()
	assert.False(t, none.Trial())
	new(breaker.Pass).Done(breaker.Failure)
	new(breaker.Pass).Progress()
	assert.Equal(t, "State(7) Verdict(7)", fmt.Sprint(breaker.State(7), " ", breaker.Verdict(7)))
	assert.Equal(t, "ignored success failure", fmt.Sprint(breaker.Ignored, " ", breaker.Success, " ", breaker.Failure))
}

// Without virtual time, for the race detector: many judge at once, and what is
// told is a path through the states.
func TestChangesComeInOrder(t *testing.T) {
	at := breaker.Closed
	b := newBreaker(t, breaker.Config{Failures: 1, Cooldown: ms, OnChange: func(c breaker.Change) {
		assert.Equal(t, at, c.From, "the change before led elsewhere")
		at = c.To // no lock: changes are told one at a time
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				if p, err := b.Acquire(); err == nil {
					p.Done(breaker.Verdict((i + j) % 3))
				} else if j%10 == 0 {
					time.Sleep(ms)
				}
			}
		})
	}
	wg.Wait()
	b.State()
}
