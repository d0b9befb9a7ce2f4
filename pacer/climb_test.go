package pacer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func limit(r *rig) { r.note("limit %d", r.core.climb.limit()) }

func firstOutput(who string, after time.Duration) do {
	return func(r *rig) {
		r.core.firstOutput(r.now, r.seats[who], after)
		r.settle()
	}
}

// outputs tells of output so far.
func outputs(pieces int) func(who string) do {
	return func(who string) do {
		return func(r *rig) {
			r.core.output(r.now, r.seats[who], pieces)
			r.settle()
		}
	}
}

// group is a number of callers, a1 to an.
func group(name string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(name, i+1))
	}
	return names
}

// all does something for each of a group.
func all(names []string, f func(who string) do) do {
	return func(r *rig) {
		for _, who := range names {
			f(who)(r)
		}
	}
}

// answered ends a request with so many pieces of output, none of them reported
// before.
func answered(pieces int) func(who string) do {
	return func(who string) do { return done(who, Result{Outcome: Answered, Outputs: pieces}) }
}

func came(o Outcome) func(who string) do {
	return func(who string) do { return done(who, Result{Outcome: o}) }
}

func silently(f do) do {
	return func(r *rig) {
		log := r.log
		f(r)
		r.log = log
	}
}

func TestClimbSteps(t *testing.T) {
	const s = time.Second
	learn := Config{StartInFlight: 8}
	eight := group("a", 8)
	quiet := func(names []string) do { return silently(enter(names...)) }
	// full is a round of so many, which all take so long.
	round := func(at, took time.Duration, name string, n, pieces int) []step {
		names := group(name, n)
		return []step{{at, quiet(names)}, {at + took, silently(all(names, answered(pieces)))}}
	}
	steps := func(parts ...[]step) (all []step) { return slices.Concat(parts...) }
	// oneByOne is n requests one after the other, inTen of every ten refused.
	oneByOne := func(at time.Duration, n, inTen int) (all []step) {
		for i := range n {
			who := fmt.Sprint("o", i)
			ends := answered(50)(who)
			if i%10 < inTen {
				ends = came(Refused)(who)
			}
			all = append(all, step{at + time.Duration(2*i)*s, quiet([]string{who})}, step{at + time.Duration(2*i+1)*s, silently(ends)})
		}
		return all
	}
	// overtakes is four requests, the first with output after a tenth of a second,
	// and a later one that takes as long.
	overtakes := func(begins time.Duration) []step {
		return []step{
			{0, quiet(group("a", 12))},
			{s / 10, silently(firstOutput("a1", s/10))},
			{s / 5, silently(answered(11)("a1"))}, // a5 comes in
			{begins, silently(answered(11)("a5"))},
			{begins + s/10, firstOutput("a6", s/10)},
		}
	}
	run(t, map[string]table{
		"eight start at once, and one each second while nothing is heard": {
			cfg:   learn,
			steps: []step{{0, enter(group("a", 12)...)}, {3500 * time.Millisecond, look}},
			want: []string{"0s a1 in", "0s a2 in", "0s a3 in", "0s a4 in", "0s a5 in", "0s a6 in", "0s a7 in", "0s a8 in",
				"1s a9 in", "2s a10 in", "3s a11 in"},
		},
		"the first output ends that": {
			cfg:   learn,
			steps: []step{{0, quiet(group("a", 12))}, {1500 * time.Millisecond, silently(firstOutput("a1", s))}, {10 * s, limit}},
			want:  []string{"1s a9 in", "10s limit 9"},
		},
		"with callers who tell nothing it grows whenever it is full": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {100 * time.Millisecond, silently(all(eight, release))}, {200 * time.Millisecond, limit}},
			want:  []string{"200ms limit 9"},
		},
		"a round that is used makes it grow by half": {
			cfg:   learn,
			steps: steps(round(0, 2*s, "a", 8, 50), []step{{2 * s, limit}}),
			want:  []string{"2s limit 12"},
		},
		"a round that is not used does not": {
			cfg:   learn,
			steps: steps(round(0, 2*s, "a", 4, 50), round(2*s, 2*s, "b", 4, 50), round(4*s, 2*s, "c", 4, 50), []step{{6 * s, limit}}),
			want:  []string{"6s limit 8"},
		},
		"more in flight that take no longer make it double": {
			cfg:   learn,
			steps: steps(round(0, 2*s, "a", 8, 50), round(2*s, 2*s, "b", 12, 50), []step{{4 * s, limit}}),
			want:  []string{"2s limit 12", "4s limit 24"}[1:],
		},
		"answers of any length are the same to it": {
			cfg: learn,
			steps: steps(round(0, 2*s, "a", 8, 50), []step{
				{2 * s, quiet(group("b", 12))},
				{3 * s, silently(all(group("b", 6), answered(25)))},
				{22 * s, silently(all(group("b", 12)[6:], answered(500)))},
				{22 * s, limit}}),
			want: []string{"22s limit 24"},
		},
		"half more in flight that take half as long again are no use: back": {
			cfg:   learn,
			steps: steps(round(0, 2*s, "a", 8, 50), round(2*s, 3100*time.Millisecond, "b", 12, 50), []step{{6 * s, lvl}}),
			want:  []string{"6s level 8.0"},
		},
		"two refusals leave seven tenths of what was in flight, once for all that began before": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Refused)))}, {1 * s, lvl}},
			want:  []string{"1s level 4.9"},
		},
		"one of two leaves all": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(answered(50)("a1"))}, {1 * s, silently(came(Refused)("a2"))}, {1 * s, lvl}},
			want:  []string{"1s level 8.0"},
		},
		"with less load nothing is cut until it is known whether that helps": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Refused)))}, {2 * s, quiet(group("b", 5))},
				{3 * s, silently(all(group("b", 5), came(Refused)))}, {3 * s, lvl}},
			want: []string{"3s level 4.9"},
		},
		"most are lost with less load too: half of that is left": {
			cfg: Config{StartInFlight: 30},
			steps: steps([]step{{0, quiet(group("a", 30))}, {1 * s, silently(all(group("a", 30), came(Refused)))}, {1 * s, lvl}},
				oneByOne(2*s, 20, 10), []step{{60 * s, lvl}, {60 * s, doubts}}),
			want: []string{"1s level 20.3", "1m0s level 10.1", "1m0s usual 0.00, in doubt 20.3, 16 known"},
		},
		"and half of that again, down to four": {
			cfg: Config{StartInFlight: 30},
			steps: steps([]step{{0, quiet(group("a", 30))}, {1 * s, silently(all(group("a", 30), came(Refused)))}},
				oneByOne(2*s, 20, 10), oneByOne(60*s, 20, 10), oneByOne(120*s, 20, 10), []step{{180 * s, lvl}}, oneByOne(180*s, 20, 10), []step{{240 * s, lvl}}),
			want: []string{"3m0s level 4.0", "4m0s level 4.0"},
		},
		"those that began before a cut count for none after it": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Refused)))}, {1 * s, doubts}},
			want:  []string{"1s usual 0.00, in doubt 7.0, 0 known"},
		},
		"as many are lost with less load: that is usual, and the cut is taken back": {
			cfg: learn,
			steps: steps([]step{{0, quiet(eight)}, {1 * s, silently(all(eight[:2], came(Refused)))}, {1 * s, silently(all(eight[2:], answered(50)))}, {1 * s, lvl}},
				oneByOne(2*s, 20, 4), []step{{60 * s, lvl}}),
			want: []string{"1s level 4.9", "1m0s level 7.0"},
		},
		"fewer are lost with less load: it stays": {
			cfg: learn,
			steps: steps([]step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Refused)))}},
				oneByOne(2*s, 20, 0), []step{{60 * s, doubts}}),
			want: []string{"1m0s usual 0.00, in doubt 0.0, 3 known"},
		},
		"who waits goes in when fewer are out than a limit that was cut, and no sooner": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {0, enter("w", "x")}, {s / 2, silently(all(eight[:2], came(Refused)))}, {s / 2, limit},
				{s / 2, answered(50)("a3")}, {s / 2, lostSight}, {s / 2, answered(50)("a4")}, {s / 2, lostSight}},
			want: []string{"500ms limit 6", "500ms 0 of 6 forgotten", "500ms x in", "500ms 0 of 6 forgotten"},
		},
		"refusals are quick, which is no sign of a quick server": {
			cfg:   learn,
			steps: steps(round(0, 2*s, "a", 8, 50), []step{{2 * s, speed}, {3 * s, quiet(group("b", 4))}, {3*s + 1, silently(all(group("b", 4), came(Refused)))}, {4 * s, speed}}),
			want:  []string{"2s 0.04 s a piece, 0.00 s to the first", "4s 0.04 s a piece, 0.00 s to the first"},
		},
		"a refusal is news: nobody is let in any more for want of it": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {0, enter("w", "x")}, {s / 2, silently(came(Refused)("a1"))}, {10 * s, lostSight}},
			want:  []string{"10s 0 of 8 forgotten"},
		},
		"losses leave four places": {
			cfg: Config{StartInFlight: 5},
			steps: []step{{0, quiet(group("a", 5))}, {1 * s, silently(firstOutput("a1", s))}, {3 * s, silently(came(Abandoned)("a2"))},
				{4 * s, silently(came(Abandoned)("a3"))}, {4 * s, lvl}, {5 * s, silently(came(Abandoned)("a4"))}, {5 * s, lvl}},
			want: []string{"4s level 4.0", "5s level 4.0"},
		},
		"refusals do not": {
			cfg:   Config{StartInFlight: 5},
			steps: []step{{0, quiet(group("a", 5))}, {3 * s, silently(all(group("a", 5), came(Refused)))}, {3 * s, lvl}},
			want:  []string{"3s level 2.8"},
		},
		"output that lets the limit grow lets in who waits": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {0, enter("w")}, {s / 2, silently(all(eight, func(who string) do { return firstOutput(who, s/2) }))},
				{3 * s, all(eight, outputs(50))}, {3 * s, limit}},
			want: []string{"3s w in", "3s limit 12"},
		},
		"a first output that shows others to be forgotten does as well": {
			cfg:   Config{StartInFlight: 4},
			steps: overtakes(800*time.Millisecond + 1)[:5],
			want:  []string{"900.000001ms a7 in", "900.000001ms a8 in", "900.000001ms a9 in"},
		},
		"a lone request that is refused cuts nothing": {
			cfg:   learn,
			steps: steps(oneByOne(0, 20, 10), []step{{60 * s, lvl}}),
			want:  []string{"1m0s level 8.0"},
		},
		"those that one overtook which began eight usual waits later take no place": {
			cfg:   Config{StartInFlight: 4},
			steps: steps(overtakes(800*time.Millisecond+1), []step{{2 * s, lostSight}}),
			want:  []string{"900.000001ms a7 in", "900.000001ms a8 in", "900.000001ms a9 in", "2s 3 of 7 forgotten"},
		},
		"and one that began no later than that overtakes none": {
			cfg:   Config{StartInFlight: 4},
			steps: steps(overtakes(800*time.Millisecond), []step{{2 * s, lostSight}}),
			want:  []string{"2s 0 of 4 forgotten"},
		},
		"what is forgotten and comes nevertheless takes its place again": {
			cfg: Config{StartInFlight: 4},
			steps: steps(overtakes(800*time.Millisecond+1), []step{{2 * s, silently(firstOutput("a2", 2*s))}, {2 * s, lostSight},
				{3 * s, silently(came(Abandoned)("a3"))}, {3 * s, lostSight}}),
			want: []string{"900.000001ms a7 in", "900.000001ms a8 in", "900.000001ms a9 in", "2s 2 of 7 forgotten", "3s 1 of 6 forgotten"},
		},
		"throttled and failed requests say nothing of the load": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight[:4], came(Throttled)))}, {1 * s, silently(all(eight[4:], came(Failed)))}, {1 * s, lvl}},
			want:  []string{"1s level 8.0"},
		},
		"what we left keeps its place for five seconds, but not all places": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Abandoned)))}, {1 * s, enter(group("b", 5)...)},
				{6*s - 1, look}, {6 * s, look}},
			want: []string{"1s b1 in", "1s b2 in", "1s b3 in", "6s b4 in", "6s b5 in"},
		},
		"if the server refuses after it expired the next weighs twice as much": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(came(Abandoned)("a1"))}, {6*s - 1, look}, {7 * s, silently(all(eight[1:], came(Refused)))},
				{7 * s, quiet([]string{"b"})}, {8 * s, silently(came(Abandoned)("b"))}, {18*s - 1, weighing}, {18 * s, weighing}},
			want: []string{"17.999999999s 1 weigh", "18s 0 weigh"},
		},
		"and if it does while it weighs it does not": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(came(Abandoned)("a1"))}, {5 * s, silently(all(eight[1:], came(Refused)))},
				{7 * s, quiet([]string{"b"})}, {8 * s, silently(came(Abandoned)("b"))}, {13*s - 1, weighing}, {13 * s, weighing}},
			want: []string{"12.999999999s 1 weigh", "13s 0 weigh"},
		},
		"as long as they weigh they can be seen": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight[:3], came(Abandoned)))}, {2 * s, silently(all(eight[3:5], came(Cancelled)))},
				{2 * s, weighing}, {6*s - 1, weighing}, {6 * s, weighing}, {7 * s, weighing}},
			want: []string{"2s 5 weigh", "5.999999999s 5 weigh", "6s 2 weigh", "7s 0 weigh"},
		},
		"what a caller cancelled keeps its place as well": {
			cfg: learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, came(Cancelled)))}, {1 * s, enter(group("b", 4)...)},
				{6*s - 1, look}, {6 * s, look}},
			want: []string{"1s b1 in", "1s b2 in", "1s b3 in", "6s b4 in"},
		},
		"a permit that was not used teaches nothing": {
			cfg:   learn,
			steps: []step{{0, quiet(eight)}, {1 * s, silently(all(eight, giveBack))}, {1 * s, limit}},
			want:  []string{"1s limit 8"},
		},
	})
}

