package benchmarks

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

var full = flag.Bool("full", false, "measure everything, print it, and write it into ../docs")

// The settings that are measured, and the load that shows what they do.
var settings = []struct {
	name string
	load load
}{
	{"overload", load{}},
	{"batch-cost", load{}},
	{"halving", load{}},
	{"slow-degradation", load{}},
	{"abort-storm", load{}},
	{"outage-recovery", load{}},
	{"silent-outage", load{}},
	{"refusing-outage", load{}},
	{"serialised-decode", load{}},
	{"kv-exhausted", load{}},
	{"router-full", load{}},
	{"lost-requests", load{}},
	{"runaway", load{}},
	{"long-context-hang", load{grow: 215}},
	{"stuck-prefill", load{}},
	{"rate-limited", load{}},
	{"overload", load{timeout: time.Minute}},
	{"batch-cost", load{timeout: time.Minute}},
}

func setting(t *testing.T, name string, seed uint64) engine.Config {
	t.Helper()
	cfg, err := engine.Setting(name, seed)
	require.NoError(t, err)
	return cfg
}

// title is a setting with its load, for people.
func title(name string, l load) string {
	if l.timeout > 0 {
		name += fmt.Sprintf(", %.0f s of patience", l.timeout.Seconds())
	}
	return name
}

// seeded is a load of a seed.
func (l load) seeded(seed uint64) load {
	l.seed = seed
	return l
}

// timed is a rule that follows a plan.
type timed struct {
	start  time.Time
	stages []engine.Stage
}

func (r *timed) ended(time.Time, float64, int, bool) {}

func (r *timed) limit() (n int) {
	for _, s := range r.stages {
		if time.Since(r.start) >= s.From {
			n = s.Limit
		}
	}
	return n
}

func planned(stages ...engine.Stage) func() guard {
	return ruled(func() rule { return &timed{time.Now(), stages} })
}

var (
	allLimits = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18}
	mostBest  = []int{3, 4, 6, 7, 8, 9, 10, 11} // one of them is, or nearly, wherever bounds are held
)

// best is the best fixed limit for a seed of a setting, found by trying them
// all. Where what is best changes by a plan it is an oracle that knows it.
func best(t *testing.T, name string, l load, seed uint64, limits []int) (score, string) {
	cfg := setting(t, name, seed)
	var top score
	how := ""
	try := func(title string, make func() guard) {
		if s := play(t, cfg, l.seeded(seed), make); s.useful > top.useful {
			top, how = s, title
		}
	}
	for _, n := range limits {
		try(fmt.Sprint(n), fixedAt(n))
	}
	if name == "batch-cost" {
		for _, n := range []int{9, 10, 11} {
			for _, m := range []int{3, 4, 5} {
				try(fmt.Sprintf("%d, %d, %d", n, m, n), planned(engine.Stage{Limit: n},
					engine.Stage{From: engine.ChangeAt, Limit: m}, engine.Stage{From: 2 * engine.ChangeAt, Limit: n}))
			}
		}
	}
	return top, how
}

// jain is Jain's index of fairness: 1 if all have the same.
func jain[T int | float64](of []T) float64 {
	var sum, squares float64
	for _, v := range of {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(of)) * squares)
}

// TestBounds holds what the numbers of docs/pacing.md promise, a little below
// them, with few seeds.
func TestBounds(t *testing.T) {
	for name, least := range map[string]float64{
		"overload": 0.95, "batch-cost": 0.93, "halving": 0.95, "abort-storm": 0.8, "slow-degradation": 0.85,
		"refusing-outage": 0.85, "outage-recovery": 0.85, "router-full": 0.8,
	} {
		t.Run(name, func(t *testing.T) {
			var got, want int
			for seed := uint64(1); seed <= 2; seed++ {
				top, _ := best(t, name, load{}, seed, mostBest)
				want += top.useful
				got += play(t, setting(t, name, seed), load{}.seeded(seed), newOurs).useful
			}
			assert.GreaterOrEqual(t, float64(got)/float64(want), least, "%d useful answers, the best fixed limit has %d", got, want)
		})
	}
}

// roomy is an engine that has room for everybody, and does not get slower.
func roomy() engine.Config {
	return engine.Config{Slots: 4096, Queue: -1, KVTokens: 1e8, Cost: engine.Cost{Step: 20 * time.Millisecond, PerSequence: -1}}
}

