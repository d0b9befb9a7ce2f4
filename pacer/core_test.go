package pacer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A rig drives a core without a clock and writes down who is admitted when.
type rig struct {
	t       *testing.T
	core    *core
	now     time.Time
	waiting map[string]*waiter
	seats   map[string]*seat // of permits out
	log     []string
}

func newRig(t *testing.T, cfg Config) *rig {
	if cfg.StartInFlight == 0 {
		cfg.StartInFlight = -1 // what is learned has tables of its own
	}
	p, err := New(cfg)
	require.NoError(t, err)
	return &rig{t: t, core: &p.core, now: epoch, waiting: map[string]*waiter{}, seats: map[string]*seat{}}
}

func (r *rig) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%v ", r.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

// settle notes whose wait is over.
func (r *rig) settle() {
	for _, who := range slices.Sorted(maps.Keys(r.waiting)) {
		w := r.waiting[who]
		select {
		case <-w.done:
			delete(r.waiting, who)
			if w.err != nil {
				r.note("%s refused", who)
			} else {
				r.seats[who] = w.seat
				r.note("%s in", who)
			}
		default:
		}
	}
}

// until runs the timer up to the offset at, as the shell would.
func (r *rig) until(at time.Duration) {
	end := epoch.Add(at)
	for !r.core.next.IsZero() && !r.core.next.After(end) {
		require.False(r.t, r.core.next.Before(r.now), "next lies in the past")
		was := r.core.next
		r.now = was
		r.core.admitDue(r.now)
		r.settle()
		require.NotEqual(r.t, was, r.core.next, "woken for nothing, and again at the same time")
	}
	r.now = end
}

type do func(*rig)

func enter(names ...string) do {
	return func(r *rig) {
		for _, who := range names {
			enterBy(who, 0)(r)
		}
	}
}

// enterBy is a caller whose context ends after left; zero is never.
func enterBy(who string, left time.Duration) do { return ask(who, left, Demand{}) }

// ask is a caller with a demand.
func ask(who string, left time.Duration, d Demand) do {
	return func(r *rig) {
		var deadline time.Time
		if left > 0 {
			deadline = r.now.Add(left)
		}
		s := new(seat)
		w, err := r.core.enter(r.now, deadline, d, s)
		r.settle()
		we, tooLong := errors.AsType[*WaitError](err)
		switch {
		case tooLong:
			r.note("%s would wait %v for %s", who, we.Wait, we.For)
		case errors.Is(err, ErrTooLarge):
			r.note("%s is too large", who)
		case err != nil:
			r.note("%s finds a full queue", who)
		case w == nil:
			r.seats[who] = s
			r.note("%s in", who)
		default:
			r.waiting[who] = w
		}
	}
}

// each makes a request for each agent.
func each(names []string) (steps []step) {
	for _, who := range names {
		steps = append(steps, step{0, ask(who, 0, Demand{Agent: who})})
	}
	return steps
}

func release(who string) do          { return exit(who, Result{}, true) }
func giveBack(who string) do         { return exit(who, Result{}, false) }
func done(who string, res Result) do { return exit(who, res, true) }

func exit(who string, res Result, used bool) do {
	return func(r *rig) {
		s, ok := r.seats[who]
		require.True(r.t, ok, "%s has no permit", who)
		delete(r.seats, who)
		r.core.exit(r.now, s, res, used)
		r.settle()
	}
}

func leave(who string) do {
	return func(r *rig) {
		r.core.leave(r.now, r.waiting[who])
		delete(r.waiting, who)
		r.settle()
	}
}

// releaseAsLeaves gives a permit to a waiter in the moment in which that leaves.
func releaseAsLeaves(who, leaver string) do {
	return func(r *rig) {
		w := r.waiting[leaver]
		delete(r.waiting, leaver)
		release(who)(r)
		require.Nil(r.t, w.lane, "%s is not admitted", leaver)
		r.core.leave(r.now, w)
		r.settle()
	}
}

func cool(d time.Duration) do { return coolLate(d, 0) }

func coolLate(d time.Duration, jitter float64) do {
	return func(r *rig) {
		r.core.coolDown(r.now, d, jitter)
		r.settle()
	}
}

func look(r *rig) {}

