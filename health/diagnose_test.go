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
		out = append(out, health.Sample{Target: name, Kind: kind, Role: role, At: at, Took: 4 * time.Millisecond, Reach: health.Reached, Status: 200, Readings: r})
	}
	return out
}

// apart are samples of which all but the last of each target were taken so much
// earlier than the last.
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
	out := sampled(name, health.Unknown, health.RoleUnified, make([]readings, n)...)
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
		r := readings{health.Running: 8, health.Waiting: 0, health.KVUsage: 0.4, health.Generated: float64(1000 + 500*i), health.Computed: 5000, health.Requests: float64(100 + 15*i)}
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
	pre := same(30, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 21, health.Bootstrap: 0, health.Computed: 91_000, health.Requests: 812, health.TransferFailed: 0, health.Aborted: 0})
	dec := same(30, readings{health.Running: 0, health.Waiting: 0, health.Prealloc: 17, health.Transferring: 4, health.Generated: 0, health.Transfers: 0, health.Requests: 0})
	for i := range 5 {
		dec[i] = readings{health.Running: 6, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Generated: 50_000 + 400*float64(i), health.Transfers: 600 + float64(i), health.Requests: 600 + float64(i)}
		pre[i] = readings{health.Running: 1, health.Waiting: 0, health.Inflight: 0, health.Bootstrap: 0, health.Computed: 80_000 + 500*float64(i), health.Requests: 700 + float64(i), health.TransferFailed: 0, health.Aborted: 0}
	}
	return v, all(
		sampled("prefill", health.SGLang, health.RolePrefill, pre...),
		sampled("decode", health.SGLang, health.RoleDecode, dec...),
		sampled("router", health.Gateway, health.RoleRouter, same(30, readings{health.Connections: 45, health.Active: 45})...),
	)
}