// faulty is 45 agents of whose tries a part comes to nothing, whatever the load.
func faulty(part float64, kinds ...fault) load {
	return load{agents: 45, until: 4 * time.Minute, faults: part, kinds: kinds}
}

// faultyEngines are those on which faults that have nothing to do with the load
// are measured, with the fixed limits that are best there.
var faultyEngines = []struct {
	name   string
	cfg    func(t *testing.T, seed uint64) engine.Config
	limits []int
}{
	{"room for everybody", func(*testing.T, uint64) engine.Config { return roomy() }, []int{45}},
	{"overload", func(t *testing.T, seed uint64) engine.Config { return setting(t, "overload", seed) }, []int{11, 16}},
}

// withFaults is what we do of the best fixed limit with some faults, on engines of
// so many seeds.
func withFaults(t *testing.T, l load, seeds int, limits []int, cfg func(t *testing.T, seed uint64) engine.Config) (of, worst float64) {
	var got, want int
	worst = math.Inf(1)
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		top := 0
		for _, n := range limits {
			top = max(top, play(t, cfg(t, seed), l.seeded(seed), fixedAt(n)).useful)
		}
		s := play(t, cfg(t, seed), l.seeded(seed), newOurs)
		got, want = got+s.useful, want+top
		worst = min(worst, float64(s.useful)/float64(top))
	}
	return float64(got) / float64(want), worst
}

// TestFaults: a third to a half of all tries hangs, breaks or is refused, whatever
// the load. That is no reason to send less, and no reason to send too much.
func TestFaults(t *testing.T) {
	for _, e := range faultyEngines {
		sum, kinds := 0.0, map[string]load{
			"three in ten": faulty(0.3), "four in ten": faulty(0.4), "half": faulty(0.5),
			"four in ten refused": faulty(0.4, busy), "four in ten hang": faulty(0.4, hung, stalled), "four in ten break": faulty(0.4, broken, reset),
		}
		for what, l := range kinds {
			t.Run(e.name+", "+what, func(t *testing.T) {
				of, worst := withFaults(t, l, 5, e.limits, e.cfg)
				assert.GreaterOrEqual(t, of, 0.8, "of the best fixed limit; %.2f with the worst seed", worst)
				sum += of
			})
		}
		assert.GreaterOrEqual(t, sum/float64(len(kinds)), 0.87, "%s: of the best fixed limit, mean of all", e.name)
	}
}

// TestWithoutUs shows that the settings are hard: what comes of them with
// nothing in between, or with retries only.
func TestWithoutUs(t *testing.T) {
	for name, make := range map[string]func() guard{
		"no limit": func() guard { return open{} }, "an SDK's retries": func() guard { return sdk{} },
	} {
		for _, in := range []string{"overload", "abort-storm"} {
			top, _ := best(t, in, load{}, 1, mostBest)
			got := play(t, setting(t, in, 1), load{}.seeded(1), make)
			assert.Less(t, float64(got.useful)/float64(top.useful), 0.2, "%s, %s", in, name)
		}
	}
}

// TestHalving: half of the engine is lost, and soon we do as well as the best
// limit for what is left.
func TestHalving(t *testing.T) {
	const seeds = 3
	var got, want float64
	for seed := uint64(1); seed <= seeds; seed++ {
		cfg := setting(t, "halving", seed)
		from, to := engine.ChangeAt+30*time.Second, engine.ChangeAt+90*time.Second
		most := 0.0
		for n := 3; n <= 9; n++ {
			most = max(most, play(t, cfg, load{}.seeded(seed), fixedAt(n)).goodput(from, to))
		}
		want += most
		got += play(t, cfg, load{}.seeded(seed), newOurs).goodput(from, to)
	}
	assert.GreaterOrEqual(t, got/want, 0.9)
}

// An outage is one minute long in these settings.
const outageEnd = engine.ChangeAt + time.Minute

