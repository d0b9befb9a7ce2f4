package health_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

var update = flag.Bool("update", false, "write the golden pages anew")

// noon is when the verdicts here are made.
var noon = time.Date(2026, 11, 30, 12, 7, 0, 0, time.UTC)

// ago is a moment before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

type readings = health.Readings

// sampled are samples of one target 10 s apart, the last 2 s before noon.
func sampled(name string, kind health.Kind, role health.Role, pages ...readings) []health.Sample {
	var out []health.Sample
	for i, r := range pages {
		at := ago(2*time.Second + 10*time.Second*time.Duration(len(pages)-1-i))
		out = append(out, health.Sample{Target: name, Kind: kind, Role: role, At: at, Took: 4 * time.Millisecond, Reach: health.ReachAnswered, Status: 200, Readings: r})
	}
	return out
}

// apart moves all samples of a target but the last to a time d before the last.
func apart(d time.Duration, samples []health.Sample) []health.Sample {
	for i := range samples {
		if samples[i].At.Before(ago(2 * time.Second)) {
			samples[i].At = samples[i].At.Add(10*time.Second - d)
		}
	}
	return samples
}

// unreached are samples that did not reach the target.
func unreached(name string, reach health.Reach, n int) []health.Sample {
	out := sampled(name, health.KindUnknown, health.RoleUnified, make([]readings, n)...)
	for i := range out {
		out[i].Reach, out[i].Status = reach, 0
	}
	return out
}

// waiting are calls that have waited for their first output.
func waiting(n int, d time.Duration) []llmclient.InFlight {
	var out []llmclient.InFlight
	for i := range n {
		out = append(out, llmclient.InFlight{
			Call: uint64(i), Caller: fmt.Sprintf("agent %02d", i), Started: ago(d + time.Second), Attempt: 1, PromptBytes: 4000,
			Phase: llmclient.PhaseFirstOutput, Since: ago(d),
		})
	}
	return out
}

// inPhase is one call in a phase.
func inPhase(n int, p llmclient.Phase, d time.Duration) []llmclient.InFlight {
	out := waiting(n, d)
	for i := range out {
		out[i].Phase = p
	}
	return out
}

// answered are calls that ended well, one a second, the last some time ago.
func answered(n int, last time.Duration) []health.Ended {
	var out []health.Ended
	for i := range n {
		at := ago(last + time.Duration(n-1-i)*time.Second)
		out = append(out, health.Ended{
			At: at, Started: at.Add(-2 * time.Second), Call: uint64(1000 + i), Caller: fmt.Sprintf("other %02d", i),
			PromptBytes: 4000, FirstOutput: 300 * time.Millisecond, Outputs: 80,
		})
	}
	return out
}

// failed are attempts that failed.
func failed(n int, kind llmclient.Kind, status int, last time.Duration) []health.Ended {
	out := answered(n, last)
	for i := range out {
		out[i].Kind, out[i].Status, out[i].FirstOutput, out[i].Outputs, out[i].Phase = kind, status, 0, 0, llmclient.PhaseFirstOutput
	}
	return out
}

func all[T any](lists ...[]T) []T {
	var out []T
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// busyPages are an engine that makes tokens.
func busyPages(more readings) []readings {
	var out []readings
	for i := range 3 {
		r := readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricKVUsage: 0.4, health.MetricGenerated: float64(1000 + 500*i), health.MetricComputed: 5000, health.MetricRequests: float64(100 + 15*i)}
		for m, v := range more {
			r[m] = v
		}
		out = append(out, r)
	}
	return out
}

// growing are samples whose counters grow.
func growing(n int, r readings) []readings {
	out := make([]readings, n)
	for i := range out {
		out[i] = readings{}
		for m, v := range r {
			if v >= 100 {
				v += 50 * float64(i)
			}
			out[i][m] = v
		}
	}
	return out
}

func same(n int, r readings) []readings {
	out := make([]readings, n)
	for i := range out {
		out[i] = r
	}
	return out
}

