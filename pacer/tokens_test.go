package pacer

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func bookedNow(r *rig) { r.note("%d booked", r.core.stats(r.now).TokensBooked) }

// every is callers 1 to n, one after the other.
func every(d time.Duration, n int, f func(who string) do) (steps []step) {
	for i := range n {
		steps = append(steps, step{time.Duration(i) * d, f(fmt.Sprint(i + 1))})
	}
	return steps
}

// needs is a caller that will use about so many tokens.
func needs(who string, tokens int) do { return ask(who, 0, Demand{Tokens: tokens}) }

func TestTokens(t *testing.T) {
	const s, ns = time.Second, time.Nanosecond
	plain := Config{TokensPerMinute: 1000, TokenBurst: -1}
	even := Config{TokensPerMinute: 600, TokenBurst: 100}
	run(t, map[string]table{
		"what is reserved counts before anybody has answered": {
			cfg:   plain,
			steps: []step{{0, needs("a", 500)}, {0, needs("b", 500)}, {0, needs("c", 500)}, {0, needs("d", 500)}, {0, needs("e", 500)}, {130 * s, look}},
			want:  []string{"0s a in", "0s b in", "1m0s c in", "1m0s d in", "2m0s e in"},
		},
		"what failed gives its reservation back, and what used less the rest": {
			cfg: plain,
			steps: []step{{0, needs("a", 500)}, {0, needs("b", 500)}, {0, needs("c", 500)}, {0, needs("d", 480)}, {0, needs("e", 1)},
				{2 * s, done("a", Result{Outcome: Failed})}, {3 * s, done("b", Result{Outcome: Answered, Tokens: 20})}, {59 * s, look}},
			want: []string{"0s a in", "0s b in", "2s c in", "3s d in"},
		},
		"an answer that says nothing of tokens keeps its reservation": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, done("a", Result{Outcome: Answered})}, {1 * s, needs("b", 1)}, {70 * s, look}},
			want:  []string{"0s a in", "1m0s b in"},
		},
		"as does what we left": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, done("a", Result{Outcome: Abandoned})}, {1 * s, needs("b", 1)}, {70 * s, look}},
			want:  []string{"0s a in", "1m0s b in"},
		},
		"and what failed in the middle of an answer": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, done("a", Result{Outcome: Failed, Outputs: 7})}, {1 * s, needs("b", 1)}, {70 * s, look}},
			want:  []string{"0s a in", "1m0s b in"},
		},
		"what was refused, and what was not sent, used nothing": {
			cfg: plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, done("a", Result{Outcome: Refused})}, {1 * s, needs("b", 1000)},
				{2 * s, giveBack("b")}, {2 * s, needs("c", 1000)}},
			want: []string{"0s a in", "1s b in", "2s c in"},
		},
		"nor did what was throttled, nor an answer that says so": {
			cfg: plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, done("a", Result{Outcome: Throttled})}, {1 * s, needs("b", 1000)},
				{2 * s, done("b", Result{Outcome: Answered, Outputs: 3, Tokens: -1})}, {2 * s, needs("c", 1000)}},
			want: []string{"0s a in", "1s b in", "2s c in"},
		},
		"an answer that used more than reserved is paid for": {
			cfg:   plain,
			steps: []step{{0, needs("a", 100)}, {1 * s, done("a", Result{Outcome: Answered, Tokens: 1000})}, {1 * s, needs("b", 1)}, {70 * s, look}},
			want:  []string{"0s a in", "1m0s b in"},
		},
		"one that is settled after its minute pays only what exceeds it, from then on": {
			cfg: plain,
			steps: []step{{0, needs("a", 100)}, {90 * s, done("a", Result{Outcome: Answered, Tokens: 700})}, {90 * s, needs("b", 400)},
				{90 * s, needs("c", 500)}, {160 * s, look}},
			want: []string{"0s a in", "1m30s b in", "2m30s c in"},
		},
		"one that is settled after its minute gives nothing back": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {60 * s, needs("b", 1000)}, {61 * s, done("a", Result{Outcome: Answered, Tokens: 1})}, {61 * s, needs("c", 1)}, {130 * s, look}},
			want:  []string{"0s a in", "1m0s b in", "2m0s c in"},
		},
		"what can never fit is refused and blocks nobody; what just fits is not": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1001)}, {0, needs("b", 1000)}, {60*s - ns, needs("c", 1001)}, {60 * s, needs("d", 1000)}},
			want:  []string{"0s a is too large", "0s b in", "59.999999999s c is too large", "1m0s d in"},
		},
		"without a limit nothing is too large": {
			steps: []step{{0, needs("a", 1<<60)}, {0, needs("b", 1<<60)}},
			want:  []string{"0s a in", "0s b in"},
		},
		"a request of no tokens passes when there are none, but not its elders": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {0, enter("b")}, {1 * s, needs("c", 1)}, {1 * s, enter("d")}, {70 * s, look}},
			want:  []string{"0s a in", "0s b in", "1m0s c in", "1m0s d in"},
		},
		"the small do not starve the big": {
			cfg: plain,
			steps: []step{{0, needs("s1", 400)}, {0, needs("big", 900)}, {0, needs("s2", 100)}, {30 * s, needs("s3", 100)},
				{60 * s, look}, {125 * s, look}},
			want: []string{"0s s1 in", "1m0s big in", "1m0s s2 in", "2m0s s3 in"},
		},
		"who is refused takes none with it, however often": {
			cfg: plain,
			steps: []step{{0, needs("a", 900)}, {0, ask("b", 30*s, Demand{Tokens: 200})}, {0, ask("c", 30*s, Demand{Tokens: 200})},
				{0, needs("d", 2000)}, {1 * s, needs("e", 100)}},
			want: []string{"0s a in", "0s b would wait 1m0s for tokens per minute", "0s c would wait 1m0s for tokens per minute",
				"0s d is too large", "1s e in"},
		},
		"nor does who leaves the line": {
			cfg:   plain,
			steps: []step{{0, needs("a", 900)}, {0, needs("b", 200)}, {0, needs("c", 100)}, {1 * s, leave("b")}, {2 * s, look}},
			want:  []string{"0s a in", "1s c in"},
		},
		"a permit that is never given back keeps its tokens for a minute and no longer": {
			cfg:   plain,
			steps: []step{{0, needs("lost", 1000)}, {60*s - ns, needs("a", 1000)}, {60 * s, done("a", Result{Tokens: -1})}, {60 * s, needs("b", 1000)}},
			want:  []string{"0s lost in", "1m0s a in", "1m0s b in"},
		},
		"a minute begins nowhere: six in ten seconds each go on for ever": {
			cfg: Config{TokensPerMinute: 186, TokenBurst: -1},
			steps: slices.Concat(every(10*s, 13, func(who string) do { return needs(who, 31) }),
				[]step{{121 * s, needs("late", 1)}, {140 * s, look}}),
			want: []string{"0s 1 in", "10s 2 in", "20s 3 in", "30s 4 in", "40s 5 in", "50s 6 in", "1m0s 7 in", "1m10s 8 in", "1m20s 9 in",
				"1m30s 10 in", "1m40s 11 in", "1m50s 12 in", "2m0s 13 in", "2m10s late in"},
		},
		"the default burst is a tenth of the minute's worth": {
			cfg:   Config{TokensPerMinute: 600},
			steps: []step{{0, needs("a", 60)}, {0, needs("b", 10)}, {9 * s, look}},
			want:  []string{"0s a in", "1s b in"},
		},
		"and one token at least": {
			cfg:   Config{TokensPerMinute: 6},
			steps: []step{{0, needs("a", 1)}, {0, needs("b", 1)}, {20 * s, look}},
			want:  []string{"0s a in", "10s b in"},
		},
		"what is booked is what the last minute has": {
			cfg: plain,
			steps: []step{{0, needs("a", 300)}, {30 * s, needs("b", 200)}, {60*s - ns, bookedNow}, {60 * s, bookedNow}, {61 * s, done("b", Result{Tokens: 50})},
				{61 * s, bookedNow}, {90 * s, bookedNow}},
			want: []string{"0s a in", "30s b in", "59.999999999s 500 booked", "1m0s 200 booked", "1m1s 50 booked", "1m30s 0 booked"},
		},
		"a burst, then an even pace": {
			cfg:   even,
			steps: []step{{0, needs("a", 50)}, {0, needs("b", 50)}, {0, needs("c", 50)}, {0, needs("d", 10)}, {20 * s, look}},
			want:  []string{"0s a in", "0s b in", "5s c in", "6s d in"},
		},
		"nor does it fill the bucket": {
			cfg:   even,
			steps: []step{{0, needs("a", 100)}, {61 * s, needs("b", 100)}, {61 * s, done("a", Result{Tokens: 1})}, {61 * s, needs("c", 50)}, {80 * s, look}},
			want:  []string{"0s a in", "1m1s b in", "1m6s c in"},
		},
		"what was used beyond all numbers shuts it for a minute": {
			cfg: plain,
			steps: []step{{0, needs("a", 1)}, {0, needs("b", 1)}, {0, needs("c", 1)}, {0, done("a", Result{Tokens: 1 << 62})}, {0, done("b", Result{Tokens: 1 << 62})},
				{0, done("c", Result{Tokens: 1 << 62})}, {1 * s, needs("d", 1)}, {60*s - 1, bookedNow}, {60 * s, bookedNow}, {70 * s, look}},
			want: []string{"0s a in", "0s b in", "0s c in", "59.999999999s 3377699720527872 booked", "1m0s 0 booked", "1m0.06s d in"},
		},
		"ten times what a minute has is paid in a minute, and the next one waits its time": {
			cfg:   even,
			steps: []step{{0, needs("a", 100)}, {0, done("a", Result{Tokens: 6000})}, {0, needs("b", 10)}, {70 * s, look}},
			want:  []string{"0s a in", "1m1s b in"},
		},
		"a quiet spell saves up a burst and no more": {
			cfg:   even,
			steps: []step{{0, needs("a", 100)}, {50 * s, needs("b", 60)}, {50 * s, needs("c", 60)}, {60 * s, look}},
			want:  []string{"0s a in", "50s b in", "52s c in"},
		},
		"a debt is paid while nobody asks, and not forgiven": {
			cfg:   even,
			steps: []step{{0, needs("big", 400)}, {10 * s, needs("a", 10)}, {60 * s, look}},
			want:  []string{"0s big in", "31s a in"},
		},
		"what is given back fills the bucket no further than a burst": {
			cfg:   even,
			steps: []step{{0, needs("a", 100)}, {8 * s, done("a", Result{Tokens: -1})}, {8 * s, needs("b", 60)}, {8 * s, needs("c", 60)}, {60 * s, look}},
			want:  []string{"0s a in", "8s b in", "10s c in"},
		},
		"and what was used beyond the estimate is a debt of the bucket": {
			cfg:   even,
			steps: []step{{0, needs("a", 50)}, {0, done("a", Result{Tokens: 150})}, {0, needs("b", 10)}, {60 * s, look}},
			want:  []string{"0s a in", "6s b in"},
		},
		"one larger than a burst goes with a full bucket, and those behind it wait for its debt": {
			cfg:   even,
			steps: []step{{0, needs("a", 10)}, {0, needs("big", 400)}, {0, needs("b", 20)}, {60 * s, look}},
			want:  []string{"0s a in", "1s big in", "33s b in"},
		},
		"a deadline before the tokens are there is too early, one later is not": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {1 * s, ask("b", 59*s, Demand{Tokens: 1})}, {1 * s, ask("c", 59*s+ns, Demand{Tokens: 1})}, {70 * s, look}},
			want:  []string{"0s a in", "1s b would wait 59s for tokens per minute", "1m0s c in"},
		},
		"less than no tokens are none": {
			cfg:   plain,
			steps: []step{{0, needs("a", 1000)}, {0, needs("b", -5)}, {0, done("b", Result{Tokens: -5})}, {0, needs("c", 1)}, {70 * s, look}},
			want:  []string{"0s a in", "0s b in", "1m0s c in"},
		},
	})
}
