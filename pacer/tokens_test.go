package pacer

import (
	"testing"
	"time"
)

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
		"a burst, then an even pace": {
			cfg:   even,
			steps: []step{{0, needs("a", 50)}, {0, needs("b", 50)}, {0, needs("c", 50)}, {0, needs("d", 10)}, {20 * s, look}},
			want:  []string{"0s a in", "0s b in", "5s c in", "6s d in"},
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