// night is the night that the package is for: 45 calls wait, and a decode side
// was restarted alone.
func night() (health.View, []health.Sample) {
	v := health.View{Now: noon, Calls: waiting(45, 4*time.Minute), Recent: answered(60, 4*time.Minute+2*time.Second)}
	pre := same(30, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 21, health.MetricBootstrap: 0, health.MetricComputed: 91_000, health.MetricRequests: 812, health.MetricTransferFailed: 0, health.MetricAborted: 0})
	dec := same(30, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricPrealloc: 17, health.MetricTransferring: 4, health.MetricGenerated: 0, health.MetricTransfers: 0, health.MetricRequests: 0})
	for i := range 5 {
		dec[i] = readings{health.MetricRunning: 6, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricGenerated: 50_000 + 400*float64(i), health.MetricTransfers: 600 + float64(i), health.MetricRequests: 600 + float64(i)}
		pre[i] = readings{health.MetricRunning: 1, health.MetricWaiting: 0, health.MetricInflight: 0, health.MetricBootstrap: 0, health.MetricComputed: 80_000 + 500*float64(i), health.MetricRequests: 700 + float64(i), health.MetricTransferFailed: 0, health.MetricAborted: 0}
	}
	return v, all(
		sampled("prefill", health.KindSGLang, health.RolePrefill, pre...),
		sampled("decode", health.KindSGLang, health.RoleDecode, dec...),
		sampled("router", health.KindGateway, health.RoleRouter, same(30, readings{health.MetricConnections: 45, health.MetricActive: 45})...),
	)
}