// States that no simulated server shows, or not at their bounds.
func TestDiagnose(t *testing.T) {
	engine := func(pages ...readings) []health.Sample {
		return sampled("engine", health.SGLang, health.RoleUnified, pages...)
	}
	vllm := func(pages ...readings) []health.Sample {
		return sampled("engine", health.VLLM, health.RoleUnified, pages...)
	}
	stalled := func(s []health.Sample) []health.Sample {
		for i := range s {
			s[i].Scheduler, s[i].AskedAt = health.Silent, s[i].At
		}
		return s
	}
	dead := func(s []health.Sample) []health.Sample {
		for i := range s {
			s[i].EngineDead, s[i].Status = true, 503
		}
		return s
	}
	wedged := readings{health.Running: 8, health.Waiting: 3, health.Generated: 1000, health.Computed: 5000, health.Throughput: 41.7}
	rest := readings{health.Running: 0, health.Waiting: 0, health.Generated: 1000, health.Computed: 5000}
	queue := []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 9, InFlight: 3, WaitingFor: pacer.InFlight}}}
	stirred := readings{health.Running: 8, health.Waiting: 3, health.Generated: 1000, health.Computed: 5000, health.Throughput: 41.8}
	v, nightly := night()
	tests := map[string]struct {
		view    health.View
		samples []health.Sample
		want    health.State
		sure    health.Confidence
	}{
		"the night": {v, nightly, health.PartialRestart, health.High},

		"two decode sides, of which one was restarted": {v, all(nightly, sampled("decode 2", health.SGLang, health.RoleDecode,
			same(30, readings{health.Running: 0, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Generated: 70_000, health.Transfers: 500, health.Requests: 500})...)), health.PartialRestart, health.High},
		"two decode sides, of which one works": {v, all(nightly, sampled("decode 2", health.SGLang, health.RoleDecode,
			growing(30, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Generated: 70_000, health.Transfers: 500, health.Requests: 500})...)), health.PartialRestart, health.High},
		"two decode sides, of which one stands still": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, growing(4, readings{health.Running: 1, health.Waiting: 0, health.Inflight: 0, health.Computed: 1000})...),
				sampled("decode 1", health.SGLang, health.RoleDecode, same(4, readings{health.Running: 6, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Transfers: 400, health.Generated: 7000})...),
				sampled("decode 2", health.SGLang, health.RoleDecode, growing(4, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Transfers: 400, health.Generated: 7000})...),
			), health.WedgedEngine, health.High,
		},
		"two decode sides, of which one gets nothing": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, growing(3, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 1000})...),
				sampled("decode 1", health.SGLang, health.RoleDecode, same(3, readings{health.Running: 0, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 4, health.Transfers: 400, health.Generated: 7000})...),
				sampled("decode 2", health.SGLang, health.RoleDecode, growing(3, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Transfers: 400, health.Generated: 7000})...),
			), health.WedgedTransfer, health.High,
		},
		"two decode sides, of which one has nothing to do": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, growing(3, readings{health.Running: 1, health.Waiting: 9, health.Inflight: 0, health.Computed: 1000})...),
				sampled("decode 1", health.SGLang, health.RoleDecode, same(3, readings{health.Running: 0, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Transfers: 400, health.Generated: 7000})...),
				sampled("decode 2", health.SGLang, health.RoleDecode, growing(3, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 0, health.Transfers: 400, health.Generated: 7000})...),
			), health.Saturated, health.High,
		},
		// A server's clock that is set moves the moment its process says it began.
		"a clock that was set is no restart": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(3, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 100, health.StartTime: 1.79e9})...),
				sampled("decode", health.SGLang, health.RoleDecode,
					readings{health.Running: 0, health.Transferring: 4, health.Transfers: 9, health.Generated: 5000, health.StartTime: 1.79e9},
					readings{health.Running: 0, health.Transferring: 4, health.Transfers: 9, health.Generated: 5000, health.StartTime: 1.79e9 + 60},
					readings{health.Running: 0, health.Transferring: 4, health.Transfers: 9, health.Generated: 5000, health.StartTime: 1.79e9 + 60}),
			), health.WedgedTransfer, health.High,
		},
		"memory that is not given back": {
			health.View{Calls: waiting(5, 20*time.Second)},
			engine(same(4, readings{health.Running: 0, health.Waiting: 5, health.KVUsage: 0.97, health.Generated: 1000, health.Computed: 5000, health.Aborted: 40})...),
			health.MemoryFull, health.High,
		},
		"metrics that stand still while answers come": {
			health.View{Calls: waiting(3, time.Second), Recent: answered(20, time.Second)}, engine(wedged, wedged, wedged, wedged), health.Healthy, health.High,
		},
		"and that stood still before any came": {
			health.View{Calls: waiting(3, 40*time.Second), Recent: answered(20, 33*time.Second)}, engine(wedged, wedged, wedged, wedged), health.WedgedEngine, health.High,
		},
		"metrics of one server of several": {
			health.View{Calls: waiting(6, 14*time.Second), Recent: answered(20, 15*time.Second)}, engine(busyPages(readings{health.Running: 2, health.Requests: 100})...), health.Busy, health.High,
		},
		// What gauges say at rest is what they said last, such as before all that was
		// there was aborted.
		"gauges that stand at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second), Recent: failed(12, llmclient.ErrCanceled, 0, 70*time.Second)},
			apart(62*time.Second, vllm(same(2, readings{health.Running: 106, health.Waiting: 15, health.KVUsage: 0.95, health.Generated: 1000})...)), health.Idle, health.High,
		},
		"gauges that stand at rest, and all memory seems to be used": {
			health.View{Calls: waiting(1, time.Second), Recent: failed(12, llmclient.ErrCanceled, 0, 70*time.Second)},
			apart(62*time.Second, engine(same(2, readings{health.Running: 0, health.Waiting: 15, health.KVUsage: 0.95, health.Generated: 1000})...)), health.Idle, health.High,
		},
		"gauges that stand since all was aborted, and our breaker lets nothing through": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 40*time.Second), Recent: failed(4, llmclient.ErrTimeout, 0, 40*time.Second)},
			vllm(same(4, readings{health.Running: 4, health.Waiting: 0, health.Generated: 1000})...), health.CannotTell, health.Low,
		},
		"a wedge in which calls come and are given up soon": {
			health.View{Calls: waiting(2, 2*time.Second), Recent: failed(30, llmclient.ErrDeadline, 0, 2*time.Second)},
			engine(wedged, wedged, wedged), health.WedgedEngine, health.High,
		},
		"what seems to be in transfer at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(2, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 100})...),
				sampled("decode", health.SGLang, health.RoleDecode, same(2, readings{health.Running: 0, health.Waiting: 0, health.Transferring: 4, health.Transfers: 99, health.Generated: 5000})...),
			)), health.Idle, health.High,
		},
		"what seems to shake hands at rest, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(2, readings{health.Running: 0, health.Waiting: 0, health.Bootstrap: 4, health.Computed: 100})...),
				sampled("decode", health.SGLang, health.RoleDecode, same(2, readings{health.Running: 0, health.Waiting: 0, health.Transfers: 99, health.Generated: 5000})...),
			)), health.Idle, health.High,
		},
		"what seems to be in transfer at rest after a side was restarted, and a call has just come": {
			health.View{Calls: waiting(1, time.Second)}, apart(62*time.Second, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(2, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 100})...),
				sampled("decode", health.SGLang, health.RoleDecode,
					readings{health.Running: 0, health.Waiting: 0, health.Transferring: 0, health.Transfers: 99, health.Generated: 5000},
					readings{health.Running: 0, health.Waiting: 0, health.Transferring: 0, health.Transfers: 0, health.Generated: 0}),
			)), health.Idle, health.High,
		},
		"a decode side full of long answers": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(3, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 100})...),
				sampled("decode", health.SGLang, health.RoleDecode, growing(3, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 4, health.Transferring: 0, health.Transfers: 99, health.Generated: 5000})...),
			), health.Saturated, health.High,
		},
		"transfers that do not end while others are computed": {
			health.View{Calls: waiting(12, 20*time.Second)}, all(
				sampled("prefill", health.SGLang, health.RolePrefill, same(3, readings{health.Running: 0, health.Waiting: 0, health.Inflight: 4, health.Computed: 100})...),
				sampled("decode", health.SGLang, health.RoleDecode, growing(3, readings{health.Running: 8, health.Waiting: 0, health.Prealloc: 0, health.Transferring: 4, health.Transfers: 99, health.Generated: 5000})...),
			), health.WedgedTransfer, health.High,
		},
		"nothing at all": {health.View{}, nil, health.Idle, health.High},
		"calls were answered, and those that are there wait no longer than answers took": {
			health.View{Calls: waiting(3, 2*time.Second-1), Recent: answered(9, 2*time.Second)}, nil, health.Healthy, health.High,
		},
		"calls were answered, and those that are there get nowhere for longer than that": {
			health.View{Calls: waiting(3, 2*time.Second), Recent: answered(9, 2*time.Second)}, nil, health.CannotTell, health.Low,
		},
		"calls were answered, and those that are there get nowhere while the engine works": {
			health.View{Calls: waiting(8, 2*time.Second), Recent: answered(9, 2*time.Second)}, engine(busyPages(nil)...), health.Busy, health.High,
		},
		"a view without a server":     {health.View{Calls: waiting(3, time.Minute)}, nil, health.CannotTell, health.Low},
		"calls that are being served": {health.View{Recent: answered(10, time.Second)}, nil, health.Healthy, health.High},
		"an old success":              {health.View{Recent: answered(1, 61*time.Second)}, nil, health.Idle, health.High},

		"no such name":                  {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.NoName, 2), health.Unreachable, health.High},
		"TLS":                           {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.BadTLS, 2), health.Unreachable, health.High},
		"refused":                       {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.Refused, 2), health.Unreachable, health.High},
		"no connection":                 {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.NoConnect, 2), health.Unreachable, health.High},
		"once is not enough":            {health.View{Calls: waiting(3, 20*time.Second)}, unreached("engine", health.Silent, 1), health.CannotTell, health.Low},
		"once, and calls fail":          {health.View{Recent: failed(3, llmclient.ErrNetwork, 0, time.Second)}, unreached("engine", health.Refused, 1), health.Unreachable, health.High},
		"only its metrics are not":      {health.View{Recent: answered(3, time.Second)}, unreached("engine", health.Silent, 5), health.Healthy, health.High},
		"calls alone find nobody":       {health.View{Recent: failed(3, llmclient.ErrNetwork, 0, time.Second)}, nil, health.Unreachable, health.Medium},
		"two that find nobody are few":  {health.View{Recent: failed(2, llmclient.ErrNetwork, 0, time.Second)}, nil, health.CannotTell, health.Low},
		"the client's own probes fail":  {health.View{Calls: waiting(3, 50*time.Second), Endpoints: []llmclient.EndpointStatus{{Name: "e", Dead: true}}}, nil, health.Unreachable, health.Medium},
		"samples that are too old":      {health.View{Now: noon.Add(29 * time.Second), Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.CannotTell, health.Low},
		"and just not too old":          {health.View{Now: noon.Add(28 * time.Second), Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.WedgedEngine, health.High},
		"the engine's process is dead":  {health.View{Calls: waiting(3, 20*time.Second)}, dead(vllm(nil, nil)), health.FrontEndAlone, health.High},
		"a scheduler that is not there": {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(rest, rest)), health.FrontEndAlone, health.High},
		"asked once, without metrics":   {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(nil)), health.CannotTell, health.Low},
		"asked twice":                   {health.View{Calls: waiting(3, 20*time.Second)}, stalled(engine(nil, nil)), health.FrontEndAlone, health.High},

		"wedged":                       {health.View{Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, wedged), health.WedgedEngine, health.High},
		"wedged, its gauges stand too": {health.View{Calls: waiting(3, 20*time.Second)}, engine(stirred, wedged, wedged, wedged), health.WedgedEngine, health.High},
		"a gauge that moves":           {health.View{Calls: waiting(3, 20*time.Second)}, engine(wedged, wedged, stirred), health.CannotTell, health.Low},
		"a long prompt on a server that does not count it": {
			health.View{Calls: []llmclient.InFlight{{Phase: llmclient.PhaseFirstOutput, Since: ago(time.Minute), PromptBytes: 400_000}}},
			vllm(same(7, readings{health.Running: 1, health.Generated: 10})...), health.CannotTell, health.Low,
		},
		"the same while an answer has stopped": {
			health.View{Calls: []llmclient.InFlight{
				{Phase: llmclient.PhaseFirstOutput, Since: ago(time.Minute), PromptBytes: 400_000},
				{Phase: llmclient.PhaseOutput, Since: ago(time.Minute), LastOutput: ago(20 * time.Second), PromptBytes: 100},
			}},
			vllm(same(7, readings{health.Running: 2, health.Generated: 10})...), health.WedgedEngine, health.High,
		},
		"a prefill that advances": {
			health.View{Calls: waiting(1, 6*time.Minute)},
			engine(readings{health.Running: 1, health.Computed: 10_000, health.Generated: 5}, readings{health.Running: 1, health.Computed: 14_000, health.Generated: 5}),
			health.PrefillBound, health.High,
		},
		"the server has less than we sent it": {
			health.View{Calls: waiting(5, 20*time.Second)},
			engine(busyPages(readings{health.Running: 4})...), health.Lost, health.Medium,
		},
		"the server has as much": {
			health.View{Calls: waiting(8, 20*time.Second)},
			engine(busyPages(nil)...), health.Busy, health.High,
		},

		"our breaker alone": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 20*time.Second), Endpoints: []llmclient.EndpointStatus{{Breaker: breaker.Stats{State: breaker.Open, Since: ago(time.Minute), Retry: ago(-time.Minute)}}}},
			engine(rest, rest), health.OwnBreaker, health.High,
		},
		"our breaker, for a fault that nothing has ended": {
			health.View{Calls: inPhase(4, llmclient.PhaseBreaker, 20*time.Second), Fault: &health.Verdict{State: health.WedgedEngine, At: ago(30 * time.Second)}},
			nil, health.WedgedEngine, health.Low,
		},
		"our pacer": {
			health.View{Calls: inPhase(4, llmclient.PhaseQueue, 8*time.Second), Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 4, WaitingFor: pacer.Rate}}}},
			engine(rest, rest), health.OwnQueue, health.High,
		},
		"our pacer, and the engine works on the few calls that it gets": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, time.Second)), Recent: answered(9, time.Second), Endpoints: queue},
			engine(busyPages(readings{health.Running: 3})...), health.OwnQueue, health.High,
		},
		"our pacer holds calls back, and the engine computes nothing of the few that it has": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 7*time.Second)), Recent: answered(9, 10*time.Second), Endpoints: queue},
			engine(readings{health.Running: 3, health.Generated: 1000}, readings{health.Running: 3, health.Generated: 1000}), health.CannotTell, health.Low,
		},
		"our pacer holds calls back, and those that it let through get nowhere": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 2*time.Second)), Recent: answered(9, 2*time.Second), Endpoints: queue},
			nil, health.CannotTell, health.Low,
		},
		"our pacer holds calls back, and those that it let through get somewhere": {
			health.View{Calls: all(inPhase(9, llmclient.PhaseQueue, 12*time.Second), inPhase(3, llmclient.PhaseFirstOutput, 2*time.Second)), Recent: answered(9, 2*time.Second-1), Endpoints: queue},
			nil, health.OwnQueue, health.High,
		},
		"our pacer, not for long": {
			health.View{Calls: inPhase(4, llmclient.PhaseQueue, 8*time.Second-1), Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 4, WaitingFor: pacer.Rate}}}},
			engine(rest, rest), health.Idle, health.High,
		},
		"a tool": {
			health.View{Local: []health.Activity{{Caller: "a", What: "tool read", Since: ago(2 * time.Minute)}}},
			engine(rest, rest), health.StuckTool, health.High,
		},
		"a tool that is at work": {
			health.View{Local: []health.Activity{{Caller: "a", What: "tool read", Since: ago(2*time.Minute - 1)}}},
			engine(rest, rest), health.Idle, health.High,
		},
		"one caller of many": {
			health.View{Calls: waiting(1, 30*time.Second), Recent: answered(25, time.Second)},
			engine(busyPages(nil)...), health.OneCaller, health.Medium,
		},
		"one caller, not for long": {
			health.View{Calls: waiting(1, 30*time.Second-1), Recent: answered(25, time.Second)},
			engine(busyPages(nil)...), health.Busy, health.High,
		},
		"recovered": {
			health.View{Recent: answered(10, time.Second), Fault: &health.Verdict{State: health.WedgedEngine, At: ago(6 * time.Second)}},
			nil, health.Recovered, health.High,
		},
		"recovered: two are too few": {
			health.View{Recent: answered(10, time.Second), Fault: &health.Verdict{State: health.WedgedEngine, At: ago(5 * time.Second)}},
			nil, health.Healthy, health.High,
		},
		"idle after a fault": {
			health.View{Fault: &health.Verdict{State: health.WedgedEngine, At: ago(20 * time.Minute)}},
			nil, health.Unproven, health.High,
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
			if got.State == health.CannotTell {
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
		"saturated": health.Diagnose(saturated, sampled("engine", health.SGLang, health.RoleUnified, busyPages(readings{health.Waiting: 3})...)),
		"dark":      health.Diagnose(dark, sampled("engine", health.SGLang, health.RoleUnified, nil, nil)),
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
		Endpoints: []llmclient.EndpointStatus{{Pacer: pacer.Stats{Queued: 9, WaitingFor: pacer.InFlight}}},
	}
	engine := func(pages ...readings) []health.Sample {
		return sampled("engine", health.SGLang, health.RoleUnified, pages...)
	}
	const room = "the server has room: raise the pacer's limits"
	for name, c := range map[string]struct {
		samples []health.Sample
		want    string
	}{
		"it works, and nothing waits in it": {engine(busyPages(nil)...), room},
		"it is at rest":                     {engine(readings{health.Running: 0, health.Generated: 5}, readings{health.Running: 0, health.Generated: 5}), room},
		"its memory is full":                {engine(busyPages(readings{health.KVUsage: 0.9})...), "raise the pacer's limits if the server has room: its metrics would show whether it has"},
		"it tells nothing":                  {nil, "raise the pacer's limits if the server has room: its metrics would show whether it has"},
	} {
		got := health.Diagnose(view, c.samples)
		assert.Equal(t, health.OwnQueue, got.State, "%s: %s", name, got)
		assert.Equal(t, []string{c.want}, got.Do, name)
	}
}

