package pacer

import (
	"testing"
	"time"
)

// hears is the answer to the request of who, with what is left.
func hears(who string, all ...Allowance) do {
	return func(r *rig) {
		r.core.heed(r.now, r.seats[who].number, all)
		r.settle()
	}
}

func TestTold(t *testing.T) {
	const s, ns = time.Second, time.Nanosecond
	run(t, map[string]table{
		"nothing is left: all wait until it comes back, evenly": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Remaining: 0, Limit: 60, Reset: 60 * s})}, {0, enter("a", "b")}, {9 * s, look}},
			want:  []string{"0s x in", "1s a in", "2s b in"},
		},
		"a bucket that is smaller than what is published fills no faster than that": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Remaining: 0, Limit: 120, Reset: 10 * s})}, {0, enter("a", "b")}, {9 * s, look}},
			want:  []string{"0s x in", "500ms a in", "1s b in"},
		},
		"what is left goes at once": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Remaining: 2, Limit: 62, Reset: 60 * s})}, {0, enter("a", "b", "c")}, {9 * s, look}},
			want:  []string{"0s x in", "0s a in", "0s b in", "1s c in"},
		},
		"it comes back at once, to the nanosecond": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Limit: 2, Reset: 30 * s, AtOnce: true})}, {30*s - ns, enter("a")}, {30 * s, enter("b")}},
			want:  []string{"0s x in", "30s a in", "30s b in"},
		},
		"those under way since count, whether the server has seen them or not": {
			steps: []step{{0, enter("x")}, {1 * s, enter("y", "z")}, {2 * s, hears("x", Allowance{Remaining: 3, Reset: 30 * s})}, {2 * s, enter("a", "b")}, {40 * s, look}},
			want:  []string{"0s x in", "1s y in", "1s z in", "2s a in", "32s b in"},
		},
		"the latest word counts, also when it says more": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Reset: 60 * s})}, {0, enter("a")}, {5 * s, hears("x", Allowance{Remaining: 9, Reset: 60 * s})}},
			want:  []string{"0s x in", "5s a in"},
		},
		"without a time, and with less than nothing, nothing is known": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Limit: 10}, Allowance{Remaining: -1, Limit: -1, Reset: 30 * s}, Allowance{Reset: -30 * s})}, {0, enter("a")}},
			want:  []string{"0s x in", "0s a in"},
		},
		"and is no news of what was told before": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Reset: 30 * s, AtOnce: true})}, {1 * s, hears("x", Allowance{Remaining: 9, Limit: 10})}, {1 * s, enter("a")}, {40 * s, look}},
			want:  []string{"0s x in", "30s a in"},
		},
		"requests that began later are not tokens": {
			steps: []step{{0, needs("x", 1)}, {0, needs("y", 1)}, {0, needs("z", 1)}, {0, hears("x", Allowance{Tokens: true, Remaining: 100, Reset: 30 * s, AtOnce: true})},
				{0, needs("a", 100)}, {0, needs("b", 1)}, {40 * s, look}},
			want: []string{"0s x in", "0s y in", "0s z in", "0s a in", "30s b in"},
		},
		"all there is lets in one of any size, and one of no tokens behind it": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Tokens: true, Remaining: 100, Limit: 100, Reset: 30 * s})}, {0, needs("a", 5000)},
				{0, enter("b")}, {0, needs("c", 1)}, {40 * s, look}},
			want: []string{"0s x in", "0s a in", "0s b in", "30s c in"},
		},
		"an estimate of less than nothing adds none": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Tokens: true, Remaining: 10, Limit: 100, Reset: 30 * s, AtOnce: true})}, {0, needs("a", -1000)},
				{0, needs("b", 20)}, {40 * s, look}},
			want: []string{"0s x in", "0s a in", "30s b in"},
		},
		"of requests and tokens the later": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Reset: 30 * s, AtOnce: true}, Allowance{Tokens: true, Remaining: 50, Limit: 100, Reset: 60 * s})},
				{0, needs("a", 50)}, {40 * s, look}},
			want: []string{"0s x in", "30s a in"},
		},
		"what comes back more slowly than it is said to is all there at the time that was said": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Tokens: true, Limit: 600, Reset: 10 * s})}, {0, needs("a", 50)}, {0, needs("b", 300)}, {40 * s, look}},
			want:  []string{"0s x in", "5s a in", "10s b in"},
		},
		"nobody is held back for a day: after two minutes it is seen what holds then": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Reset: 24 * time.Hour, AtOnce: true})}, {0, enter("a")}, {130 * s, look}},
			want:  []string{"0s x in", "2m0s a in"},
		},
		"of tokens": {
			steps: []step{{0, needs("x", 100)}, {0, hears("x", Allowance{Tokens: true, Remaining: 150, Limit: 600, Reset: 45 * s})},
				{0, needs("a", 100)}, {0, needs("b", 100)}, {9 * s, look}},
			want: []string{"0s x in", "0s a in", "5s b in"},
		},
		"an estimate above all there is waits for all there is": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Tokens: true, Remaining: 0, Limit: 100, Reset: 60 * s})}, {0, needs("a", 5000)}, {70 * s, look}},
			want:  []string{"0s x in", "1m0s a in"},
		},
		"requests of no tokens do not wait for tokens": {
			steps: []step{{0, needs("x", 1)}, {0, hears("x", Allowance{Tokens: true, Remaining: 0, Limit: 100, Reset: 10 * s})}, {0, enter("a")}},
			want:  []string{"0s x in", "0s a in"},
		},
		"it never lets in more than our own limits do": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Remaining: 1000, Limit: 1000, Reset: s})}, {0, enter("a")}, {3 * s, look}},
			want:  []string{"0s x in", "1s a in"},
		},
		"a permit that goes back unused frees its place in flight, and here the count stays": {
			steps: []step{{0, enter("x")}, {0, hears("x", Allowance{Remaining: 1, Reset: 30 * s})}, {0, enter("a")}, {0, giveBack("a")}, {0, enter("b")}, {40 * s, look}},
			want:  []string{"0s x in", "0s a in", "30s b in"},
		},
	})
}