// States that no simulated server shows, or not at their bounds.
func TestDiagnose(t *testing.T) {
	engine := func(pages ...readings) []health.Sample {
		return sampled("engine", health.KindSGLang, health.RoleUnified, pages...)
	}
	vllm := func(pages ...readings) []health.Sample {
		return sampled("engine", health.KindVLLM, health.RoleUnified, pages...)
	}
	stalled := func(s []health.Sample) []health.Sample {
		for i := range s {
			s[i].Scheduler, s[i].AskedAt = health.ReachSilent, s[i].At
		}
		return s
	}
	dead := func(s []health.Sample) []health.Sample {
		for i := range s {
			s[i].EngineDead, s[i].Status = true, 503
		}
		return s
	}
	wedged := readings{health.MetricRunning: 8, health.MetricWaiting: 3, health.MetricGenerated: 1000, health.MetricComputed: 5000, health.MetricThroughput: 41.7}
	rest := readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricGenerated: 1000, health.MetricComputed: 5000}
	queue := []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 9, InFlight: 3, WaitingFor: pacer.ReasonInFlight}}}
	stirred := readings{health.MetricRunning: 8, health.MetricWaiting: 3, health.MetricGenerated: 1000, health.MetricComputed: 5000, health.MetricThroughput: 41.8}
	v, nightly := night()
	tests := map[string]struct {
		view    health.View
		samples []health.Sample
		want    health.State
		sure    health.Confidence
	}{
		"the night": {v, nightly, health.StatePartialRestart, health.ConfidenceHigh},

		"two decode sides, of which one was restarted": {v, all(nightly, sampled("decode 2", health.KindSGLang, health.RoleDecode,
			same(30, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricGenerated: 70_000, health.MetricTransfers: 500, health.MetricRequests: 500})...)), health.StatePartialRestart, health.ConfidenceHigh},
		"two decode sides, of which one works": {v, all(nightly, sampled("decode 2", health.KindSGLang, health.RoleDecode,
			growing(30, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricGenerated: 70_000, health.MetricTransfers: 500, health.MetricRequests: 500})...)), health.StatePartialRestart, health.ConfidenceHigh},
		"two decode sides, of which one stands still": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, growing(4, readings{health.MetricRunning: 1, health.MetricWaiting: 0, health.MetricInflight: 0, health.MetricComputed: 1000})...),
				sampled("decode 1", health.KindSGLang, health.RoleDecode, same(4, readings{health.MetricRunning: 6, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
				sampled("decode 2", health.KindSGLang, health.RoleDecode, growing(4, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
			), health.StateWedgedEngine, health.ConfidenceHigh,
		},
		"two decode sides, of which one gets nothing": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, growing(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 1000})...),
				sampled("decode 1", health.KindSGLang, health.RoleDecode, same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 4, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
				sampled("decode 2", health.KindSGLang, health.RoleDecode, growing(3, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
			), health.StateWedgedTransfer, health.ConfidenceHigh,
		},
		"two decode sides, of which one has nothing to do": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, growing(3, readings{health.MetricRunning: 1, health.MetricWaiting: 9, health.MetricInflight: 0, health.MetricComputed: 1000})...),
				sampled("decode 1", health.KindSGLang, health.RoleDecode, same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
				sampled("decode 2", health.KindSGLang, health.RoleDecode, growing(3, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 0, health.MetricTransfers: 400, health.MetricGenerated: 7000})...),
			), health.StateSaturated, health.ConfidenceHigh,
		},
		// A server's clock that is set moves the moment its process says it began.
		"a clock that was set is no restart": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 100, health.MetricStartTime: 1.79e9})...),
				sampled("decode", health.KindSGLang, health.RoleDecode,
					readings{health.MetricRunning: 0, health.MetricTransferring: 4, health.MetricTransfers: 9, health.MetricGenerated: 5000, health.MetricStartTime: 1.79e9},
					readings{health.MetricRunning: 0, health.MetricTransferring: 4, health.MetricTransfers: 9, health.MetricGenerated: 5000, health.MetricStartTime: 1.79e9 + 60},
					readings{health.MetricRunning: 0, health.MetricTransferring: 4, health.MetricTransfers: 9, health.MetricGenerated: 5000, health.MetricStartTime: 1.79e9 + 60}),
			), health.StateWedgedTransfer, health.ConfidenceHigh,
		},
		"memory that is not given back": {
			health.View{Calls: waiting(5, 20*time.Second)},
			engine(same(4, readings{health.MetricRunning: 0, health.MetricWaiting: 5, health.MetricKVUsage: 0.97, health.MetricGenerated: 1000, health.MetricComputed: 5000, health.MetricAborted: 40})...),
			health.StateMemoryFull, health.ConfidenceHigh,
		},
		"metrics that stand still while answers come": {
			health.View{Calls: waiting(3, time.Second), Recent: answered(20, time.Second)}, engine(wedged, wedged, wedged, wedged), health.StateHealthy, health.ConfidenceHigh,
		},
		"and that stood still before any came": {
			health.View{Calls: waiting(3, 40*time.Second), Recent: answered(20, 33*time.Second)}, engine(wedged, wedged, wedged, wedged), health.StateWedgedEngine, health.ConfidenceHigh,
		},
		"metrics of one server of several": {
			health.View{Calls: waiting(6, 14*time.Second), Recent: answered(20, 15*time.Second)}, engine(busyPages(readings{health.MetricRunning: 2, health.MetricRequests: 100})...), health.StateBusy, health.ConfidenceHigh,
		},
		// What gauges say at rest is what they said last, such as before all that was
		// there was aborted.
		"gauges that stand at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second), Recent: failed(12, llmclient.ErrCanceled, 0, 70*time.Second)},
			apart(62*time.Second, vllm(same(2, readings{health.MetricRunning: 106, health.MetricWaiting: 15, health.MetricKVUsage: 0.95, health.MetricGenerated: 1000})...)), health.StateIdle, health.ConfidenceHigh,
		},
		"gauges that stand at rest, and all memory seems to be used": {
			health.View{Calls: waiting(1, time.Second), Recent: failed(12, llmclient.ErrCanceled, 0, 70*time.Second)},
			apart(62*time.Second, engine(same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 15, health.MetricKVUsage: 0.95, health.MetricGenerated: 1000})...)), health.StateIdle, health.ConfidenceHigh,
		},
		"gauges that stand since all was aborted, and our breaker lets nothing through": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 40*time.Second), Recent: failed(4, llmclient.ErrTimeout, 0, 40*time.Second)},
			vllm(same(4, readings{health.MetricRunning: 4, health.MetricWaiting: 0, health.MetricGenerated: 1000})...), health.StateCannotTell, health.ConfidenceLow,
		},
		"a wedge in which calls come and are given up soon": {
			health.View{Calls: waiting(2, 2*time.Second), Recent: failed(30, llmclient.ErrDeadline, 0, 2*time.Second)},
			engine(wedged, wedged, wedged), health.StateWedgedEngine, health.ConfidenceHigh,
		},
		"what seems to be in transfer at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 100})...),
				sampled("decode", health.KindSGLang, health.RoleDecode, same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricTransferring: 4, health.MetricTransfers: 99, health.MetricGenerated: 5000})...),
			)), health.StateIdle, health.ConfidenceHigh,
		},
		"what seems to shake hands at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricBootstrap: 4, health.MetricComputed: 100})...),
				sampled("decode", health.KindSGLang, health.RoleDecode, same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricTransfers: 99, health.MetricGenerated: 5000})...),
			)), health.StateIdle, health.ConfidenceHigh,
		},
		"what seems to be in transfer at rest after a side was restarted, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(2, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 100})...),
				sampled("decode", health.KindSGLang, health.RoleDecode,
					readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricTransferring: 0, health.MetricTransfers: 99, health.MetricGenerated: 5000},
					readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricTransferring: 0, health.MetricTransfers: 0, health.MetricGenerated: 0}),
			)), health.StateIdle, health.ConfidenceHigh,
		},
		"a decode side full of long answers": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 100})...),
				sampled("decode", health.KindSGLang, health.RoleDecode, growing(3, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 4, health.MetricTransferring: 0, health.MetricTransfers: 99, health.MetricGenerated: 5000})...),
			), health.StateSaturated, health.ConfidenceHigh,
		},
		"transfers that do not end while others are computed": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.KindSGLang, health.RolePrefill, same(3, readings{health.MetricRunning: 0, health.MetricWaiting: 0, health.MetricInflight: 4, health.MetricComputed: 100})...),
				sampled("decode", health.KindSGLang, health.RoleDecode, growing(3, readings{health.MetricRunning: 8, health.MetricWaiting: 0, health.MetricPrealloc: 0, health.MetricTransferring: 4, health.MetricTransfers: 99, health.MetricGenerated: 5000})...),
			), health.StateWedgedTransfer, health.ConfidenceHigh,
		},
		"nothing at all": {health.View{}, nil, health.StateIdle, health.ConfidenceHigh},
		"calls were answered, and those that are there wait no longer than answers took": {
			health.View{Calls: waiting(3, 2*time.Second-1), Recent: answered(9, 2*time.Second)}, nil, health.StateHealthy, health.ConfidenceHigh,
		},
		"calls were answered, and those that are there get nowhere for longer than that": {
			health.View{Calls: waiting(3, 2*time.Second), Recent: answered(9, 2*time.Second)}, nil, health.StateCannotTell, health.ConfidenceLow,
		},
		"calls were answered, and those that are there get nowhere while the engine works": {
			health.View{Calls: waiting(8, 2*time.Second), Recent: answered(9, 2*time.Second)}, engine(busyPages(nil)...), health.StateBusy, health.ConfidenceHigh,
		},
		"a view without a server":     {health.View{Calls: waiting(3, time.Minute)}, nil, health.StateCannotTell, health.ConfidenceLow},
		"calls that are being served": {health.View{Recent: answered(10, time.Second)}, nil, health.StateHealthy, health.ConfidenceHigh},
		"an old success":              {health.View{Recent: answered(1, 61*time.Second)}, nil, health.StateIdle, health.ConfidenceHigh},

		"no such name":                  {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.ReachNoName, 2), health.StateUnreachable, health.ConfidenceHigh},
		"TLS":                           {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.ReachBadTLS, 2), health.StateUnreachable, health.ConfidenceHigh},
		"refused":                       {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.ReachRefused, 2), health.StateUnreachable, health.ConfidenceHigh},
		"no connection":                 {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.ReachNoConnect, 2), health.StateUnreachable, health.ConfidenceHigh},
		"once is not enough":            {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.ReachSilent, 1), health.StateCannotTell, health.ConfidenceLow},
		"once, and calls fail":          {health.View{Recent: failed(3, llmclient.ErrNetwork, 0, time.Second)}, unreached("engine", health.ReachRefused, 1), health.StateUnreachable, health.ConfidenceHigh},
		"only its metrics are not":      {health.View{Recent: answered(3, time.Second)}, unreached("engine", health.ReachSilent, 5), health.StateHealthy, health.ConfidenceHigh},
		"calls alone find nobody":       {health.View{Recent: failed(3, llmclient.ErrNetwork, 0, time.Second)}, nil, health.StateUnreachable, health.ConfidenceMedium},
		"two that find nobody are few":  {health.View{Recent: failed(2, llmclient.ErrNetwork, 0, time.Second)}, nil, health.StateCannotTell, health.ConfidenceLow},
		"the client's own probes fail":  {health.View{Calls: waiting(3, 50*time.Second), Endpoints: []llmclient.EndpointStatus{{Name: "e", Dead: true}}}, nil, health.StateUnreachable, health.ConfidenceMedium},
		"samples that are too old":      {health.View{Now: noon.Add(29 * time.Second), Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.StateCannotTell, health.ConfidenceLow},
		"and just not too old":          {health.View{Now: noon.Add(28 * time.Second), Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.StateWedgedEngine, health.ConfidenceHigh},
		"the engine's process is dead":  {health.View{Calls: waiting(3, 20*time.Second)}, dead(vllm(nil, nil)), health.StateFrontEndAlone, health.ConfidenceHigh},
		"a scheduler that is not there": {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(rest, rest)), health.StateFrontEndAlone, health.ConfidenceHigh},
		"asked once, without metrics":   {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(nil)), health.StateCannotTell, health.ConfidenceLow},
		"asked twice":                   {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(nil, nil)), health.StateFrontEndAlone, health.ConfidenceHigh},

		"wedged":                       {health.View{Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.StateWedgedEngine, health.ConfidenceHigh},
		"wedged, its gauges stand too": {health.View{Calls: waiting(3, 20*time.Second)}, engine(stirred, wedged, wedged, wedged), health.StateWedgedEngine, health.ConfidenceHigh},
		"a gauge that moves":           {health.View{Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, stirred), health.StateCannotTell, health.ConfidenceLow},
		"a long prompt on a server that does not count it": {
			health.View{Calls: []llmclient.InFlight{{Phase: llmclient.PhaseFirstOutput, Since: ago(time.Minute), PromptBytes: 400_000}}},
			vllm(same(7, readings{health.MetricRunning: 1, health.MetricGenerated: 10})...), health.StateCannotTell, health.ConfidenceLow,
		},
		"the same while an answer has stopped": {
			health.View{Calls: []llmclient.InFlight{
				{Phase: llmclient.PhaseFirstOutput, Since: ago(time.Minute), PromptBytes: 400_000},
				{Phase: llmclient.PhaseOutput, Since: ago(time.Minute), LastOutput: ago(20 * time.Second), PromptBytes: 100},
			}},
			vllm(same(7, readings{health.MetricRunning: 2, health.MetricGenerated: 10})...), health.StateWedgedEngine, health.ConfidenceHigh,
		},
		"a prefill that advances": {
			health.View{Calls: waiting(1, 6*time.Minute)},
			engine(readings{health.MetricRunning: 1, health.MetricComputed: 10_000, health.MetricGenerated: 5}, readings{health.MetricRunning: 1, health.MetricComputed: 14_000, health.MetricGenerated: 5}),
			health.StatePrefillBound, health.ConfidenceHigh,
		},
		"the server has less than we sent it": {
			health.View{Calls: waiting(5, 20*time.Second)},
			engine(busyPages(readings{health.MetricRunning: 4})...), health.StateLost, health.ConfidenceMedium,
		},
		"the server has as much": {
			health.View{Calls: waiting(8, 20*time.Second)},
			engine(busyPages(nil)...), health.StateBusy, health.ConfidenceHigh,
		},

		"our breaker alone": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 20*time.Second), Endpoints: []llmclient.EndpointStatus{{Breaker: breaker.Stats{State: breaker.Open, Since: ago(time.Minute), Retry: ago(-time.Minute)}}}},
			engine(rest, rest), health.StateOwnBreaker, health.ConfidenceHigh,
		},
		"our breaker, for a fault that nothing has ended": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 20*time.Second), Fault: &health.Verdict{State: health.StateWedgedEngine, At: ago(30 * time.Second)}},
			nil, health.StateWedgedEngine, health.ConfidenceLow,
		},
		"our pacer": {
			health.View{Calls: inPhase(4, llmclient.PhaseQueue, 8*time.Second), Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 4, WaitingFor: pacer.ReasonRate}}}},
			engine(rest, rest), health.StateOwnQueue, health.ConfidenceHigh,
		},
		"our pacer, and the engine works on the few calls that it gets": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, time.Second)), Recent: answered(9, time.Second), Endpoints: queue},
			engine(busyPages(readings{health.MetricRunning: 3})...), health.StateOwnQueue, health.ConfidenceHigh,
		},
		"our pacer holds calls back, and the engine computes nothing of the few that it has": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 7*time.Second)), Recent: answered(9, 10*time.Second), Endpoints: queue},
			engine(readings{health.MetricRunning: 3, health.MetricGenerated: 1000}, readings{health.MetricRunning: 3, health.MetricGenerated: 1000}), health.StateCannotTell, health.ConfidenceLow,
		},
		"our pacer holds calls back, and those that it let through get nowhere": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 2*time.Second)), Recent: answered(9, 2*time.Second), Endpoints: queue},
			nil, health.StateCannotTell, health.ConfidenceLow,
		},
		"our pacer holds calls back, and those that it let through get somewhere": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 2*time.Second)), Recent: answered(9, 2*time.Second-1), Endpoints: queue},
			nil, health.StateOwnQueue, health.ConfidenceHigh,
		},
		"our pacer, not for long": {
			health.View{Calls: inPhase(4, llmclient.PhaseQueue, 8*time.Second-1), Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 4, WaitingFor: pacer.ReasonRate}}}},
			engine(rest, rest), health.StateIdle, health.ConfidenceHigh,
		},
		"a tool": {
			health.View{Local: []health.Activity{{Caller: "a", What: "tool read", Since: ago(2 * time.Minute)}}},
			engine(rest, rest), health.StateStuckTool, health.ConfidenceHigh,
		},
		"a tool that is at work": {
			health.View{Local: []health.Activity{{Caller: "a", What: "tool read", Since: ago(2*time.Minute - 1)}}},
			engine(rest, rest), health.StateIdle, health.ConfidenceHigh,
		},
		"one caller of many": {
			health.View{Calls: waiting(1, 30*time.Second), Recent: answered(25, time.Second)},
			engine(busyPages(nil)...), health.StateOneCaller, health.ConfidenceMedium,
		},
		"one caller, not for long": {
			health.View{Calls: waiting(1, 30*time.Second-1), Recent: answered(25, time.Second)},
			engine(busyPages(nil)...), health.StateBusy, health.ConfidenceHigh,
		},
		"recovered": {
			health.View{Recent: answered(10, time.Second), Fault: &health.Verdict{State: health.StateWedgedEngine, At: ago(6 * time.Second)}},
			nil, health.StateRecovered, health.ConfidenceHigh,
		},
		"recovered: two are too few": {
			health.View{Recent: answered(10, time.Second), Fault: &health.Verdict{State: health.StateWedgedEngine, At: ago(5 * time.Second)}},
			nil, health.StateHealthy, health.ConfidenceHigh,
		},
		"idle after a fault": {
			health.View{Fault: &health.Verdict{State: health.StateWedgedEngine, At: ago(20 * time.Minute)}},
			nil, health.StateUnproven, health.ConfidenceHigh,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.view.Now.IsZero() {
				tt.view.Now = noon
			}
			got := health.Diagnose(tt.view, tt.samples)
			assert.Equal(t, tt.want, got.State, "%s", got)
			assert.Equal(t, tt.sure, got.Confidence, "%s", got)
			assert.Equal(t, got, health.Diagnose(tt.view, tt.samples), "it is a pure function")
			assert.NotEmpty(t, got.Evidence)
			for _, f := range got.Evidence {
				assert.NotEmpty(t, f.Text)
			}
			if got.State == health.StateCannotTell {
				assert.NotEmpty(t, got.WouldTell, "it says what would tell")
			}
		})
	}
}