// Whatever the facts are, there is a verdict and a page.
func TestDiagnoseTakesAnything(t *testing.T) {
	metrics := []health.Metric{
		health.Running, health.Waiting, health.PutOff, health.KVUsage, health.Throughput, health.Bootstrap, health.Inflight, health.Prealloc,
		health.Transferring, health.Connections, health.Active, health.StartTime, health.Requests, health.Finished, health.Aborted,
		health.Preempted, health.PromptTokens, health.Computed, health.Generated, health.Decoded, health.FirstTokens, health.Transfers, health.TransferFailed,
	}
	roles := []health.Role{"", health.RoleUnified, health.RolePrefill, health.RoleDecode, health.RoleRouter}
	reaches := []health.Reach{health.Reached, health.Reached, health.Reached, health.Refused, health.Silent, health.NoName, ""}
	kinds := []health.Kind{"", health.SGLang, health.VLLM, health.Gateway}
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
			v.Fault = &health.Verdict{State: health.WedgedEngine, At: when()}
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
		if health.Diagnose(v, samples).State != health.PartialRestart {
			b.Fatal("wrong")
		}
	}
}

// Two clients of one service, of which one's requests do not get there.
func TestOneOfTwoClientsSuffers(t *testing.T) {
	calls, recent := waiting(4, 20*time.Second), answered(25, time.Second)
	for i := range calls {
		calls[i].Endpoint = "http://proxy:3128/v1"
	}
	for i := range recent {
		recent[i].Endpoint = "http://engine:30000/v1"
	}
	v := health.Diagnose(health.View{Now: noon, Calls: calls, Recent: recent},
		sampled("engine", health.SGLang, health.RoleUnified, busyPages(readings{health.Running: 0})...))
	assert.Equal(t, health.Lost, v.State, "%s", v)
	assert.Contains(t, v.String(), "all that wait were sent by way of http://proxy:3128/v1; 18 calls that went another way were answered since")
	// Both ways the same: it is not the way.
	recent[24].Endpoint = "http://proxy:3128/v1"
	v = health.Diagnose(health.View{Now: noon, Calls: calls, Recent: recent},
		sampled("engine", health.SGLang, health.RoleUnified, busyPages(readings{health.Running: 0})...))
	assert.NotContains(t, v.String(), "by way of")
}