func doubts(r *rig) {
	b := &r.core.climb.blame
	r.note("usual %.2f, in doubt %.1f, %d known", b.usual, b.from, b.known)
}

func lostSight(r *rig) {
	s := r.core.stats(r.now)
	r.note("%d of %d forgotten", s.Forgotten, s.InFlight)
}

func weighing(r *rig) {
	r.note("%d weigh", r.core.stats(r.now).Abandoned)
}

// speed is how fast the server seems to be.
func speed(r *rig) {
	r.note("%.2f s a piece, %.2f s to the first", r.core.climb.gap, r.core.climb.wait)
}

func lvl(r *rig) { r.note("level %.1f", r.core.climb.level) }

// A model is a server: a number of slots, those after them wait in order of
// arrival, and the seconds between pieces with so many in slots.
type model struct {
	slots int
	gap   func(n int) float64
}

// served plays agents against a model for a while, and returns the mean limit
// of the second half of it. Some answers are spoiled.
func served(t *testing.T, c *core, rnd *rand.Rand, agents int, until time.Duration, m model, spoil func(r *Result)) float64 {
	t.Helper()
	type flight struct {
		seat         seat
		pieces, want int
	}
	var out []*flight
	now := epoch
	sum, n := 0.0, 0.0
	for now.Before(epoch.Add(until)) {
		for len(out) < agents {
			f := &flight{want: 10 + rnd.IntN(190)}
			if !c.try(now, Demand{}, &f.seat) {
				break
			}
			out = append(out, f)
		}
		busy := out[:min(len(out), m.slots)]
		now = now.Add(seconds(m.gap(len(busy))))
		for _, f := range slices.Clone(busy) {
			f.pieces++
			switch {
			case f.pieces == 1:
				c.firstOutput(now, &f.seat, now.Sub(epoch)-f.seat.began)
			case f.pieces < f.want:
				if f.pieces%10 == 0 {
					c.output(now, &f.seat, f.pieces)
				}
			default:
				r := Result{Outcome: Answered, Outputs: f.pieces}
				if spoil != nil {
					spoil(&r)
				}
				c.exit(now, &f.seat, r, true)
				out = slices.DeleteFunc(out, func(o *flight) bool { return o == f })
			}
		}
		require.GreaterOrEqual(t, c.climb.inFlight, 0)
		require.Equal(t, len(out), c.climb.inFlight)
		if now.After(epoch.Add(until / 2)) {
			sum += float64(c.climb.limit())
			n++
		}
	}
	return sum / n
}