// A verdict is one page, read in review like code.
func TestPage(t *testing.T) {
	v, samples := night()
	saturated := health.View{
		Now: noon, Calls: all(waiting(3, 6*time.Second), inPhase(8, llmclient.PhaseOutput, 3*time.Second)), Recent: answered(20, time.Second),
		Endpoints: []llmclient.EndpointStatus{{Name: "http://localhost:30000/v1", Pacer: pacer.Stats{InFlight: 11}}},
	}
	dark := health.View{Now: noon, Calls: waiting(45, 4*time.Minute), Recent: answered(3, 4*time.Minute+time.Second)}
	pages := map[string]health.Verdict{
		"night":     health.Diagnose(v, samples),
		"saturated": health.Diagnose(saturated, sampled("engine", health.KindSGLang, health.RoleUnified, busyPages(readings{health.MetricWaiting: 3})...)),
		"dark":      health.Diagnose(dark, sampled("engine", health.KindSGLang, health.RoleUnified, nil, nil)),
	}
	for name, v := range pages {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "page-"+name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(v.String()), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), v.String())
		})
	}
}

func TestUniformity(t *testing.T) {
	recent := answered(5, 90*time.Second)
	tests := map[string]struct {
		calls    []llmclient.InFlight
		recent   []health.Ended
		systemic bool
		since    time.Time
	}{
		"all in one phase since long":         {waiting(10, time.Minute), nil, true, ago(time.Minute)},
		"since the last that got anywhere":    {waiting(10, 2*time.Minute), recent, true, ago(90 * time.Second)},
		"nine of ten":                         {all(waiting(9, time.Minute), inPhase(1, llmclient.PhaseBackoff, time.Minute)), nil, true, ago(time.Minute)},
		"eight of ten":                        {all(waiting(8, time.Minute), inPhase(2, llmclient.PhaseBackoff, time.Minute)), nil, false, ago(time.Minute)},
		"one alone":                           {waiting(1, time.Hour), nil, false, ago(time.Hour)},
		"not for long":                        {waiting(10, 8*time.Second-1), nil, false, ago(8*time.Second - 1)},
		"long enough":                         {waiting(10, 8*time.Second), nil, true, ago(8 * time.Second)},
		"one of them just had output":         {all(waiting(9, time.Minute), []llmclient.InFlight{{Phase: llmclient.PhaseOutput, Since: ago(time.Minute), LastOutput: ago(time.Second)}}), nil, false, ago(time.Second)},
		"none":                                {nil, nil, false, time.Time{}},
		"different phases mean local trouble": {all(waiting(5, time.Minute), inPhase(5, llmclient.PhaseOutput, time.Minute)), nil, false, ago(time.Minute)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u := health.Diagnose(health.View{Now: noon, Calls: tt.calls, Recent: tt.recent}, nil).Uniform
			assert.Equal(t, tt.systemic, u.Systemic)
			assert.Equal(t, tt.since, u.Since)
			assert.Equal(t, len(tt.calls), u.Of)
		})
	}
}