// anew forgets what was noted.
func anew(r *rig) { r.log = nil }

// late lets d pass without the timer, then does what is next.
func late(d time.Duration, next do) do {
	return func(r *rig) {
		r.now = r.now.Add(d)
		next(r)
	}
}

// A table is steps at moments, and what comes of them.
type table struct {
	cfg   Config
	steps []step
	want  []string
}

type step struct {
	at time.Duration
	do do
}

func run(t *testing.T, tables map[string]table) {
	t.Helper()
	for name, tt := range tables {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.cfg)
			for _, step := range tt.steps {
				r.until(step.at)
				step.do(r)
			}
			assert.Equal(t, tt.want, r.log)
		})
	}
}

func TestCore(t *testing.T) {
	const s, ms, ns = time.Second, time.Millisecond, time.Nanosecond

	run(t, map[string]table{
		"without limits nobody waits": {
			steps: []step{{0, enter("a", "b", "c")}},
			want:  []string{"0s a in", "0s b in", "0s c in"},
		},
		"a permit given back lets in the first in line, and only that one": {
			cfg:   Config{MaxInFlight: 2},
			steps: []step{{0, enter("a", "b", "c", "d")}, {1 * s, release("b")}, {3 * s, giveBack("a")}},
			want:  []string{"0s a in", "0s b in", "1s c in", "3s d in"},
		},
		"who leaves the line gives its place to the next": {
			cfg:   Config{MaxInFlight: 1},
			steps: []step{{0, enter("a", "b", "c", "d")}, {1 * s, leave("b")}, {2 * s, leave("d")}, {3 * s, release("a")}, {4 * s, release("c")}, {5 * s, enter("e")}},
			want:  []string{"0s a in", "3s c in", "5s e in"},
		},
		"who leaves in the moment in which it is let in gives that to the next": {
			cfg:   Config{MaxInFlight: 1, RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("a", "b", "c")}, {2 * s, releaseAsLeaves("a", "b")}, {2 * s, release("c")}, {2 * s, enter("d")}, {9 * s, look}},
			want:  []string{"0s a in", "2s c in", "3s d in"},
		},
		"a queue is full with MaxQueue callers, not with one fewer": {
			cfg:   Config{MaxInFlight: 1, MaxQueue: 2},
			steps: []step{{0, enter("a", "b", "c", "d")}, {1 * s, leave("b")}, {2 * s, enter("e", "f")}},
			want:  []string{"0s a in", "0s d finds a full queue", "2s f finds a full queue"},
		},
		"who is due makes room in the queue, however late the timer": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1, MaxQueue: 1},
			steps: []step{{0, enter("a", "b")}, {0, late(1*s, enter("c"))}},
			want:  []string{"0s a in", "1s b in"},
		},
		"a burst, then even spacing": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 2},
			steps: []step{{0, enter("a", "b", "c", "d", "e")}, {10 * s, look}},
			want:  []string{"0s a in", "0s b in", "1s c in", "2s d in", "3s e in"},
		},
		"the default burst is a tenth of the minute's worth": {
			cfg:   Config{RequestsPerMinute: 30},
			steps: []step{{0, enter("a", "b", "c", "d", "e")}, {10 * s, look}},
			want:  []string{"0s a in", "0s b in", "0s c in", "2s d in", "4s e in"},
		},
		"without a bound on bursts the window alone holds the rate": {
			cfg:   Config{RequestsPerMinute: 3, Burst: -1},
			steps: []step{{0, enter("a", "b")}, {7 * s, enter("c", "d", "e", "f")}, {121 * s, look}},
			want:  []string{"0s a in", "0s b in", "7s c in", "1m0s d in", "1m0s e in", "1m7s f in"},
		},
		"the window holds back what the bucket has saved up": {
			cfg: Config{RequestsPerMinute: 6, Burst: 3},
			// Bucket: 3 at once, then one in 10 s. The seventh would go at 40 s.
			steps: []step{{0, enter("a", "b", "c", "d", "e", "f", "g", "h")}, {120 * s, look}},
			want:  []string{"0s a in", "0s b in", "0s c in", "10s d in", "20s e in", "30s f in", "1m0s g in", "1m0s h in"},
		},
		"a permit that was not used frees its place in the minute": {
			cfg:   Config{RequestsPerMinute: 6, Burst: 1},
			steps: []step{{0, enter("a", "b")}, {3 * s, giveBack("a")}, {20 * s, enter("c")}, {20 * s, giveBack("c")}, {20 * s, enter("d")}},
			want:  []string{"0s a in", "3s b in", "20s c in", "20s d in"},
		},
		"a used permit does not free its place in the minute": {
			cfg:   Config{RequestsPerMinute: 6, Burst: 1},
			steps: []step{{0, enter("a", "b")}, {3 * s, release("a")}, {20 * s, look}},
			want:  []string{"0s a in", "10s b in"},
		},
		"returns do not fill the bucket beyond the burst": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 2},
			steps: []step{{0, enter("a", "b")}, {5 * s, giveBack("a")}, {5 * s, giveBack("b")}, {5 * s, enter("c", "d", "e")}, {10 * s, look}},
			want:  []string{"0s a in", "0s b in", "5s c in", "5s d in", "6s e in"},
		},
		"the token held for the first in line goes to who follows it": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("a", "b", "c")}, {500 * ms, leave("b")}, {10 * s, look}},
			want:  []string{"0s a in", "1s c in"},
		},
		"a line that empties leaves no token behind": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("a", "b")}, {500 * ms, leave("b")}, {1 * s, enter("c")}},
			want:  []string{"0s a in", "1s c in"},
		},
		"a cool-down holds back everybody, also who comes later": {
			steps: []step{{0, cool(1 * s)}, {0, enter("a")}, {999 * ms, enter("b")}, {2 * s, look}},
			want:  []string{"1s a in", "1.1s b in"},
		},
		"a cool-down is extended and never shortened": {
			steps: []step{{0, enter("x")}, {0, cool(2 * s)}, {0, enter("a")}, {1 * s, cool(500 * ms)}, {1500 * ms, cool(time.Second)}, {9 * s, look}},
			want:  []string{"0s x in", "2.5s a in"},
		},
		"a cool-down of nothing, or less, is none": {
			steps: []step{{0, cool(0)}, {0, cool(-1 * s)}, {0, enter("a")}},
			want:  []string{"0s a in"},
		},
		"jitter moves the readmission later, up to a tenth of the pause": {
			steps: []step{{0, coolLate(4*s, 0.5)}, {0, enter("a")}, {9 * s, look}},
			want:  []string{"4.2s a in"},
		},
		"jitter that is no number, or no part, is none": {
			steps: []step{{0, coolLate(4*s, math.NaN())}, {0, enter("a")}, {9 * s, coolLate(4*s, -1)}, {9 * s, enter("b")},
				{20 * s, coolLate(4*s, 2)}, {20 * s, enter("c")}, {30 * s, look}},
			want: []string{"4s a in", "13s b in", "24s c in"},
		},
		"jitter is a second at most": {
			steps: []step{{0, coolLate(100*s, 1)}, {0, enter("a")}, {200 * s, look}},
			want:  []string{"1m41s a in"},
		},
		"readmission speeds up": {
			steps: []step{{0, cool(1 * s)}, {0, enter("a", "b", "c", "d")}, {9 * s, look}},
			want:  []string{"1s a in", "1.1s b in", "1.19090909s c in", "1.274242423s d in"},
		},
		"readmission is paced for who comes right after the pause, not for who comes later": {
			steps: []step{{0, cool(1 * s)}, {2 * s, enter("a", "b")}, {5 * s, enter("c")}, {9 * s, look}},
			want:  []string{"2s a in", "2.1s b in", "5s c in"},
		},
		"ten seconds after a pause all is as before": {
			steps: []step{{0, cool(1 * s)}, {11*s - ns, enter("a", "b")}, {12 * s, enter("c", "d")}},
			want:  []string{"10.999999999s a in", "11.099999999s b in", "12s c in", "12s d in"},
		},
		"who comes while many are let in waits no longer than at their pace": {
			steps: []step{{0, cool(1 * s)}, {0, enter(group("a", 30)...)}, {2150 * ms, anew}, {2150 * ms, enterBy("late", 500*ms)},
				{2150 * ms, enterBy("too late", 250*ms)}, {2399 * ms, anew}, {9 * s, look}},
			want: []string{"2.424574771s late in"},
		},
		"they count from when the first could come": {
			steps: []step{{0, coolLate(10*s, 1)}, {21*s - ns, enter("a", "b")}, {22 * s, enter("c", "d")}},
			want:  []string{"20.999999999s a in", "21.099999999s b in", "22s c in", "22s d in"},
		},
		"the same pause told twice is one": {
			steps: []step{{0, coolLate(4*s, 0.5)}, {0, coolLate(4*s, 0)}, {1 * s, coolLate(3*s, 1)}, {1 * s, enter("a")}, {9 * s, look}},
			want:  []string{"4.2s a in"},
		},
		"a new cool-down during readmission starts it anew": {
			steps: []step{{0, cool(1 * s)}, {0, enter("a", "b", "c", "d")}, {1100 * ms, cool(1 * s)}, {9 * s, look}},
			want:  []string{"1s a in", "1.1s b in", "2.1s c in", "2.2s d in"},
		},
		"readmission does not overrule the number in flight": {
			cfg:   Config{MaxInFlight: 1},
			steps: []step{{0, cool(1 * s)}, {0, enter("a", "b")}, {3 * s, release("a")}},
			want:  []string{"1s a in", "3s b in"},
		},
		"tokens gather during a cool-down, no more than the burst": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 2},
			steps: []step{{0, enter("a", "b", "c")}, {500 * ms, cool(10 * s)}, {10750 * ms, enter("d", "e")}, {20 * s, look}},
			want:  []string{"0s a in", "0s b in", "10.5s c in", "10.75s d in", "11.5s e in"},
		},
		"a deadline at the end of the cool-down is too early, one later is not": {
			steps: []step{{0, cool(5 * s)}, {1 * s, enterBy("a", 4*s)}, {1 * s, enterBy("b", 4*s+ns)}, {9 * s, look}},
			want:  []string{"1s a would wait 4s for the end of a cool-down", "5s b in"},
		},
		"a deadline at the next token is too early, one later is not": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("a", "b")}, {0, enterBy("c", 2*s)}, {0, enterBy("d", 2*s+ns)}, {9 * s, look}},
			want:  []string{"0s a in", "0s c would wait 2s for requests per minute", "1s b in", "2s d in"},
		},
		"a deadline before the window moves on is too early": {
			cfg:   Config{RequestsPerMinute: 2, Burst: -1},
			steps: []step{{0, enter("a", "b", "c", "d")}, {1 * s, enterBy("e", 119*s)}, {1 * s, enterBy("f", 119*s+ns)}, {200 * s, look}},
			want:  []string{"0s a in", "0s b in", "1s e would wait 1m59s for requests per minute", "1m0s c in", "1m0s d in", "2m0s f in"},
		},
		"a refused caller takes no token with it": {
			cfg:   Config{RequestsPerMinute: 60, Burst: 1},
			steps: []step{{0, enter("a")}, {0, enterBy("b", 500*ms)}, {0, enterBy("c", 500*ms)}, {1 * s, enter("d")}},
			want:  []string{"0s a in", "0s b would wait 1s for requests per minute", "0s c would wait 1s for requests per minute", "1s d in"},
		},
		"who comes near the end of readmission need not be paced beyond it": {
			steps: []step{{0, cool(1 * s)}, {10900 * ms, enter("a", "b")}, {10900 * ms, enterBy("c", 100*ms)}, {10900 * ms, enterBy("d", 100*ms+ns)}, {20 * s, look}},
			want:  []string{"10.9s a in", "10.9s c would wait 100ms for readmission after a cool-down", "11s b in", "11s d in"},
		},
		"a cool-down counts those ahead": {
			cfg:   Config{MaxInFlight: 1},
			steps: []step{{0, enter("a", "b")}, {0, enterBy("c", 3050*ms)}, {0, enterBy("d", 3100*ms)}, {1 * s, cool(2 * s)}, {2 * s, release("a")}, {3 * s, release("b")}, {4 * s, look}},
			want:  []string{"0s a in", "1s c refused", "3s b in", "3.1s d in"},
		},
		"of another agent one of each is ahead": {
			cfg: Config{MaxInFlight: 1},
			steps: slices.Concat([]step{{0, enter("x")}, {0, cool(1 * s)}}, each(group("a", 20)), []step{
				{0, ask("b", 2098612288, Demand{Agent: "b"})}, {0, ask("c", 2098612289, Demand{Agent: "c"})}, {0, ask("d", 2098612289, Demand{Agent: "d"})}}),
			want: []string{"0s x in", "0s b would wait 2.098612288s for the end of a cool-down",
				"0s d would wait 2.131402111s for the end of a cool-down"},
		},
		"the first of each agent may be the next": {
			cfg: Config{MaxInFlight: 1},
			steps: []step{{0, enter("x")}, {0, ask("a", 10*s, Demand{Agent: "a"})}, {0, ask("b", 3050*ms, Demand{Agent: "b"})}, {1 * s, cool(2 * s)},
				{1 * s, leave("a")}, {2 * s, release("x")}, {5 * s, look}},
			want: []string{"0s x in", "3s b in"},
		},
		"a deadline while others are in flight is nobody's business": {
			cfg:   Config{MaxInFlight: 1},
			steps: []step{{0, enter("a")}, {0, enterBy("b", ns)}, {5 * s, release("a")}},
			want:  []string{"0s a in", "5s b in"},
		},
		"a cool-down refuses those in line who cannot outwait it": {
			cfg:   Config{MaxInFlight: 1},
			steps: []step{{0, enter("a")}, {0, enterBy("b", 3*s)}, {0, enterBy("c", 3*s+ns)}, {0, enter("d")}, {1 * s, cool(2 * s)}, {2 * s, release("a")}, {4 * s, release("c")}},
			want:  []string{"0s a in", "1s b refused", "3s c in", "4s d in"},
		},
	})
}