func TestClimbFindsTheTop(t *testing.T) {
	square := func(top float64) model {
		return model{math.MaxInt, func(n int) float64 { return 0.02 * (1 + math.Pow(float64(n)/top, 2)) }}
	}
	flat := func(slots int) model { return model{slots, func(int) float64 { return 0.02 }} }
	for name, tt := range map[string]struct {
		model       model
		agents      int
		least, most float64
	}{
		"a batch that trips over itself from 10 on": {square(10), 64, 7, 13},
		"from 40 on":           {square(40), 150, 25, 56},
		"from 3 on":            {square(3), 64, 2, 7},
		"16 slots and a queue": {flat(16), 64, 11, 40},
		"one slot and a queue": {flat(1), 45, 1, 12},
		"room for everybody":   {flat(math.MaxInt), 200, 200, math.MaxInt},
		"a server that does not care, and is slow":    {model{math.MaxInt, func(int) float64 { return 1 }}, 45, 45, math.MaxInt},
		"fewer agents than it could do, held to none": {square(10), 4, 4, math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			const runs = 3
			mean, seeds := 0.0, []uint64{}
			for range runs {
				seed := rand.Uint64()
				seeds = append(seeds, seed)
				p, err := New(Config{})
				require.NoError(t, err)
				until := seconds(8000 * tt.model.gap(1)) // eighty answers, one after the other
				mean += served(t, &p.core, rand.New(rand.NewPCG(seed, 0)), tt.agents, until, tt.model, nil) / runs
			}
			assert.GreaterOrEqual(t, mean, tt.least, "mean limit, seeds %d", seeds)
			assert.LessOrEqual(t, mean, tt.most, "mean limit, seeds %d", seeds)
		})
	}
}