// TestOutage: nothing much is sent into an outage, and after it all is as
// before within half a minute, without a storm.
func TestOutage(t *testing.T) {
	for _, name := range []string{"outage-recovery", "refusing-outage", "silent-outage"} {
		t.Run(name, func(t *testing.T) {
			const seeds = 5
			rate := 0.0
			for seed := uint64(1); seed <= seeds; seed++ {
				s := play(t, setting(t, name, seed), load{}.seeded(seed), newOurs)
				before := s.goodput(time.Minute, engine.ChangeAt)
				during := s.sentIn(engine.ChangeAt+5*time.Second, outageEnd)
				assert.LessOrEqual(t, float64(during)/64, 1.2, "requests for each of 64 calls that wait")
				first := outageEnd
				for s.goodput(outageEnd, first+time.Second) == 0 && first < engine.SettingTime {
					first += time.Second
				}
				assert.LessOrEqual(t, first-outageEnd, 33*time.Second, "until the first useful answer: trials are 30 s apart at most, whether they hang or not, and one takes up to 3 s")
				from := first + 30*time.Second
				rate += s.goodput(from, from+30*time.Second) / before / seeds
				storm := s.sentIn(outageEnd, from)
				assert.LessOrEqual(t, float64(storm), 1.5*before*(from-outageEnd).Seconds(), "requests sent within the time of recovery")
			}
			assert.GreaterOrEqual(t, rate, 0.85, "of the rate before, mean of all; one of them is some 140 answers, give or take a tenth")
		})
	}
}

// TestFullOutage: the server is gone for good.
func TestFullOutage(t *testing.T) {
	for _, kind := range []engine.Kind{engine.Unavailable, engine.Down, engine.Silent} {
		cfg := setting(t, "overload", 1)
		cfg.Changes = []engine.Change{{Kind: kind, At: engine.ChangeAt}}
		s := play(t, cfg, load{}, newOurs)
		waiting := 64
		assert.LessOrEqual(t, float64(s.sentIn(engine.ChangeAt, engine.SettingTime))/float64(waiting), 1.2, "%s: requests for each call", kind)
	}
}

// TestRateHeaders: an account of two requests a second, less than the engine
// could do. Its headers tell before it refuses.
func TestRateHeaders(t *testing.T) {
	s := play(t, setting(t, "rate-limited", 1), load{}, newOurs)
	without := play(t, setting(t, "rate-limited", 1), load{}, fixedAt(9))
	assert.LessOrEqual(t, float64(s.refused)/float64(s.tries), 0.01, "%d of %d tries refused", s.refused, s.tries)
	assert.Greater(t, without.refused, without.useful, "who does not look is refused more often than not")
	assert.GreaterOrEqual(t, float64(s.useful)/float64(without.useful), 0.98)
}

// TestFair: everybody gets the same, and waits the same.
func TestFair(t *testing.T) {
	for _, l := range []load{{agents: 64}, {agents: 1000, until: time.Hour}} {
		s := play(t, setting(t, "overload", 1), l, newOurs)
		assert.GreaterOrEqual(t, jain(s.half), 0.98, "answers by half time, of %d agents", l.agents)
		assert.GreaterOrEqual(t, jain(s.waits), 0.98, "mean waits of %d agents", l.agents)
	}
}

// TestLightLoad: few callers, and callers of a server that has room, are not
// held back.
func TestLightLoad(t *testing.T) {
	flat := engine.Cost{Step: 20 * time.Millisecond, PerSequence: -1}
	for name, tt := range map[string]struct {
		cfg   engine.Config
		load  load
		least float64
	}{
		"three agents at a busy server":           {setting(t, "overload", 1), load{agents: 3, until: 2 * time.Minute}, 0.99},
		"one agent and a server of one slot":      {engine.Config{Slots: 1}, load{agents: 1, until: 2 * time.Minute, timeout: time.Minute}, 0.99},
		"45 agents and a server of one slot":      {engine.Config{Slots: 1, Queue: -1, Cost: flat}, load{agents: 45, until: 5 * time.Minute, timeout: 5 * time.Minute}, 0.97},
		"45 agents with long answers and room":    {engine.Config{Slots: 4096, Cost: flat, KVTokens: 1e8, Answers: engine.Lengths{Mean: 1000, Spread: 1}}, load{agents: 45, until: 10 * time.Minute, timeout: time.Hour}, 0.95},
		"500 agents and room for thousands":       {engine.Config{Slots: 4096, Cost: flat, KVTokens: 1e8}, load{agents: 500, until: 2 * time.Minute, timeout: time.Minute}, 0.8},
		"conversations that outgrow the memory":   {engine.Config{Slots: 16, KVTokens: 400_000}, load{until: 10 * time.Minute, timeout: 2 * time.Minute, grow: 3000}, 0.95},
		"answers of which some are 20 times long": {engine.Config{Slots: 16, Answers: engine.Lengths{Mean: 200, Spread: 1.5}}, load{until: 10 * time.Minute, timeout: 5 * time.Minute}, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			free := play(t, tt.cfg, tt.load, func() guard { return open{} })
			got := play(t, tt.cfg, tt.load, newOurs)
			assert.GreaterOrEqual(t, float64(got.useful)/float64(free.useful), tt.least, "%d useful answers, %d with no limit", got.useful, free.useful)
		})
	}
}