// What the first in line waits for is said by its name, and when it will be over
// if that is known.
func TestReasons(t *testing.T) {
	const s = time.Second
	why := func(r *rig) {
		st := r.core.stats(r.now)
		at := "nobody knows when"
		if !st.Next.IsZero() {
			at = fmt.Sprint("until ", st.Next.Sub(epoch))
		}
		r.note("%d wait for %s, %s", st.Queued, st.WaitingFor, at)
	}
	run(t, map[string]table{
		"a place":     {cfg: Config{MaxInFlight: 1}, steps: []step{{0, enter("a", "b")}, {0, why}}, want: []string{"0s a in", "0s 1 wait for a request in flight to end, nobody knows when"}},
		"a rate":      {cfg: Config{RequestsPerMinute: 60, Burst: 1}, steps: []step{{0, enter("a", "b")}, {0, why}}, want: []string{"0s a in", "0s 1 wait for requests per minute, until 1s"}},
		"tokens":      {cfg: Config{TokensPerMinute: 60}, steps: []step{{0, needs("a", 6)}, {0, needs("b", 2)}, {0, why}}, want: []string{"0s a in", "0s 1 wait for tokens per minute, until 2s"}},
		"a pause":     {steps: []step{{0, coolLate(10*s, 1)}, {0, enter("a")}, {0, why}}, want: []string{"0s 1 wait for the end of a cool-down, until 11s"}},
		"its jitter":  {steps: []step{{0, coolLate(10*s, 1)}, {10 * s, enter("a")}, {10 * s, why}}, want: []string{"10s 1 wait for readmission after a cool-down, until 11s"}},
		"readmission": {steps: []step{{0, cool(10 * s)}, {10 * s, enter("a", "b")}, {10 * s, why}}, want: []string{"10s a in", "10s 1 wait for readmission after a cool-down, until 10.1s"}},
		"the server":  {steps: []step{{0, enter("a")}, {0, hears("a", Allowance{Reset: 7 * s, AtOnce: true})}, {0, enter("b")}, {0, why}}, want: []string{"0s a in", "0s 1 wait for the limit that the server told, until 7s"}},
		"the load, as long as nothing is heard": {cfg: Config{StartInFlight: 1}, steps: []step{{0, enter("a", "b")}, {0, why}},
			want: []string{"0s a in", "0s 1 wait for the load on the server to ease, until 1s"}},
		"the load": {cfg: Config{StartInFlight: 1}, steps: []step{{0, enter("a", "b")}, {0, firstOutput("a", 1)}, {0, why}},
			want: []string{"0s a in", "0s 1 wait for the load on the server to ease, nobody knows when"}},
		"nothing": {steps: []step{{0, enter("a", "b")}, {0, why}}, want: []string{"0s a in", "0s b in", "0s 0 wait for , nobody knows when"}},
	})
}