// That the server has room is said only where its metrics show it.
func TestOurQueueSaysWhetherTheServerHasRoom(t *testing.T) {
	view := health.View{
		Now: noon, Calls: inPhase(9, llmclient.PhaseQueue, 12*time.Second),
		Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 9, WaitingFor: pacer.ReasonInFlight}}},
	}
	engine := func(pages ...readings) []health.Sample {
		return sampled("engine", health.KindSGLang, health.RoleUnified, pages...)
	}
	const room = "the server has room: raise the pacer's limits"
	for name, c := range map[string]struct {
		samples []health.Sample
		want    string
	}{
		"it works, and nothing waits in it": {engine(busyPages(nil)...), room},
		"it is at rest":                     {engine(readings{health.MetricRunning: 0, health.MetricGenerated: 5}, readings{health.MetricRunning: 0, health.MetricGenerated: 5}), room},
		"its memory is full":                {engine(busyPages(readings{health.MetricKVUsage: 0.9})...), "raise the pacer's limits if the server has room: its metrics would show whether it has"},
		"it tells nothing":                  {nil, "raise the pacer's limits if the server has room: its metrics would show whether it has"},
	} {
		got := health.Diagnose(view, c.samples)
		assert.Equal(t, health.StateOwnQueue, got.State, "%s: %s", name, got)
		assert.Equal(t, []string{c.want}, got.Do, name)
	}
}

