package health_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// What the servers say they have is held against what they must have of ours.
func TestAccount(t *testing.T) {
	engine := func(pages ...readings) []health.Sample {
		return sampled("engine", health.KindSGLang, health.RoleUnified, pages...)
	}
	// has are pages of an engine that makes tokens of so many requests.
	has := func(running ...float64) []readings {
		var out []readings
		for i, n := range running {
			out = append(out, readings{health.MetricRunning: n, health.MetricWaiting: 0, health.MetricKVUsage: 0.2, health.MetricGenerated: float64(1000 + 500*i), health.MetricComputed: 5000})
		}
		return out
	}
	// prefilling adds that it computes prompts meanwhile.
	prefilling := func(pages []readings) []readings {
		for i := range pages {
			pages[i][health.MetricComputed] += float64(50 * i)
		}
		return pages
	}
	// counting are engines that count the requests that they had.
	counting := func(more float64, pages []readings) []readings {
		for i := range pages {
			pages[i][health.MetricRequests] = 100 + more*float64(i)/float64(len(pages)-1)
		}
		return pages
	}
	silent := func(s []health.Sample) []health.Sample {
		last := &s[len(s)-1]
		last.Scheduler, last.AskedAt = health.ReachSilent, last.At
		return s
	}
	asked := func(s []health.Sample) []health.Sample {
		last := &s[len(s)-1]
		last.Scheduler, last.AskedAt = health.ReachAnswered, last.At
		return s
	}
	// unlike are answered calls that are too long to be siblings of those that wait.
	unlike := func(n int) []health.Ended {
		out := answered(n, 8*time.Second)
		for i := range out {
			out[i].PromptBytes = 40_000
		}
		return out
	}
	// before are calls that were under way until others were sent.
	before := func(n int) []health.Ended {
		out := answered(n, 16*time.Second)
		for i := range out {
			out[i].At, out[i].Started = ago(16*time.Second), ago(40*time.Second)
		}
		return out
	}
	// leaving are calls that were given up just now, after long.
	leaving := func(n int) []health.Ended {
		out := failed(n, llmclient.ErrCanceled, 0, time.Second)
		for i := range out {
			out[i].At, out[i].Started = ago(time.Second), ago(40*time.Second)
		}
		return out
	}
	still := same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricGenerated: 1000})
	split := func(prefill, decode []readings) []health.Sample {
		return all(sampled("prefill", health.KindSGLang, health.RolePrefill, prefill...), sampled("decode", health.KindSGLang, health.RoleDecode, decode...))
	}
	tests := map[string]struct {
		view    health.View
		samples []health.Sample
		want    health.State
		sure    health.Confidence
	}{
		"one may be in the prompt that is computed piece by piece": {
			health.View{Calls: waiting(8, 20*time.Second)}, engine(prefilling(has(7, 7, 7))...), health.StateBusy, health.ConfidenceHigh,
		},
		"and two may not": {
			health.View{Calls: waiting(8, 20*time.Second)}, engine(prefilling(has(6, 6, 6))...), health.StateLost, health.ConfidenceMedium,
		},
		"nor one, if no prompt is computed": {
			health.View{Calls: waiting(8, 20*time.Second)}, engine(has(7, 7, 7)...), health.StateLost, health.ConfidenceMedium,
		},
		"it has less than half": {
			health.View{Calls: waiting(8, 20*time.Second)}, engine(has(3, 3, 3)...), health.StateLost, health.ConfidenceHigh,
		},

		// A few that are missed once are on their way.
		"two of three are missed at one moment": {
			health.View{Calls: waiting(3, 20*time.Second)}, engine(has(3, 3, 1)...), health.StateBusy, health.ConfidenceHigh,
		},
		"and at two": {
			health.View{Calls: waiting(3, 20*time.Second)}, engine(has(3, 1, 1)...), health.StateLost, health.ConfidenceHigh,
		},
		"most are missed, and that many": {
			health.View{Calls: waiting(4, 20*time.Second)}, engine(has(4, 4, 1)...), health.StateLost, health.ConfidenceHigh,
		},
		"what was missed before the oldest was sent is another matter": {
			health.View{Calls: waiting(5, 15*time.Second), Recent: before(5)}, engine(has(0, 5, 4)...), health.StateBusy, health.ConfidenceHigh,
		},
		"what has just been given up may have been aborted": {
			health.View{Calls: waiting(2, 20*time.Second), Recent: leaving(4)}, engine(has(2, 2, 2)...), health.StateBusy, health.ConfidenceHigh,
		},
		"what was sent just now may be on its way": {
			health.View{Calls: all(waiting(5, 20*time.Second), waiting(5, 5*time.Second))}, engine(has(5, 5, 5)...), health.StateBusy, health.ConfidenceHigh,
		},

		// Gauges of a scheduler that has stopped are old.
		"a scheduler that does not answer": {
			health.View{Calls: waiting(5, 20*time.Second)}, silent(engine(has(0, 0, 0)...)), health.StateBusy, health.ConfidenceHigh,
		},
		"one that answers": {
			health.View{Calls: waiting(5, 20*time.Second)}, asked(engine(still...)), health.StateLost, health.ConfidenceHigh,
		},
		"one that stopped at rest, or never gets our requests": {
			health.View{Calls: waiting(5, 20*time.Second)}, sampled("engine", health.KindVLLM, health.RoleUnified, still...), health.StateLost, health.ConfidenceLow,
		},

		// More answers than the engines count come from others.
		"five were answered, and the engines count three": {
			health.View{Calls: waiting(5, 20*time.Second), Recent: unlike(5)}, engine(counting(3, has(0, 0, 0))...), health.StateBusy, health.ConfidenceHigh,
		},
		"five were answered, and the engines count four": {
			health.View{Calls: waiting(5, 20*time.Second), Recent: unlike(5)}, engine(counting(4, has(0, 0, 0))...), health.StateLost, health.ConfidenceHigh,
		},
		"four are too few to tell": {
			health.View{Calls: waiting(5, 20*time.Second), Recent: unlike(4)}, engine(counting(0, has(0, 0, 0))...), health.StateLost, health.ConfidenceHigh,
		},
		"a request that passes two sides is one": {
			health.View{Calls: waiting(5, 20*time.Second), Recent: unlike(5)},
			split(counting(3, has(0, 0, 0)), counting(3, has(0, 0, 0))), health.StateBusy, health.ConfidenceHigh,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.view.Now = noon
			got := health.Diagnose(tt.view, tt.samples)
			assert.Equal(t, tt.want, got.State, "%s", got)
			assert.Equal(t, tt.sure, got.Confidence, "%s", got)
		})
	}
}