func TestStatsTellTheLimitAndTheLongestWait(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		cfg  Config
		want int
	}{
		"a number was set":      {Config{MaxInFlight: 4, StartInFlight: -1}, 4},
		"less than is learned":  {Config{MaxInFlight: 4, StartInFlight: 8}, 4},
		"more than is learned":  {Config{MaxInFlight: 20, StartInFlight: 8}, 8},
		"nothing but what is":   {Config{StartInFlight: 8}, 8},
		"what it begins with":   {Config{StartInFlight: defaultStart}, 8},
		"there is none":         {Config{StartInFlight: -1}, 0},
		"less than one is none": {Config{StartInFlight: -1, MaxInFlight: -3}, 0},
	} {
		r := newRig(t, tt.cfg)
		assert.Equal(t, tt.want, r.core.stats(r.now).Limit, name)
	}

	r := newRig(t, Config{MaxInFlight: 1})
	enter("held")(r)
	by("a", "a1")(r)
	r.until(s)
	by("b", "b1")(r)
	with(Demand{Priority: 1}, "c1")(r)
	r.until(3 * s)
	assert.Equal(t, 3*s, r.core.stats(r.now).Longest)
	leave("a1")(r)
	assert.Equal(t, 2*s, r.core.stats(r.now).Longest)
}