// TestMeasured prints everything.
func TestMeasured(t *testing.T) {
	if !*full {
		t.Skip("run with -full")
	}
	const seeds = 5
	var out strings.Builder
	say := func(format string, args ...any) {
		fmt.Fprintf(&out, format, args...)
		fmt.Printf(format, args...)
	}
	policies := append([]policy{{"neverhang", newOurs}}, peers...)
	policies = append(policies, candidates...)
	say("Useful answers in six minutes, as shares of those with the best fixed limit for the setting (for batch-cost: of\n")
	say("an oracle that changes it with the phase); means of %d seeds, and the worst. 64 agents, each try given up after 5 s if not said otherwise.\n\n", seeds)
	var plots []panel
	ratios := make([][]float64, len(policies)) // by policy, of all settings and seeds
	table := make([][]string, len(policies))
	worst := make([]float64, len(policies))
	for i := range worst {
		worst[i] = math.Inf(1)
	}
	var heads []string
	for _, st := range settings {
		panel := panel{title: title(st.name, st.load)}
		sums, lows := make([]float64, len(policies)), make([]float64, len(policies))
		how := ""
		for seed := uint64(1); seed <= seeds; seed++ {
			top, by := best(t, st.name, st.load, seed, allLimits)
			if seed == 1 {
				how = by
				panel.add("best fixed limit", top.record)
			}
			for i, p := range policies {
				s := play(t, setting(t, st.name, seed), st.load.seeded(seed), p.make)
				r := float64(s.useful) / float64(top.useful)
				sums[i] += r / seeds
				if seed == 1 || r < lows[i] {
					lows[i] = r
				}
				ratios[i] = append(ratios[i], r)
				if seed == 1 {
					panel.add(p.name, s.record)
				}
			}
		}
		for i := range policies {
			table[i] = append(table[i], fmt.Sprintf("%.2f (%.2f)", sums[i], lows[i]))
			worst[i] = min(worst[i], sums[i])
		}
		heads = append(heads, fmt.Sprintf("%s (%s)", title(st.name, st.load), how))
		plots = append(plots, panel)
	}
	// Settings are rows: there are more words in them than in a policy's number.
	const perTable = 5
	for from := 0; from < len(policies); from += perTable {
		to := min(from+perTable, len(policies))
		say("| setting (best limit) |")
		for _, p := range policies[from:to] {
			say(" %s |", p.name)
		}
		say("\n|---|%s\n", strings.Repeat("---|", to-from))
		for j, h := range heads {
			say("| %s |", h)
			for i := from; i < to; i++ {
				say(" %s |", table[i][j])
			}
			say("\n")
		}
		say("| **mean of all** |")
		for i := from; i < to; i++ {
			sum := 0.0
			for _, r := range ratios[i] {
				sum += r
			}
			say(" **%.2f** |", sum/float64(len(ratios[i])))
		}
		say("\n| **worst of all** |")
		for i := from; i < to; i++ {
			say(" **%.2f** |", worst[i])
		}
		say("\n\n")
	}
	say("%s", incidents(t, seeds))
	require.NoError(t, os.WriteFile("../docs/pacing.svg", []byte(draw(plots)), 0o644))
	require.NoError(t, insert("../docs/pacing.md", out.String()))
}