// Of many answers some are given up or never come: the limit does not fall for
// that as long as the others do well.
func TestClimbIsNotScaredByFew(t *testing.T) {
	for name, spoil := range map[string]func(rnd *rand.Rand) func(r *Result){
		"most answers are cancelled": func(rnd *rand.Rand) func(r *Result) {
			return func(r *Result) {
				if rnd.IntN(5) > 0 {
					*r = Result{Outcome: Cancelled, Outputs: 1 + rnd.IntN(r.Outputs)}
				}
			}
		},
		"some answers take longer than we wait": func(rnd *rand.Rand) func(r *Result) {
			return func(r *Result) {
				if rnd.IntN(5) == 0 {
					*r = Result{Outcome: Abandoned, Outputs: 1 + rnd.IntN(r.Outputs)}
				}
			}
		},
		"some requests fail": func(rnd *rand.Rand) func(r *Result) {
			return func(r *Result) {
				if rnd.IntN(3) == 0 {
					*r = Result{Outcome: Failed}
				}
			}
		},
		"nobody counts pieces": func(*rand.Rand) func(r *Result) {
			return func(r *Result) { r.Outputs = 0 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			rnd := rand.New(rand.NewPCG(seed, 0))
			p, err := New(Config{})
			require.NoError(t, err)
			got := served(t, &p.core, rnd, 45, 5*time.Minute, model{math.MaxInt, func(int) float64 { return 0.02 }}, spoil(rnd))
			assert.GreaterOrEqual(t, got, 40.0, "seed %d: mean limit", seed)
		})
	}
}