// A context may be heard of a little after its deadline. Until then its caller
// stands in line like any other: that it would wait for no time is no reason to
// refuse it.
func TestADeadlineThatHasPassedIsTheContextsBusiness(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 1})
	enter("held")(r)
	w, err := r.core.enter(r.now, r.now.Add(-time.Millisecond), Demand{}, new(seat))
	require.NoError(t, err)
	require.NotNil(t, w)
}

// The default bound of the queue is ten thousand, one more is refused.
func TestTheDefaultQueueIsBounded(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 1})
	enter("held")(r)
	for range 10_000 {
		w, err := r.core.enter(r.now, time.Time{}, Demand{}, new(seat))
		require.NoError(t, err)
		require.NotNil(t, w)
	}
	_, err := r.core.enter(r.now, time.Time{}, Demand{}, new(seat))
	assert.Equal(t, &QueueFullError{Queued: 10_000, Max: 10_000, For: ReasonInFlight}, err)
}

func TestTimerThatFiresEarlyIsSetAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Rand: func() float64 { return 0 }})
		require.NoError(t, err)
		p.CoolDown(time.Second)
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			p.mu.Lock()
			p.timer.Stop()
			p.mu.Unlock()
			p.wake()
		})
		_, err = p.Acquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// Steps at random, checked after each against what the package promises.