// Whatever the facts are, there is a verdict and a page.
func TestDiagnoseTakesAnything(t *testing.T) {
	metrics := []health.Metric{
		health.MetricRunning, health.MetricWaiting, health.MetricPutOff, health.MetricKVUsage, health.MetricThroughput, health.MetricBootstrap, health.MetricInflight, health.MetricPrealloc,
		health.MetricTransferring, health.MetricConnections, health.MetricActive, health.MetricStartTime, health.MetricRequests, health.MetricFinished, health.MetricAborted,
		health.MetricPreempted, health.MetricPromptTokens, health.MetricComputed, health.MetricGenerated, health.MetricDecoded, health.MetricFirstTokens, health.MetricTransfers, health.MetricTransferFailed,
	}
	roles := []health.Role{"", health.RoleUnified, health.RolePrefill, health.RoleDecode, health.RoleRouter}
	reaches := []health.Reach{health.ReachAnswered, health.ReachAnswered, health.ReachAnswered, health.ReachRefused, health.ReachSilent, health.ReachNoName, ""}
	kinds := []health.Kind{"", health.KindSGLang, health.KindVLLM, health.KindGateway}
	said := make(map[health.State]bool)
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		when := func() time.Time { return ago(time.Duration(rnd.Int64N(int64(3*time.Minute))) - 5*time.Second) }
		v := health.View{Now: noon}
		for i := range rnd.IntN(12) {
			v.Calls = append(v.Calls, llmclient.InFlight{
				Call: uint64(i), Caller: fmt.Sprint(rnd.IntN(4)), Phase: llmclient.Phase(rnd.IntN(10)), Since: when(), LastOutput: when(),
				Outputs: rnd.Int64N(3000), Bytes: rnd.Int64N(2), PromptBytes: rnd.IntN(100_000),
			})
		}
		for range rnd.IntN(40) {
			v.Recent = append(v.Recent, health.Ended{
				At: when(), Started: when(), Caller: fmt.Sprint(rnd.IntN(4)), Kind: llmclient.Kind(rnd.IntN(22)), Phase: llmclient.Phase(rnd.IntN(9)),
				Status: []int{0, 200, 429, 503}[rnd.IntN(4)], PromptBytes: rnd.IntN(100_000), FirstOutput: time.Duration(rnd.IntN(3)) * time.Second, Outputs: rnd.Int64N(200),
			})
		}
		slices.SortFunc(v.Recent, func(a, b health.Ended) int { return a.At.Compare(b.At) })
		if rnd.IntN(3) == 0 {
			v.Fault = &health.Verdict{State: health.StateWedgedEngine, At: when()}
		}
		var samples []health.Sample
		for target := range rnd.IntN(5) {
			role, kind := roles[rnd.IntN(len(roles))], kinds[rnd.IntN(len(kinds))]
			for range rnd.IntN(6) {
				s := health.Sample{Target: fmt.Sprint(target), Role: role, Kind: kind, At: when(), Reach: reaches[rnd.IntN(len(reaches))], EngineDead: rnd.IntN(20) == 0}
				if rnd.IntN(4) > 0 {
					s.Readings = readings{}
					for range rnd.IntN(20) {
						s.Readings[metrics[rnd.IntN(len(metrics))]] = float64(rnd.IntN(4) * rnd.IntN(500))
					}
				}
				if rnd.IntN(4) == 0 {
					s.Scheduler, s.AskedAt = reaches[rnd.IntN(len(reaches))], s.At
				}
				samples = append(samples, s)
			}
		}
		got := health.Diagnose(v, samples)
		said[got.State] = true
		if got.State == "" || got.Confidence == 0 || len(got.Evidence) == 0 || got.String() == "" || got.Line() == "" {
			t.Fatalf("seed %d: %+v", seed, got)
		}
	}
	assert.Greater(t, len(said), 12, "the facts were of all kinds: %v", said)
}