// A server that is suddenly three times as slow is given half, and not less for
// slowness alone than four.
func TestClimbMeetsASlowServer(t *testing.T) {
	p, err := New(Config{})
	require.NoError(t, err)
	c := &p.core
	m := model{math.MaxInt, func(n int) float64 {
		gap := 0.02 * (1 + math.Pow(float64(n)/10, 2))
		if c.climb.last > 5*time.Minute {
			gap *= 3
		}
		return gap
	}}
	got := served(t, c, rand.New(rand.NewPCG(1, 0)), 64, 15*time.Minute, m, nil)
	assert.GreaterOrEqual(t, got, 7.0, "as slow with few as with many: the top is where it was")
	assert.LessOrEqual(t, got, 13.0)
}

// Where requests wait most of the time that may be a queue at the server, if it is
// more than a moment.
func TestQueued(t *testing.T) {
	c := newClimber(8)
	c.wait, c.gap = shortWait, shortWait/1000
	assert.False(t, c.queued())
	assert.InDelta(t, top, c.aim(), 1e-9)
	c.wait += 1e-9
	assert.True(t, c.queued())
	assert.Less(t, c.aim(), top)
	c.gap = shortWait
	assert.False(t, c.queued(), "most of the time is output")
}

// What is forgotten takes no place, but one of four that are out does in any case.
func TestBusy(t *testing.T) {
	for forgotten, want := range map[int]int{0: 8, 1: 7, 5: 3, 6: 2, 7: 2, 8: 2} {
		c := newClimber(8)
		c.inFlight, c.unheard.forgotten = 8, forgotten
		assert.Equal(t, want, c.busy(), "%d of 8 forgotten", forgotten)
	}
}

