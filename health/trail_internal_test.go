package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What the samples of one server show, one after the other.
func TestTrail(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(second float64, r Readings) Sample {
		return Sample{Target: "engine", Kind: KindSGLang, At: start.Add(time.Duration(second * float64(time.Second))), Reach: ReachAnswered, Status: 200, Readings: r}
	}
	gone := func(second float64) Sample {
		s := at(second, nil)
		s.Reach, s.Status = ReachRefused, 0
		return s
	}
	deaf := func(s Sample, asked float64) Sample {
		s.Scheduler, s.AskedAt = ReachSilent, start.Add(time.Duration(asked*float64(time.Second)))
		return s
	}
	has := func(running, generated float64) Readings {
		return Readings{MetricRunning: running, MetricGenerated: generated}
	}
	for name, tt := range map[string]struct {
		samples []Sample
		want    func(t *testing.T, tr *trail)
	}{
		"for how long it has paused": {
			[]Sample{at(0, has(3, 10)), at(10, has(3, 10)), at(20, has(3, 20)), at(30, has(3, 30))},
			func(t *testing.T, tr *trail) { assert.Equal(t, 10*time.Second, tr.stride) },
		},
		"rest is no pause": {
			[]Sample{at(0, has(0, 10)), at(10, has(0, 10)), at(20, has(3, 20)), at(30, has(3, 30))},
			func(t *testing.T, tr *trail) { assert.Zero(t, tr.stride) },
		},
		"what took half a minute was no pause": {
			[]Sample{at(0, has(3, 10)), at(10, has(3, 10)), at(20, has(3, 10)), at(30, has(3, 10)), at(40, has(3, 20))},
			func(t *testing.T, tr *trail) { assert.Zero(t, tr.stride) },
		},
		"two that are nearer than four seconds are not compared": {
			[]Sample{at(0, has(3, 10)), at(4-1e-9, has(3, 20))}, func(t *testing.T, tr *trail) { assert.False(t, tr.compared()) },
		},
		"at four they are": {
			[]Sample{at(0, has(3, 10)), at(3, has(3, 15)), at(4, has(3, 20))},
			func(t *testing.T, tr *trail) { assert.Equal(t, 4*time.Second, tr.span); assert.True(t, tr.moved) },
		},
		"it restarted": {
			[]Sample{at(0, has(3, 10)), at(10, has(0, 4))},
			func(t *testing.T, tr *trail) {
				assert.Equal(t, start.Add(10*time.Second), tr.restart)
				assert.Equal(t, "its generated tokens went back from 10 to 4", tr.evidence)
				assert.True(t, tr.moved, "it has worked since")
				assert.Equal(t, 4.0, tr.delta(MetricGenerated))
				assert.Equal(t, 4.0, tr.grown(MetricGenerated, start))
			},
		},
		"it restarted, and has done nothing since": {
			[]Sample{at(0, has(3, 10)), at(10, has(3, 0))}, func(t *testing.T, tr *trail) { assert.False(t, tr.moved) },
		},
		"two processes answer in turns": {
			[]Sample{at(0, has(3, 90)), at(10, has(3, 10)), at(20, has(3, 95)), at(30, has(3, 15))},
			func(t *testing.T, tr *trail) {
				assert.True(t, tr.mixed)
				assert.True(t, tr.restart.IsZero(), "nothing has restarted")
				assert.Empty(t, tr.evidence)
				assert.False(t, tr.compared())
			},
		},
		"one that crashed twice, and was gone meanwhile": {
			[]Sample{at(0, has(3, 90)), at(10, has(3, 10)), gone(20), at(30, has(3, 5))},
			func(t *testing.T, tr *trail) {
				assert.False(t, tr.mixed)
				assert.Equal(t, start.Add(30*time.Second), tr.restart)
			},
		},
		"one that crashed twice, a minute apart": {
			[]Sample{at(0, has(3, 90)), at(10, has(3, 10)), at(20, has(3, 20)), at(30, has(3, 30)), at(40, has(3, 40)), at(50, has(3, 50)), at(60, has(3, 5))},
			func(t *testing.T, tr *trail) {
				assert.False(t, tr.mixed)
				assert.Equal(t, start.Add(60*time.Second), tr.restart)
			},
		},
		"one question that was not answered is one": {
			[]Sample{deaf(at(0, nil), 0), deaf(at(10, nil), 0), deaf(at(20, nil), 0)},
			func(t *testing.T, tr *trail) { assert.Equal(t, 1, tr.deaf()); assert.Equal(t, start, tr.deafSince()) },
		},
		"and another is another": {
			[]Sample{at(0, nil), deaf(at(10, nil), 10), deaf(at(20, nil), 10), deaf(at(30, nil), 30)},
			func(t *testing.T, tr *trail) {
				assert.Equal(t, 2, tr.deaf())
				assert.Equal(t, start.Add(10*time.Second), tr.deafSince())
			},
		},
		"what was missed since": {
			[]Sample{gone(0), at(10, has(3, 10)), gone(20), gone(30)},
			func(t *testing.T, tr *trail) {
				assert.Equal(t, 2, tr.missed)
				assert.Equal(t, start.Add(20*time.Second), tr.missedSince)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := tt.samples[len(tt.samples)-1].At
			tt.want(t, follow(tt.samples, last))
			assert.NotNil(t, follow(tt.samples, last.Add(staleAfter)).last)
			assert.Nil(t, follow(tt.samples, last.Add(staleAfter+1)).last, "it is stale")
		})
	}
}