func TestCoreInvariants(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runInvariants(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func runInvariants(t *testing.T, rnd *rand.Rand) {
	cfg := Config{StartInFlight: -1}
	if rnd.IntN(2) == 0 {
		cfg.StartInFlight = 1 + rnd.IntN(8)
	}
	if rnd.IntN(2) == 0 {
		cfg.TokensPerMinute = 100 + rnd.IntN(5000)
		cfg.TokenBurst = []int{0, 1, -1, 1 + rnd.IntN(cfg.TokensPerMinute)}[rnd.IntN(4)]
	}
	cfg.FinishFirst = rnd.IntN(2) == 0
	// Alone they are in order of arrival; with names and priorities the order
	// is in tables of its own.
	alone := rnd.IntN(2) == 0
	if rnd.IntN(4) > 0 {
		cfg.RequestsPerMinute = 1 + rnd.IntN(40)
		cfg.Burst = []int{0, 1, -1, 1 + rnd.IntN(cfg.RequestsPerMinute)}[rnd.IntN(4)]
	}
	if rnd.IntN(3) > 0 {
		cfg.MaxInFlight = 1 + rnd.IntN(6)
	}
	if rnd.IntN(3) == 0 {
		cfg.MaxQueue = 1 + rnd.IntN(20)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	c := &p.core

	type caller struct {
		w        *waiter
		seat     *seat
		started  time.Time
		number   int
		deadline time.Time
		demand   Demand
		booked   int // tokens, as settled
	}
	var (
		now         = epoch
		line, out   []*caller
		starts      []time.Time // of permits used, or out
		paused      time.Time
		lastStarted = -1
		ledger      []*caller // who has booked tokens
		count       int
	)
	started := func(x *caller) {
		if alone {
			require.Greater(t, x.number, lastStarted, "overtaken")
			lastStarted = x.number
		}
		require.False(t, now.Before(paused), "admitted %v before the end of the cool-down", paused.Sub(now))
		x.started = now
		out = append(out, x)
		starts = append(starts, now)
		x.booked = int(x.demand.need())
		ledger = append(ledger, x)
		if cfg.TokensPerMinute > 0 && x.booked > 0 {
			sum := 0
			for _, y := range ledger {
				if now.Sub(y.started) < time.Minute {
					sum += int(y.booked)
				}
			}
			require.LessOrEqual(t, sum, cfg.TokensPerMinute, "tokens in a minute")
		}
		if c.climb != nil {
			require.LessOrEqual(t, c.climb.busy(), c.climb.limit(), "in flight, without those that are forgotten")
			require.LessOrEqual(t, len(out), 4*c.climb.limit(), "in flight")
		}
	}
	collect := func() {
		line = slices.DeleteFunc(line, func(x *caller) bool {
			select {
			case <-x.w.done:
			default:
				return false
			}
			if x.w.err == nil {
				x.seat = x.w.seat
				started(x)
			} else {
				require.False(t, x.deadline.IsZero(), "refused without a deadline")
			}
			return true
		})
	}
	settle := func() {
		collect()
		require.Equal(t, len(out), c.inFlight)
		first := time.Time{}
		for _, x := range out {
			if first.IsZero() || x.started.Before(first) {
				first = x.started
			}
		}
		if len(out) > 0 {
			require.Equal(t, now.Sub(first), c.stats(now).Oldest)
		}
		rolled := 0
		for s := c.out.oldest; s != nil; s = s.newer {
			rolled++
		}
		require.Equal(t, len(out), rolled, "on the roll")
		require.Equal(t, len(line), c.queue.len)
		if cfg.MaxInFlight > 0 {
			require.LessOrEqual(t, len(out), cfg.MaxInFlight)
		}
		if cfg.MaxQueue > 0 {
			require.LessOrEqual(t, len(line), cfg.MaxQueue)
		}
		if len(line) > 0 {
			require.NotEmpty(t, c.why, "somebody waits for nothing")
			if c.next.IsZero() {
				require.Contains(t, []Reason{ReasonInFlight, ReasonLoad}, c.why)
				require.NotEmpty(t, out, "everybody waits for nobody")
			}
		} else {
			require.True(t, c.next.IsZero(), "a timer for nobody")
			if c.rate != nil {
				require.False(t, c.rate.holding, "a token held for nobody")
			}
		}
		if rpm := cfg.RequestsPerMinute; rpm > 0 && len(starts) > rpm {
			for i, last := range starts[rpm:] {
				if took := last.Sub(starts[i]); took < time.Minute {
					t.Fatalf("%d starts in %v, want at most %d in a minute", rpm+1, took, rpm)
				}
			}
		}
	}
	tick := func(d time.Duration) {
		end := now.Add(d)
		for !c.next.IsZero() && !c.next.After(end) {
			now = c.next
			if rnd.IntN(5) == 0 { // timers are late
				now = now.Add(time.Duration(rnd.Int64N(int64(30 * time.Millisecond))))
			}
			c.admitDue(now)
			settle()
		}
		if end.After(now) {
			now = end
		}
	}
	end := func(i int, used bool) {
		x := out[i]
		out = slices.Delete(out, i, i+1)
		if !used {
			j, _ := slices.BinarySearchFunc(starts, x.started, time.Time.Compare)
			starts = slices.Delete(starts, j, j+1)
		}
		r := Result{Outcome: Outcome(rnd.IntN(7)), Outputs: rnd.IntN(100)}
		if x.demand.need() > 0 && rnd.IntN(2) == 0 {
			// What exceeds a reservation is booked when it is known, which may
			// be too late for the limit to hold.
			r.Tokens = 1 + rnd.IntN(int(x.demand.need()))
		}
		switch spent := r.spent(used); {
		case spent < 0:
			x.booked = 0
		case spent > 0:
			x.booked = spent
		}
		c.exit(now, x.seat, r, used)
	}

	for range 400 {
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			x := &caller{number: count}
			count++
			if rnd.IntN(3) == 0 {
				x.deadline = now.Add(time.Duration(rnd.Int64N(int64(40 * time.Second))))
			}
			x.demand.Tokens = rnd.IntN(max(cfg.TokensPerMinute, 1)) / (1 + rnd.IntN(20))
			if !alone {
				x.demand.Agent = string(rune('a' + rnd.IntN(5)))
				x.demand.Priority = rnd.IntN(3)
				x.demand.Finishing = rnd.IntN(3) == 0
			}
			queued := c.queue.len
			s := new(seat)
			w, err := c.enter(now, x.deadline, x.demand, s)
			collect() // those who were due before
			switch {
			case err != nil:
			case w == nil:
				x.seat = s
				require.Empty(t, line, "a late comer overtook")
				started(x)
			default:
				x.w = w
				line = append(line, x)
			}
			if errors.Is(err, ErrQueueFull) {
				require.GreaterOrEqual(t, queued, cfg.MaxQueue)
			}
		case 4, 5, 6:
			if len(out) > 0 {
				end(rnd.IntN(len(out)), rnd.IntN(4) > 0)
			}
		case 7:
			if len(out) > 0 {
				x := out[rnd.IntN(len(out))]
				if rnd.IntN(2) == 0 {
					c.firstOutput(now, x.seat, now.Sub(x.started))
				} else {
					c.output(now, x.seat, rnd.IntN(100))
				}
			}
			if len(line) > 0 {
				i := rnd.IntN(len(line))
				x := line[i]
				line = slices.Delete(line, i, i+1)
				c.leave(now, x.w)
			}
		case 8:
			if rnd.IntN(4) == 0 && len(out) > 0 {
				a := Allowance{Tokens: rnd.IntN(2) == 0, Remaining: rnd.IntN(10), Limit: rnd.IntN(20), AtOnce: rnd.IntN(2) == 0}
				a.Reset = time.Duration(rnd.Int64N(int64(20 * time.Second)))
				c.heed(now, out[rnd.IntN(len(out))].seat.number, []Allowance{a})
				collect()
			}
			if rnd.IntN(4) == 0 {
				d := time.Duration(rnd.Int64N(int64(20 * time.Second)))
				c.coolDown(now, d, rnd.Float64())
				if until := now.Add(d); until.After(paused) {
					paused = until
				}
			}
		default:
			tick(time.Duration(rnd.Int64N(int64(4 * time.Second))))
		}
		settle()
	}

	// With time, and with permits coming back, all callers are admitted.
	for i := 0; len(line) > 0; i++ {
		require.Less(t, i, 10_000, "%d callers wait for ever for %s", len(line), c.why)
		for len(out) > 0 {
			end(0, true)
			settle()
		}
		tick(time.Second)
	}
}

// Over a long time a busy caller gets all of the rate.
func TestRateIsUsedInFull(t *testing.T) {
	for rpm, burst := range map[int]int{1: 1, 6: 3, 60: 0, 500: -1, 700: 10} {
		p, err := New(Config{RequestsPerMinute: rpm, Burst: burst, StartInFlight: -1})
		require.NoError(t, err)
		c, now, n := &p.core, epoch, 0
		w, err := c.enter(now, time.Time{}, Demand{}, new(seat))
		for ; err == nil; w, err = c.enter(now, time.Time{}, Demand{}, new(seat)) {
			if w != nil {
				now = c.next
				c.admitDue(now)
			}
			if !now.Before(epoch.Add(10 * time.Minute)) {
				break
			}
			n++
		}
		require.NoError(t, err)
		assert.InDelta(t, 10*rpm, n, 1, "%d per minute, burst %d: started in 10 minutes", rpm, burst)
	}
}