func BenchmarkDiagnose(b *testing.B) {
	v, samples := night()
	b.ReportAllocs()
	for b.Loop() {
		if health.Diagnose(v, samples).State != health.StatePartialRestart {
			b.Fatal("wrong")
		}
	}
}

// Two clients use one service, and the requests of one of them do not get there.
func TestOneOfTwoClientsSuffers(t *testing.T) {
	calls, recent := waiting(4, 20*time.Second), answered(25, time.Second)
	for i := range calls {
		calls[i].Endpoint = "http://proxy:3128/v1"
	}
	for i := range recent {
		recent[i].Endpoint = "http://engine:30000/v1"
	}
	v := health.Diagnose(health.View{Now: noon, Calls: calls, Recent: recent},
		sampled("engine", health.KindSGLang, health.RoleUnified, busyPages(readings{health.MetricRunning: 0})...))
	assert.Equal(t, health.StateLost, v.State, "%s", v)
	assert.Contains(t, v.String(), "all that wait were sent by way of http://proxy:3128/v1; 18 calls that went another way were answered since")
	// Both ways the same: it is not the way.
	recent[24].Endpoint = "http://proxy:3128/v1"
	v = health.Diagnose(health.View{Now: noon, Calls: calls, Recent: recent},
		sampled("engine", health.KindSGLang, health.RoleUnified, busyPages(readings{health.MetricRunning: 0})...))
	assert.NotContains(t, v.String(), "by way of")
}
