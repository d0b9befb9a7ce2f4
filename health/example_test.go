package health_test

import (
	"fmt"
	"time"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// Both views of a moment make a verdict: here calls wait, and the engine has
// requests and computes nothing.
func ExampleDiagnose() {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	engine := health.Sample{Target: "engine", Kind: health.KindSGLang, Role: health.RoleUnified, Reach: health.ReachAnswered, Status: 200}
	engine.Readings = health.Readings{health.MetricRunning: 5, health.MetricWaiting: 2, health.MetricDecoded: 81_234, health.MetricComputed: 512_000}
	before, after := engine, engine
	before.At, after.At = now.Add(-10*time.Second), now

	v := health.Diagnose(health.View{
		Now: now,
		Calls: []llmclient.InFlight{
			{Call: 1, Phase: llmclient.PhaseOutput, Since: now.Add(-40 * time.Second), LastOutput: now.Add(-20 * time.Second)},
			{Call: 2, Phase: llmclient.PhaseFirstOutput, Since: now.Add(-30 * time.Second)},
		},
	}, []health.Sample{before, after})

	fmt.Println(v.State, "with", v.Confidence, "confidence")
	for _, f := range v.Evidence {
		fmt.Println("-", f)
	}
	fmt.Println("do:", v.Do[0])
	// Output:
	// wedged engine with high confidence
	// - 12:00:00 engine: it has requests and computes nothing: running 5 then 5, queue 2 then 2, decoded tokens +0, computed tokens +0 in 10s
	// - 12:00:00 1 of 2 calls are in phase first output; 2 got nowhere for at least 8s, the longest for 30s
	// do: take stacks of the scheduler's processes (py-spy dump), then restart the engine; it does not come back by itself
}

// What has changed since the last good run, the most suspicious first.
func ExampleCompare() {
	good := health.Fingerprint{Servers: []health.Server{{Name: "engine", Info: map[string]string{
		"attention_backend": "fa3", "log_level": "info",
	}}}}
	bad := health.Fingerprint{Servers: []health.Server{{Name: "engine", Info: map[string]string{
		"attention_backend": "flashinfer", "log_level": "debug",
	}}}}
	for _, d := range health.Compare(good, bad) {
		fmt.Printf("%3d %s: %s was %s, is %s; hidden from short benchmarks: %v\n", d.Suspicion, d.Where, d.What, d.Good, d.Bad, d.Hidden)
	}
	// Output:
	//  95 engine: attention_backend was fa3, is flashinfer; hidden from short benchmarks: true
	//  10 engine: log_level was info, is debug; hidden from short benchmarks: false
}

// A Monitor is wired to a client in two steps: Attach, before the client is made,
// and Watch, as soon as there is one. At rest nothing is asked and nothing claimed.
func ExampleMonitor_Attach() {
	mon, err := health.New(health.Config{
		Targets:   []health.Target{{URL: "http://localhost:30000"}},
		OnVerdict: func(v health.Verdict) { fmt.Println(v.Line()) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mon.Close()

	cfg := llmclient.Config{BaseURL: "http://localhost:30000/v1", Model: "qwen3"}
	mon.Attach(&cfg)
	client, err := llmclient.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	unwatch := mon.Watch(client)
	defer unwatch()

	fmt.Println(mon.Verdict().State)
	// Output:
	// idle
}