// A start time tells of a restart unless counters go on.
func TestStartTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b Readings
		want bool
	}{
		"later":                     {Readings{MetricStartTime: 1.79e9}, Readings{MetricStartTime: 1.79e9 + 2}, true},
		"a second is rounding":      {Readings{MetricStartTime: 1.79e9}, Readings{MetricStartTime: 1.79e9 + 1}, false},
		"not told before":           {Readings{}, Readings{MetricStartTime: 1.79e9}, false},
		"its clock was set":         {Readings{MetricStartTime: 1.79e9, MetricGenerated: 5}, Readings{MetricStartTime: 1.79e9 + 60, MetricGenerated: 5}, false},
		"it had done nothing":       {Readings{MetricStartTime: 1.79e9, MetricGenerated: 0}, Readings{MetricStartTime: 1.79e9 + 60, MetricGenerated: 5}, true},
		"earlier, by a clock again": {Readings{MetricStartTime: 1.79e9}, Readings{MetricStartTime: 1.79e9 - 60}, false},
	} {
		assert.Equal(t, tt.want, restarted(tt.a, tt.b) != "", name)
	}
}

// Several servers that play one part are one, of what was told at one moment.
func TestTogether(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	side := func(name string, late time.Duration, stalled bool) *trail {
		var list []Sample
		for i := range 3 {
			s := Sample{Target: name, Role: RoleDecode, At: start.Add(10*time.Second*time.Duration(i) + late), Reach: ReachAnswered, Readings: Readings{MetricRunning: 2, MetricGenerated: float64(100 * i), MetricKVUsage: 0.4}}
			if stalled {
				s.Scheduler, s.AskedAt = ReachSilent, s.At
			}
			list = append(list, s)
		}
		return follow(list, start.Add(25*time.Second))
	}
	a, b := side("a", 0, false), side("b", 5*time.Second, true)
	sum := together([]*trail{a, b}, start.Add(25*time.Second))
	assert.Equal(t, Readings{MetricRunning: 4, MetricGenerated: 400, MetricKVUsage: 0.4}, sum.now.Readings)
	assert.True(t, sum.now.stalled(), "a part of it does not answer")
	assert.Equal(t, Readings{MetricRunning: 2, MetricGenerated: 200, MetricKVUsage: 0.4}, a.now.Readings, "what each told stays as it is")
	far := side("c", 5*time.Second+1, false)
	assert.Len(t, together([]*trail{a, far}, start.Add(25*time.Second)).all, 2, "but the first of a, all are nearest to one of five seconds before")
	assert.Nil(t, together(nil, start))
	assert.Same(t, a, together([]*trail{a}, start))
}