func TestGhosts(t *testing.T) {
	var g ghosts
	at := seconds
	g.add(at(0))
	g.add(at(1))
	g.advance(at(5 - 1e-9))
	assert.Equal(t, 2, g.len())
	g.advance(at(5))
	assert.Equal(t, 1, g.len(), "five seconds, to the nanosecond")
	assert.Equal(t, at(6), g.next())

	g.ill(at(5.5))
	assert.Equal(t, 10*time.Second, g.weigh, "one has just expired, and all is not well: longer")
	g.ill(at(5.6))
	assert.Equal(t, 10*time.Second, g.weigh, "that is said once for each")

	g.well(at(5.7), at(0.5))
	assert.Equal(t, 1, g.len(), "a request that began before says nothing")
	g.well(at(5.8), at(1.5))
	assert.Zero(t, g.len())
	assert.Less(t, g.weigh, 10*time.Second, "it was gone after 4.8 s: shorter")

	for range 100 {
		g.add(at(10))
		g.well(at(10.1), at(10.05))
	}
	assert.GreaterOrEqual(t, g.weigh, leastGhost)
	for i := range 100 {
		now := at(1000 * float64(i+1))
		g.add(now)
		g.advance(now + g.weigh)
		g.ill(now + g.weigh)
	}
	assert.Equal(t, mostGhost, g.weigh)
	g.advance(at(1e6))
	assert.Zero(t, g.len())
}

// Only what comes soon after one has expired, or after one was left, says anything
// about those.
func TestGhostsAreJudgedByWhatFollows(t *testing.T) {
	at := seconds
	for name, tt := range map[string]struct {
		ill  time.Duration // after it was left
		want time.Duration
	}{
		"before it expires":          {at(5) - 1, firstGhost},
		"as it expires":              {at(5), 2 * firstGhost},
		"as long after as it weighs": {at(10), 2 * firstGhost},
		"and longer":                 {at(10) + 1, firstGhost},
	} {
		var g ghosts
		g.add(0)
		g.advance(tt.ill)
		g.ill(tt.ill)
		assert.Equal(t, tt.want, g.weigh, name)
	}
	for began, want := range map[time.Duration]int{at(1) - 1: 1, at(1): 1, at(1) + 1: 0} {
		var g ghosts
		g.add(at(1))
		g.well(at(2), began)
		assert.Equal(t, want, g.len(), "one that began at %v is well, one was left at 1s", began)
	}
}

func TestFit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, slope := range []float64{0, 0.5, 1, 2} {
		for _, drift := range []float64{-0.05, 0, 0.05} {
			var f fit
			for i := range 200 {
				x := math.Log(10) + 0.2*float64(i%2) // a limit that goes up and down
				f.learn(x, slope*x+drift*float64(i)/10+0.02*rnd.NormFloat64(), float64(i)/10, 60)
			}
			assert.InDelta(t, slope, f.slope, 0.2, "with a drift of %v", drift)
		}
	}
	var f fit
	for i := range 50 {
		f.learn(2, 5, float64(i), 60)
	}
	assert.InDelta(t, unseen, f.slope, 0.01, "where nothing varies nothing is seen")
	assert.InDelta(t, 5, f.expect(2), 1e-6)
}

// A slope that noise has made is not taken for one that was seen.
func TestFitIsUnsure(t *testing.T) {
	fits := func(seed uint64, noise float64, points int) (f fit) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for i := range points {
			x := math.Log(10) + 0.24*float64(i/10%2)
			f.learn(x, 0.9*x+noise*rnd.NormFloat64(), float64(i)/10, 60)
		}
		return f
	}
	var off, said float64
	const seeds = 500
	below := 0
	for seed := range uint64(seeds) {
		f := fits(seed, 0.1, 100)
		off += (f.slope - 0.9) * (f.slope - 0.9)
		said += f.unsure * f.unsure
		if f := fits(seed, 0.3, 30); f.isBelow(hardly) {
			below++
		}
	}
	assert.InDelta(t, 1.3, math.Sqrt(said/off), 0.5, "what it says of itself, by what it is off")
	assert.Less(t, below, seeds/8, "of %d with a true slope of 0.9 and much noise", seeds)

	var flat fit
	for i := range 30 {
		flat.learn(math.Log(10)+0.24*float64(i/10%2), 1+0.02*rand.New(rand.NewPCG(uint64(i), 1)).NormFloat64(), float64(i)/10, 60)
	}
	assert.True(t, flat.isBelow(hardly), "a server that hardly notices: %.2f ± %.2f", flat.slope, flat.unsure)
	assert.False(t, (&fit{}).isBelow(2), "of nothing nothing is known")
}