// incidents tells of what means do not show.
func incidents(t *testing.T, seeds int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| incident, neverhang, worst of %d seeds | |\n|---|---|\n", seeds)
	halved, ofBefore, first, during := math.Inf(1), math.Inf(1), time.Duration(0), 0
	fairWork, fairWait := 1.0, 1.0
	limited, without := 0, 0
	done, sooner, crowd := 1.0, math.Inf(1), math.Inf(1)
	gone := 0.0
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		cfg := setting(t, "halving", seed)
		from, to := engine.ChangeAt+30*time.Second, engine.ChangeAt+90*time.Second
		most := 0.0
		for n := 3; n <= 9; n++ {
			most = max(most, play(t, cfg, load{}.seeded(seed), fixedAt(n)).goodput(from, to))
		}
		halved = min(halved, play(t, cfg, load{}.seeded(seed), newOurs).goodput(from, to)/most)
		for _, name := range []string{"outage-recovery", "refusing-outage", "silent-outage"} {
			s := play(t, setting(t, name, seed), load{}.seeded(seed), newOurs)
			at := outageEnd
			for s.goodput(outageEnd, at+time.Second) == 0 && at < engine.SettingTime {
				at += time.Second
			}
			first = max(first, at-outageEnd)
			ofBefore = min(ofBefore, s.goodput(at+30*time.Second, at+60*time.Second)/s.goodput(time.Minute, engine.ChangeAt))
			during = max(during, s.sentIn(engine.ChangeAt+5*time.Second, outageEnd))
		}
		for _, kind := range []engine.Kind{engine.Unavailable, engine.Down, engine.Silent} {
			cfg := setting(t, "overload", seed)
			cfg.Changes = []engine.Change{{Kind: kind, At: engine.ChangeAt}}
			s := play(t, cfg, load{}.seeded(seed), newOurs)
			gone = max(gone, float64(s.sentIn(engine.ChangeAt, engine.SettingTime))/64)
		}
		limited = max(limited, play(t, setting(t, "rate-limited", seed), load{}.seeded(seed), newOurs).refused)
		without = max(without, play(t, setting(t, "rate-limited", seed), load{}.seeded(seed), fixedAt(9)).refused)
		for _, l := range []load{{}, {agents: 1000, until: time.Hour}} {
			s := play(t, setting(t, "overload", seed), l.seeded(seed), newOurs)
			fairWork, fairWait = min(fairWork, jain(s.half)), min(fairWait, jain(s.waits))
			if l.agents > 0 {
				ten := play(t, setting(t, "overload", seed), l.seeded(seed), fixedAt(10))
				crowd = min(crowd, float64(s.useful)/float64(ten.useful))
			}
		}
		twenty := load{calls: 20, until: time.Hour}.seeded(seed)
		s, ten := play(t, setting(t, "overload", seed), twenty, newOurs), play(t, setting(t, "overload", seed), twenty, fixedAt(10))
		done = min(done, float64(s.useful)/float64(64*20))
		sooner = min(sooner, ten.took.Seconds()/s.took.Seconds())
	}
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&out, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	row("overload, 64 agents of 20 calls: calls that got their answer", "%.3f", done)
	row("overload, 64 agents of 20 calls: time that a limit of 10 takes, as a share of ours", "%.2f", sooner)
	row("overload, 1,000 agents for an hour: useful answers, of those with a limit of 10", "%.2f", crowd)
	row("halving: goodput from 30 s after it, of the best limit for what is left", "%.2f", halved)
	row("outage of a minute: requests sent into it after its first 5 s, by 64 agents", "%d", during)
	row("outage of a minute: seconds until the first useful answer after it", "%.0f", first.Seconds())
	row("outage of a minute: goodput from 30 s after that, of that before", "%.2f", ofBefore)
	row("outage for good (refusing, gone, silent): requests for each call, in four minutes", "%.2f", gone)
	row("an account of two requests a second, told in headers: refusals in six minutes", "%d (a fixed limit: %d)", limited, without)
	for _, e := range faultyEngines {
		for _, part := range []float64{0.3, 0.5} {
			of, worst := withFaults(t, faulty(part), seeds, e.limits, e.cfg)
			row(fmt.Sprintf("%s, of whose tries %.0f %% hang, break or are refused at random: useful answers, of those with the best fixed limit (mean, worst)", e.name, 100*part), "%.2f, %.2f", of, worst)
		}
	}
	row("fairness (Jain's index) of answers by half time, 64 and 1,000 agents", "%.3f", fairWork)
	row("fairness of mean waits", "%.3f", fairWait)
	return out.String()
}

// insert puts text between the marks of a document.
func insert(path, text string) error {
	const from, to = "<!-- measured -->\n", "<!-- /measured -->"
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(doc), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks %q", path, from+to)
	}
	return os.WriteFile(path, []byte(before+from+"\n"+strings.TrimSpace(text)+"\n\n"+to+after), 0o644)
}
